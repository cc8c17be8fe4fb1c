//! CLIENT TRACKING: which client may hold a copy of which key, and notifying it when the key changes.
//!
//! Two ways, as in Redis. By default a key that a tracking client reads is remembered with the client ([`table`]), and forgotten with the
//! one notification of its change. With BCAST a client names prefixes ([`registry`]) and is notified of every change below them; nothing is
//! remembered then.
//!
//! *The race of a read with a write.* A key is remembered before it is read, so a write that the read did not see finds it; and once more
//! after it was read if any message went out meanwhile, so that a later write finds it too. At worst a client is notified once too often.
//!
//! *What no command changes.* While somebody tracks, the store reports the keys that it removes by itself, expired or to make room, and never
//! before somebody could have read one without being remembered (INV-REMOVED-1). Its background thread brings them to
//! [`Tracking::follow_removals`].
//!
//! While nobody tracks, all of this costs the callers a relaxed load before and after a group of commands ([`Tracking::active`]).

mod notify;
mod options;
mod registry;
mod table;
mod trackers;

pub use options::{Changed, TrackingOptions};
pub use trackers::{Tracking, TrackingTotals};

#[cfg(test)]
mod tests;
