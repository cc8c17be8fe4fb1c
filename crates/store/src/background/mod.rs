//! Work that no session does: threads of the store's own, and their steps.
//!
//! *Maintenance* keeps pages ready, resizes the index, removes what has expired, evicts ahead of need, sweeps emptied namespaces and
//! evacuates sparse pages. With a device three more run: `flusher`, `compactor` and `resolver`, whose steps are in `flush`, `compact` and
//! `resolve`. All of them use sessions; nothing below knows of them.

mod compact;
pub(crate) mod compactor;
mod empty;
mod evacuate;
mod evict;
mod flush;
pub(crate) mod flusher;
mod image;
pub(crate) mod maintain;
mod mixed;
mod pace;
mod reclaim;
mod resolve;
pub(crate) mod resolver;
mod retry;
mod salvage;
