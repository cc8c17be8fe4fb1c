//! Streams, in the forms that servers of the family have written since Redis 5.0.
//!
//! ```text
//! 15  nodes: how many, then for each its id and a listpack of entries       Redis 5.0 to 6.2
//!     entries, last id
//!     groups: how many, then for each its name, last id, what is pending, and its consumers
//! 19  also the first id, the highest deleted one, entries added, and what each group has read
//! 21  also when each consumer was active
//! 26  also producers
//! 27  also what is pending and has no consumer
//! ```
//!
//! In a node's listpack are numbers and texts:
//!
//! ```text
//! entries, deleted entries, number of fields, fields, 0
//! for each entry: flags, milliseconds and number less the node's, then number of fields, fields and values in turn, and how many
//! elements these are
//! ```
//!
//! An entry whose flags say so has the node's fields, and its values alone; another flag marks those that are deleted.

mod read;
mod write;

use super::footer;
use crate::types;

pub use read::read;
pub use write::{write, write_without_activity};

/// Flags of an entry.
const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Bytes of an id where it is no number: both parts, the most significant byte first.
const ID_BYTES: usize = 16;
/// What stands for a time that never was.
const NEVER: u64 = u64::MAX;
/// What stands for an unknown number of entries.
const UNKNOWN: u64 = u64::MAX;

/// In what form a stream is written: the oldest one that says all there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamForm {
    /// As Redis 7.0 does.
    Plain,
    /// With times of consumers.
    Active,
    /// With producers.
    Producers,
    /// With what is pending and has no consumer.
    Released,
}

impl StreamForm {
    /// Its type byte.
    #[must_use]
    pub fn value_type(self) -> u8 {
        match self {
            Self::Plain => types::STREAM_LISTPACKS_2,
            Self::Active => types::STREAM_LISTPACKS_3,
            Self::Producers => types::STREAM_LISTPACKS_4,
            Self::Released => types::STREAM_LISTPACKS_5,
        }
    }

    /// The oldest version whose readers know it: for the footer.
    #[must_use]
    pub fn version(self) -> u16 {
        match self {
            Self::Plain => footer::VERSION_REDIS_7_0,
            Self::Active => footer::VERSION_REDIS_7_2,
            Self::Producers | Self::Released => footer::VERSION_REDIS_8_6,
        }
    }
}

/// Whether a type byte begins a stream.
#[must_use]
pub fn is_type(value_type: u8) -> bool {
    matches!(
        value_type,
        types::STREAM_LISTPACKS
            | types::STREAM_LISTPACKS_2
            | types::STREAM_LISTPACKS_3
            | types::STREAM_LISTPACKS_4
            | types::STREAM_LISTPACKS_5
    )
}
