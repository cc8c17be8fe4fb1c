//! Work that no session does: threads of the store's own, and their steps.
//!
//! *Maintenance* keeps pages ready, resizes the index, removes what has expired, evicts ahead of need, sweeps emptied
//! namespaces and evacuates sparse pages. With a device two more run: `flusher`, whose steps are in `flush`, and `compactor`,
//! whose steps are in `compact`, `expire` and `ahead`. All of them use sessions; nothing below knows of them.

pub(crate) mod ahead;
pub(crate) mod compact;
mod evict;
pub(crate) mod expire;
pub(crate) mod flush;
mod idle;
pub(crate) mod maintain;
#[cfg(all(test, loom))]
mod model;
mod pace;
mod sweep;
