//! The filters of CLIENT LIST and CLIENT KILL: those of Redis, and those of Valkey 8.1 and 9.

use std::sync::atomic::Ordering::Relaxed;

use almandine_acl::Users;
use almandine_datatypes::number::parse_i64;
use almandine_handler::{CommandError, Options, Word, errors};
use almandine_instance::ClientShared;

/// The letters of CLIENT LIST's flags that a filter may name.
const FLAGS: &[u8] = b"OSMPxtRBdrbuAUceTIiECN";
/// The letter of a client without flags.
const NO_FLAG: &[u8] = b"N";
/// What a client may say with CLIENT CAPA: that it understands redirections.
const CAPABILITIES: &[u8] = b"r";

/// Which clients are meant. Every filter that is given must match; of one that is given twice the later counts, but all numbers of
/// ID do.
#[derive(Default)]
pub(super) struct ClientFilter<'c> {
    /// Those of ID, in the order given. Numbers that no client can have are kept, because CLIENT LIST takes them.
    pub(super) ids: Option<Vec<i64>>,
    not_ids: Vec<i64>,
    conditions: Vec<Condition<'c>>,
    age_s_min: Option<i64>,
    idle_s_min: Option<i64>,
    /// Whether the calling client is left out.
    pub(super) skip_me: bool,
}

/// What values of filters may name.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    /// How many databases there are.
    pub(super) databases: usize,
    /// The users.
    pub(super) users: &'k Users,
}

/// What must be so, or with `NOT-` before its name must not.
struct Condition<'c> {
    what: What<'c>,
    negated: bool,
}

