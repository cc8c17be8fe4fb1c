//! CLIENT TRACKING: which client may hold a copy of which key, and notifying it when the key changes.
//!
//! Two ways, as in Redis. By default a key that a tracking client reads is remembered with the client ([`table`]), and forgotten
//! with the one notification of its change. With BCAST a client names prefixes ([`registry`]) and is notified of every change below
//! them; nothing is remembered then.
//!
//! *The race of a read with a write.* A key is remembered before it is read, so a write that the read did not see finds it; and
//! once more after it was read if any message went out meanwhile, so that a later write finds it too. At worst a client is notified
//! once too often.
//!
//! *Which keys change* the store says itself: while a client tracks, each change is noted under the key's latch, whatever made it
//! (INV-CHANGE-1). A worker reports those of its batch; what is removed in the background, expired or to make room, comes by
//! [`Tracking::follow_changes`]. No command is asked what it does.

mod notify;
mod options;
mod registry;
mod table;
mod trackers;

pub use options::{Changed, TrackingOptions};
pub use trackers::{Tracking, TrackingTotals};

#[cfg(test)]
mod tests;
