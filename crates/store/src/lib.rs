//! The storage engine: a hash index over a hybrid log. `docs/store.md` describes its design.
//!
//! **Is**: a concurrent map from byte keys to values, for many threads: reads take no latch and write no shared memory, writes
//! latch one cache line. Records live in a log with in-place updates; dead space is reused or compacted; expiry, namespaces
//! that empty in O(1), counts and a scan that survives resizing are part of it. What does not fit the memory budget goes to a
//! device, if there is one ([`Options::storage`]), or is evicted ([`Settings::set_eviction`]).
//! **Is not**: aware of commands, protocols or databases. A session does no I/O: it says which records it needs, and its caller
//! reads them. A session takes the time of a batch from its caller; the background threads read the clock.
//! **Invariants**: INV-READ-1, INV-LATCH-1…4, INV-WHOLE-1, INV-INDEX-1…3, INV-LOG-1…2, INV-TIER-1…3, INV-FREE-1, INV-NS-1,
//! INV-EXP-1, INV-CHANGE-1, INV-EFFECT-1, INV-SCAN-1…2 in `docs/INVARIANTS.md`.
//! **Start reading at**: [`Store`] and [`Session`]; then the files `record/mod.rs`, `index/mod.rs`, `log/mod.rs`, `tier/mod.rs`, in
//! which records lie; `shared/mod.rs`, what sessions share; `session/mod.rs`; `background/mod.rs`; each knows only those before
//! it; and `examples/word_count.rs` and `examples/larger_than_memory.rs` for its use by threads that have no server around
//! them.
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
//! if let Slot::Occupied(mut entry) = session.entry(key)? {
//!     entry.append(b" world")?;
//! }
//! let mut value = Vec::new();
//! session.read(key, |view| {
//!     value.clear();
//!     view.append_to(&mut value);
//! })?;
//! session.leave();
//! assert_eq!(value, b"hello world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod background;
mod changes;
mod copying;
mod counters;
mod device;
mod evict;
mod expiry;
mod failing;
mod figures;
mod free;
mod full;
mod index;
mod listeners;
mod log;
mod memory;
mod namespace;
mod operation_log;
mod options;
mod progress;
mod record;
mod session;
mod settings;
mod shared;
mod store;
mod sync;
mod tier;

pub use almandine_base::object::Missing;
pub use changes::events::Event;
pub use changes::{Body, Change, Changes, Effect, RemovalReason, elements, push_element};
pub use copying::records::{ColdKey, RecordCopy, Records};
pub use counters::Totals;
pub use device::{DeviceBase, StoreDevice};
pub use evict::heat::HeatRule;
pub use evict::{EvictionOrder, EvictionPolicy};
#[cfg(debug_assertions)]
pub use failing::limit_allocations;
pub use figures::Figures;
pub use full::{Full, NotSet};
pub use index::prefetch;
pub use listeners::Listeners;
pub use memory::MemoryUse;
pub use operation_log::OperationLog;
pub use options::{KeptDevice, Options};
pub use progress::Work;
pub use record::heap::{HeapValue, SharedValue};
pub use record::key::{GlanceId, Key, ReadyKey};
pub use record::put::Put;
pub use record::{Kind, fits_inline};
pub use session::{
    AdoptFault, Adoption, Ahead, Cold, Concerns, ElementsMut, Expected, Heat, Keys, LongUnits, Need, Notes, Occupied, Pair, Plan,
    ReadyKeys, Scanned, ServerEnd, Session, Slot, Staging, Told, Vacant, View, Walk,
};
pub use settings::Settings;
pub use shared::consumers::Consumer;
pub use shared::written::{SHARED_LINES, SharedLine, shared_lines_written};
pub use store::Store;
pub use tier::ciphers::{CipherRow, PageNonce, StorageCiphers};
pub use tier::page_copy::{PageFault, PageReader, Stored};
pub use tier::page_put::PageWriter;
pub use tier::pages::PageRow;
pub use tier::read::stage::{Begin, Fetch, Fetcher, Stage};
pub use tier::retained::DeviceLease;
pub use tier::statistics::TierStatistics;
pub use tier::{CopyReads, Storage};
