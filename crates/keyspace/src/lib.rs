//! The waist: databases of typed values over the store.
//!
//! **Is**: what command handlers see of the data: a [`Reader`] that cannot write, a [`Writer`] that can, keys that carry their
//! hash, values with kind, expiry and entity tag. Logical databases are mapped to the store's namespaces here, so emptying or
//! swapping them is O(1).
//! **Is not**: aware of commands, clients or RESP; it does no I/O.
//! **Invariants**: INV-NS-1 (a namespace is reused only after its records are gone). A handler reads and changes only keys of
//! its lock plan once it has one.
//! **Start reading at**: [`Keyspace`], [`Reader`], [`Writer`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod accessor;
mod changes;
mod databases;
mod effects;
mod events;
mod hand_over;
mod listeners;
mod named;
mod namespaces;
mod reader;
mod second_keys;
pub mod types;
mod unit;
mod value;
mod waiters;
mod waiting;
mod watch;
mod watching;
mod writer;

pub use accessor::{Accessor, Key, Missing};
#[cfg(debug_assertions)]
pub use almandine_store::limit_allocations;
pub use almandine_store::{
    Begin, Body, Change, Changes, CopyReads, Effect, EvictionOrder, EvictionPolicy, Fetch, Full, GlanceId, Kind, MemoryUse, Need,
    Occupied, Put, ReadyKey, RemovalReason, SharedValue, Slot, Stage, Storage, TierStatistics, Totals, Vacant, Work,
};
pub use databases::{Keyspace, Options};
pub use hand_over::Secured;
pub use listeners::{ChangedKey, KeyEvent};
pub use reader::{Metadata, Reader, WrongKind};
pub use second_keys::Filled;
pub use types::Refusal;
pub use value::{Owned, Value};
pub use waiters::{Awaited, EndOfWait, WaitedKeys, Waiter, WaiterKeys};
pub use watch::Watcher;
pub use watching::Watched;
pub use writer::Writer;
