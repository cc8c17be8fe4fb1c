//! A session: one thread's way into the store.
//!
//! It owns what its thread needs to work alone (`local`): an epoch slot, a chunk of the tail, bins of freed space, its
//! counters. From below: space for records (`allocate`, `remove`), making room (`evict`), batches (`batch`), and the verbs:
//! `read`, `entry` (upsert, modify and delete are ways to use an entry), `lock`, `scan`, and `cold` for what is on a device.

mod ahead;
pub(crate) mod allocate;
mod batch;
pub(crate) mod check;
mod cold;
pub(crate) mod copies;
mod dead_keys;
pub(crate) mod desk;
mod entry;
pub(crate) mod evict;
pub(crate) mod found;
mod glances;
mod hand_over;
mod heat;
mod held;
mod local;
mod lock;
#[cfg(all(test, loom))]
mod model;
mod notes;
mod read;
pub(crate) mod remove;
pub(crate) mod scan;
mod staged;
mod touched;
mod view;
mod warmer;

pub use ahead::Expected;
pub use batch::Session;
pub use cold::{Met, Need};
pub use entry::{Occupied, Pair, Slot, Vacant};
pub use view::View;
