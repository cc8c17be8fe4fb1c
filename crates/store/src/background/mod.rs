//! Work that no session does: threads of the store's own, and their steps.
//!
//! *Maintenance* keeps pages ready, resizes the index, removes what has expired, evicts ahead of need, sweeps emptied
//! namespaces and evacuates sparse pages. With a device two more run: `flusher`, whose steps are in `flush`, and `compactor`,
//! whose steps are in `compact` and `expire`. All of them use sessions; nothing below knows of them.

mod compact;
pub(crate) mod compactor;
mod empty;
mod evacuate;
mod evict;
mod expire;
mod flush;
pub(crate) mod flusher;
mod image;
pub(crate) mod maintain;
mod mixed;
#[cfg(all(test, loom))]
mod model;
mod pace;
mod rebuild;
mod reclaim;
mod salvage;
mod sweep;