enum What<'c> {
    Kind(ClientKind),
    Address(&'c [u8]),
    LocalAddress(&'c [u8]),
    User(&'c [u8]),
    Name(&'c [u8]),
    Flags(&'c [u8]),
    LibraryName(&'c [u8]),
    LibraryVersion(&'c [u8]),
    Database(u16),
    Capabilities(&'c [u8]),
    Ip(&'c [u8]),
}

/// CLIENT LIST TYPE. There are no primaries and no replicas until replication is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientKind {
    Normal,
    Primary,
    Replica,
    PubSub,
}

impl ClientKind {
    fn parse(name: &[u8]) -> Result<Self, CommandError> {
        Ok(match name.to_ascii_lowercase().as_slice() {
            b"normal" => Self::Normal,
            b"master" | b"primary" => Self::Primary,
            b"slave" | b"replica" => Self::Replica,
            b"pubsub" => Self::PubSub,
            _ => return Err(errors::client::unknown_type(name)),
        })
    }
}

impl<'c> ClientFilter<'c> {
    /// Reads CLIENT KILL's filters, each a name and a value. `known` says what values may name.
    pub(super) fn for_kill(options: Options<'c>, known: Known<'_>) -> Result<Self, CommandError> {
        let id = |value: &[u8]| parse_i64(value).filter(|id| *id > 0).ok_or(errors::client::INVALID_ID);
        Self { skip_me: true, ..Self::default() }.parse(options, known, id)
    }

    /// As [`ClientFilter::for_kill`], for CLIENT LIST.
    pub(super) fn for_list(options: Options<'c>, known: Known<'_>) -> Result<Self, CommandError> {
        Self::default().parse(options, known, |value| parse_i64(value).ok_or(errors::client::INVALID_ID_LIST))
    }

    fn parse(
        mut self,
        mut options: Options<'c>,
        known: Known<'_>,
        id: impl Fn(&[u8]) -> Result<i64, CommandError>,
    ) -> Result<Self, CommandError> {
        while let Some(Word(option)) = options.next() {
            let (name, negated) = match option.get(..4) {
                Some(prefix) if prefix.eq_ignore_ascii_case(b"NOT-") => (Word(&option[4..]), true),
                _ => (Word(option), false),
            };
            let value = options.value()?;
            let what = match name {
                o if o.is("ID") => {
                    let mut ids = vec![id(value)?];
                    while let Some(next) = options.peek().filter(|next| parse_i64(next).is_some()) {
                        ids.push(id(next)?);
                        options.next();
                    }
                    if negated {
                        self.not_ids.append(&mut ids);
                    } else {
                        self.ids.get_or_insert_default().append(&mut ids);
                    }
                    continue;
                }
                o if o.is("TYPE") => What::Kind(ClientKind::parse(value)?),
                o if o.is("ADDR") => What::Address(value),
                o if o.is("LADDR") => What::LocalAddress(value),
                o if o.is("USER") => What::User(known_user(value, known.users)?),
                o if o.is("NAME") => What::Name(value),
                o if o.is("FLAGS") => What::Flags(known_letters(value, FLAGS, errors::client::unknown_flags)?),
                o if o.is("LIB-NAME") => What::LibraryName(value),
                o if o.is("LIB-VER") => What::LibraryVersion(value),
                o if o.is("DB") => What::Database(database(value, known.databases)?),
                o if o.is("CAPA") => What::Capabilities(known_letters(value, CAPABILITIES, errors::client::unknown_capability)?),
                o if o.is("IP") => What::Ip(value),
                o if o.is("MAXAGE") && !negated => {
                    self.age_s_min =
                        Some(seconds(value, errors::client::MAX_AGE_NOT_INTEGER, errors::client::MAX_AGE_NOT_POSITIVE)?);
                    continue;
                }
                o if o.is("IDLE") && !negated => {
                    self.idle_s_min = Some(seconds(value, CommandError::NotInteger, errors::client::IDLE_NOT_POSITIVE)?);
                    continue;
                }
                o if o.is("SKIPME") && !negated => {
                    self.skip_me = yes_or_no(value)?;
                    continue;
                }
                _ => return Err(CommandError::Syntax),
            };
            let replaced = |other: &Condition<'_>| {
                other.negated == negated && std::mem::discriminant(&other.what) == std::mem::discriminant(&what)
            };
            self.conditions.retain(|other| !replaced(other));
            self.conditions.push(Condition { what, negated });
        }
        Ok(self)
    }

    /// Whether a client is meant, but for [`ClientFilter::skip_me`].
    pub(super) fn matches(&self, client: &ClientShared, now_ms: i64) -> bool {
        let lasts = |since_ms: i64, least_s: Option<i64>| least_s.is_none_or(|s| now_ms - since_ms >= s.saturating_mul(1000));
        self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id.cast_signed()))
            && !self.not_ids.contains(&client.id.cast_signed())
            && self.conditions.iter().all(|condition| condition.what.is_so_of(client) != condition.negated)
            && lasts(client.created_ms, self.age_s_min)
            && lasts(client.activity.at_ms.load(Relaxed), self.idle_s_min)
            && !client.killed.load(Relaxed)
    }
}

impl What<'_> {
    fn is_so_of(&self, client: &ClientShared) -> bool {
        match *self {
            Self::Kind(ClientKind::Normal) => !client.subscriptions.any.load(Relaxed),
            Self::Kind(ClientKind::PubSub) => client.subscriptions.any.load(Relaxed),
            Self::Kind(_) => false,
            Self::Address(address) => address == client.address.as_bytes(),
            Self::LocalAddress(address) => address == client.local_address.as_bytes(),
            Self::User(user) => user == client.identity().user.as_bytes(),
            Self::Name(name) => name == client.identity().name.as_bytes(),
            Self::Flags(letters) => letters.iter().all(|letter| client.flags().as_bytes().contains(letter)),
            Self::LibraryName(name) => name == client.identity().library_name.as_bytes(),
            Self::LibraryVersion(version) => version == client.identity().library_version.as_bytes(),
            Self::Database(db) => db == client.activity.db.load(Relaxed),
            Self::Capabilities(capabilities) => capabilities.iter().all(|_| client.modes.redirects.load(Relaxed)),
            Self::Ip(ip) => client.address.rsplit_once(':').is_some_and(|(own, _)| own.trim_matches(['[', ']']).as_bytes() == ip),
        }
    }
}

fn known_user<'v>(user: &'v [u8], users: &Users) -> Result<&'v [u8], CommandError> {
    if users.find(user).is_some() { Ok(user) } else { Err(errors::client::no_such_user(user)) }
}

fn known_letters<'v>(value: &'v [u8], known: &[u8], error: fn(&[u8]) -> CommandError) -> Result<&'v [u8], CommandError> {
    if value == NO_FLAG || value.iter().all(|letter| known.contains(letter)) { Ok(value) } else { Err(error(value)) }
}

fn database(value: &[u8], databases: usize) -> Result<u16, CommandError> {
    let number = parse_i64(value).ok_or(CommandError::NotInteger)?;
    let known = usize::try_from(number).ok().filter(|number| *number < databases);
    known.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| errors::client::database_beyond(databases - 1))
}

fn seconds(value: &[u8], no_number: CommandError, not_positive: CommandError) -> Result<i64, CommandError> {
    match parse_i64(value) {
        None => Err(no_number),
        Some(seconds) if seconds <= 0 => Err(not_positive),
        Some(seconds) => Ok(seconds),
    }
}

fn yes_or_no(value: &[u8]) -> Result<bool, CommandError> {
    match value.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}
