//! Streams: entries with ascending ids, and groups of consumers that read them.
//!
//! ```text
//! entries     blocks in a tree, ordered by id, and the last block beside it, where entries are added    [`entries`], [`block`]
//! groups      each with its consumers and the list of what they have not acknowledged                   [`group`], [`pending`]
//! producers   whose entries have ids of their own, so that none is added twice                          [`producers`]
//! ```
//!
//! A stream has no packed form: a small one is an object of one block, which takes no tree. `docs/adr/0031-streams.md` says why.
//! [`StreamObject`] is what commands see and what the store holds.

mod chunk;
mod entry;
mod group;
mod id;
mod object;
mod producers;

pub use chunk::{NewStreamNode, NodeLimits, StreamNode};
pub use entry::{EntryFields, StreamEntry};
pub use group::{Consumer, Group, Pending, UNOWNED};
pub use id::{IdText, StreamId};
pub use object::{
    ENTRY_MAX_BYTES, Keep, StreamBackwards, StreamCounters, StreamEntries, StreamGroups, StreamIter, StreamObject, Trim,
};
pub use producers::{ProducerLimits, Producers};
