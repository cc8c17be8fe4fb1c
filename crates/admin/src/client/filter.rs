//! The filters of CLIENT KILL and CLIENT LIST.

use std::sync::atomic::Ordering::Relaxed;

use almandine_call::{CommandError, Options, errors};
use almandine_datatypes::number::parse_i64;
use almandine_node::ClientShared;

use crate::names::DEFAULT_USER;

/// Which clients are meant. Every filter that is given must match.
#[derive(Default)]
pub(super) struct ClientFilter<'c> {
    id: Option<u64>,
    kind: Option<ClientKind>,
    address: Option<&'c [u8]>,
    local_address: Option<&'c [u8]>,
    user: Option<&'c [u8]>,
    age_s_min: Option<i64>,
    /// Whether the calling client is left out.
    pub(super) skip_me: bool,
}

/// CLIENT LIST TYPE. Only normal clients exist until replication and publish/subscribe do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientKind {
    Normal,
    Primary,
    Replica,
    PubSub,
}

impl ClientKind {
    pub(super) fn parse(name: &[u8]) -> Result<Self, CommandError> {
        Ok(match name.to_ascii_lowercase().as_slice() {
            b"normal" => Self::Normal,
            b"master" | b"primary" => Self::Primary,
            b"slave" | b"replica" => Self::Replica,
            b"pubsub" => Self::PubSub,
            _ => return Err(errors::unknown_client_type(name)),
        })
    }
}

impl<'c> ClientFilter<'c> {
    /// Reads CLIENT KILL's filters, each a name and a value.
    pub(super) fn parse(mut options: Options<'c>) -> Result<Self, CommandError> {
        let mut filter = Self { skip_me: true, ..Self::default() };
        while let Some(option) = options.next() {
            let value = options.value()?;
            match option {
                o if o.is("ID") => filter.id = Some(client_id(value).ok_or(CommandError::InvalidClientId)?),
                o if o.is("TYPE") => filter.kind = Some(ClientKind::parse(value)?),
                o if o.is("ADDR") => filter.address = Some(value),
                o if o.is("LADDR") => filter.local_address = Some(value),
                o if o.is("USER") => filter.user = Some(known_user(value)?),
                o if o.is("MAXAGE") => filter.age_s_min = Some(max_age(value)?),
                o if o.is("SKIPME") => filter.skip_me = yes_or_no(value)?,
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(filter)
    }

    pub(super) fn matches(&self, client: &ClientShared, now_ms: i64) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.kind.is_none_or(|kind| kind == ClientKind::Normal)
            && self.address.is_none_or(|address| address == client.address.as_bytes())
            && self.local_address.is_none_or(|address| address == client.local_address.as_bytes())
            && self.user.is_none_or(|user| user == client.identity().user.as_bytes())
            && self.age_s_min.is_none_or(|age_s| now_ms - client.created_ms >= age_s.saturating_mul(1000))
            && !client.killed.load(Relaxed)
    }
}

/// A client's number, which is positive.
fn client_id(value: &[u8]) -> Option<u64> {
    parse_i64(value).filter(|id| *id > 0).and_then(|id| u64::try_from(id).ok())
}

fn known_user(user: &[u8]) -> Result<&[u8], CommandError> {
    if user == DEFAULT_USER { Ok(user) } else { Err(errors::no_such_user(user)) }
}

fn max_age(value: &[u8]) -> Result<i64, CommandError> {
    match parse_i64(value) {
        None => Err(CommandError::MaxAgeNotInteger),
        Some(age_s) if age_s <= 0 => Err(CommandError::MaxAgeNotPositive),
        Some(age_s) => Ok(age_s),
    }
}

fn yes_or_no(value: &[u8]) -> Result<bool, CommandError> {
    match value.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}
