//! What the commands of the family have in common: the first key as a sorted set, to be read or to be changed, and members in
//! replies.

use almandine_command_spec::{CommandSpec, Group};
use almandine_config::Settings;
use almandine_handler::{Stop, WriteCall};
use almandine_keyspace::types::sorted_set::{Scored, SortedSetLimits, SortedSetMut, SortedSets};
use almandine_recovery::put::ValueLimits;
use almandine_resp::reply::write_header;
use almandine_resp::{ProtocolVersion, Reply, number};

/// What most specs of the family have in common.
pub(super) const SORTED_SET: CommandSpec = CommandSpec { since: "1.2.0", group: Group::SortedSet, ..CommandSpec::BLANK };

/// How large a sorted set may be that OBJECT ENCODING names a listpack.
#[must_use]
pub fn limits(settings: &Settings) -> SortedSetLimits {
    ValueLimits::of(settings).sorted_set
}

/// The first key as a sorted set to be changed.
pub(super) fn change<'s>(call: &'s mut WriteCall<'_>) -> Result<SortedSetMut<'s>, Stop> {
    let key = call.key(1);
    let limits = limits(call.context.settings());
    Ok(call.keys.write_as::<SortedSets>(key, limits)?)
}

/// How members are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Members alone.
    Members,
    /// Members and scores alternate.
    Flat,
    /// An array of two for each member.
    Pairs,
}

impl Shape {
    /// That of WITHSCORES in the protocol that the client speaks.
    pub(super) fn of(reply: &Reply<'_>, with_scores: bool) -> Self {
        match reply.version() {
            _ if !with_scores => Self::Members,
            ProtocolVersion::Resp2 => Self::Flat,
            ProtocolVersion::Resp3 => Self::Pairs,
        }
    }

    /// Elements of the array that `members` members are.
    pub(super) fn elements(self, members: usize) -> usize {
        if self == Self::Flat { 2 * members } else { members }
    }

    /// Appends a member to the rest of a reply.
    pub(super) fn append(self, out: &mut Vec<u8>, entry: &Scored<'_>) {
        if self == Self::Pairs {
            write_header(out, b'*', 2);
        }
        append_bulk(out, entry.member);
        match self {
            Self::Members => {}
            Self::Pairs => {
                out.push(b',');
                number::write_double(out, entry.score);
                out.extend_from_slice(b"\r\n");
            }
            Self::Flat => {
                let mut score = Vec::with_capacity(24);
                number::write_double(&mut score, entry.score);
                append_bulk(out, &score);
            }
        }
    }

    /// Answers a member.
    #[inline]
    pub(super) fn write(self, reply: &mut Reply<'_>, entry: &Scored<'_>) {
        if self == Self::Pairs {
            reply.array(2);
        }
        reply.bulk(entry.member);
        if self != Self::Members {
            reply.double(entry.score);
        }
    }
}

/// Appends a string to the rest of a reply.
pub(super) fn append_bulk(out: &mut Vec<u8>, text: &[u8]) {
    write_header(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}
