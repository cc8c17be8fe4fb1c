//! A session: one thread's way into the store.
//!
//! It owns what its thread needs to work alone (`local`): an epoch slot, a chunk of the tail, bins of freed space, its
//! counters. From below: space for records (`allocate`, `remove`), making room (`heat::evict`), batches (`batch`), and the verbs:
//! `read` and `entry` (upsert, modify and delete are ways to use an entry). The rest is in handles, which borrow the session for a
//! call: [`Plan`] for latches, [`Ahead`] for prefetching, [`Notes`] for changes and events, [`ReadyKeys`] for waiters, [`Keys`] for
//! scans, [`Heat`], and [`Cold`] and [`Staging`] for what is on a device.

mod adopt;
pub(crate) mod allocate;
mod batch;
pub(crate) mod blocking;
pub(crate) mod check;
pub(crate) mod cold;
mod dead_keys;
pub(crate) mod entry;
pub(crate) mod found;
pub(crate) mod heat;
mod notes;
mod open_unit;
pub(crate) mod plan;
mod read;
pub(crate) mod remove;
pub(crate) mod scan;
pub(crate) mod thread_state;
mod touched;
pub(crate) mod unit;
mod view;
mod walk;

pub use adopt::{AdoptFault, Adoption};
pub use batch::Session;
pub use blocking::latch_coordinator::ServerEnd;
pub use blocking::ready_keys::ReadyKeys;
pub use cold::{Cold, Need, Staging};
pub use entry::{ElementsMut, Occupied, Pair, Slot, Told, Vacant};
pub use heat::Heat;
pub use notes::{Concerns, Notes};
pub use plan::Plan;
pub use plan::ahead::{Ahead, Expected};
pub use plan::long_units::LongUnits;
pub use scan::{Keys, Scanned};
pub use view::View;
pub use walk::Walk;
