//! The waist: databases of typed values over the store.
//!
//! **Is**: what command handlers see of the data: a [`Reader`] that cannot write, a [`Writer`] that can, keys that carry their
//! hash, values with kind, expiry and entity tag. Logical databases are mapped to the store's namespaces here, so emptying or
//! swapping them is O(1).
//! **Is not**: aware of commands, clients or RESP; it does no I/O.
//! **Invariants**: INV-NS-1 (a namespace is reused only after its records are gone). A handler reads and changes only keys of
//! its lock plan once it has one; for others the verbs return [`Missing::Unplanned`].
//! **Start reading at**: [`Keyspace`], [`Reader`], [`Writer`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod access;
mod blocking;
mod changes;
mod key_table;
pub mod types;
mod watch;

pub use access::accessor::{Accessor, Key, KeyGroup};
pub use access::copying::{CopiedDatabase, CopiedKey, Copying, KeyUse};
pub use access::databases::{Keyspace, Options};
pub use access::destinations::Filled;
pub use access::dumping::{DeviceAccess, DumpedKey, Dumping};
pub use access::frequency;
pub use access::plan::KeyPlan;
pub use access::reader::{KeyHeat, Metadata, Reader};
pub use access::unit::UnitOfWork;
pub use access::value::{Owned, Value};
pub use access::writer::{Copies, Writer};
pub use almandine_base::object::Missing;
#[cfg(debug_assertions)]
pub use almandine_store::limit_allocations;
pub use almandine_store::{
    AdoptFault, Begin, Body, Change, Changes, CipherRow, Cold, ColdKey, Concerns, CopyReads, DeviceBase, DeviceLease, Effect,
    EvictionOrder, EvictionPolicy, Fetch, Fetcher, Figures, Full, GlanceId, HeapValue, KeptDevice, Kind, LongUnits, MemoryUse,
    Need, Occupied, PageFault, PageNonce, PageReader, PageRow, PageWriter, Put, ReadyKey, RemovalReason, Settings, SharedValue,
    Slot, Stage, Storage, StorageCiphers, StoreDevice, Stored, TierStatistics, Totals, Vacant, Work,
};
pub use blocking::queues::{Awaited, EndOfWait, WaitedKeys, Waiter, WaiterKeys};
pub use blocking::serve_waiters::Secured;
pub use blocking::wait::{WaiterQueues, WaiterService};
pub use changes::events::KeyEvents;
pub use changes::feed::{ChangeFeed, Listeners};
pub use changes::held::{holds_messages, resume_holding, suspend_holding};
pub use changes::listeners::{ChangedKey, KeyEvent};
pub use changes::log::KeyspaceLog;
pub use types::{Refusal, WrongKind};
pub use watch::table::Watcher;
pub use watch::watched_keys::{Watched, WatchedKeys};
