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

mod block;
mod counters;
mod entries;
mod entry;
mod group;
mod groups;
mod id;
mod image;
mod iter;
mod node;
mod object;
mod pending;
mod producers;
mod radix;
mod sorted;
mod varint;

pub use block::NodeLimits;
pub use counters::Counters;
pub use entries::{Keep, Trim};
pub use entry::{Entry, Fields};
pub use group::{Consumer, Group};
pub use id::{IdText, StreamId};
pub use iter::{Backwards, Iter};
pub(crate) use node::{NewNode, Node};
pub use object::{ENTRY_MAX_BYTES, StreamObject};
pub use pending::{NOBODY, Pending};
pub use producers::{ProducerLimits, Producers};
