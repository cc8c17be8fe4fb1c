//! Blocking: keys that a unit of work has made ready for their waiters, and latches that it takes out of order to serve them.

pub(crate) mod latch_coordinator;
#[cfg(all(test, loom))]
mod model;
pub(crate) mod ready_keys;
