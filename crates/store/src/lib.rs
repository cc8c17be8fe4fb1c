//! The storage engine: a latch-free hash index over a hybrid log.
//!
//! **Is**: a concurrent map from byte keys to values, in memory, for many threads: reads take no latch and write no shared
//! memory, writes latch one cache line. Records live in a log with in-place updates; dead space is reused or compacted;
//! expiry, namespaces that empty in O(1), exact counts and a scan that survives resizing are part of it.
//! **Is not**: aware of commands, protocols or databases; it does no I/O and knows no clock but the time it is told.
//! **Invariants**: INV-READ-1, INV-LATCH-1…3, INV-INDEX-1…3, INV-LOG-1…2, INV-FREE-1, INV-NS-1, INV-SCAN-1 in
//! `docs/INVARIANTS.md`.
//! **Start reading at**: [`Store`] and [`Session`]; then the files `record.rs`, `index/mod.rs`, `log/mod.rs`.
//!
//! ```
//! use almandine_store::{Kind, Options, Put, Slot, Store};
//!
//! let store = Store::open(Options::default())?;
//! let namespace = store.allocate_namespace()?;
//! let mut session = store.session().expect("a free session");
//! session.enter(0);
//! let key = session.key(namespace, b"greeting");
//! session.upsert(key, b"hello", Put::default())?;
//! if let Slot::Occupied(mut entry) = session.entry(key) {
//!     entry.append(b" world")?;
//! }
//! let mut value = Vec::new();
//! session.read(key, |view| {
//!     value.clear();
//!     view.append_to(&mut value);
//! });
//! session.leave();
//! assert_eq!(value, b"hello world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compact;
mod counters;
mod evict;
mod expiry;
mod free;
mod heap;
mod index;
mod log;
mod maintain;
mod namespace;
mod pace;
mod record;
mod session;
mod store;
mod sync;
mod tier;

pub use counters::Totals;
pub use evict::{EvictionOrder, EvictionPolicy};
pub use heap::{HeapString, SharedString};
pub use record::Kind;
pub use session::heat::HeatRule;
pub use session::{Full, Key, Met, Need, Occupied, Put, Session, Slot, Vacant, View};
pub use store::{MemoryUse, Options, Store, Work};
pub use tier::stage::{Fetch, Fetcher, Stage};
pub use tier::{CopyReads, Storage, TierStatistics};
