//! Which mutexes a simulated thread holds: none where it comes to a point of the product.
//!
//! A point is at a latch, at the epoch, at a gate or in a wait for another thread. A mutex that is held there could be waited for
//! by the thread that has the latch, and no order of locks forbids that. So a mutex is a leaf: below it nothing is waited for but
//! another mutex.

use std::any::type_name;
use std::cell::RefCell;

use crate::sim::turn::{self, Place};

thread_local! {
    /// What each protects, by its type.
    static HELD: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Points at which a mutex may be held.
const ALLOWED: &[&str] = &[
    // Waking a thread: it orders two words of memory and waits for nothing.
    "AskFence",
    "SignalFence",
    // The epoch is bumped below the lock of its actions, so that these lie in the order of their epochs; a bump waits for nothing.
    "bumps the epoch",
    // Steps of the list of actions and of the server of latches are what their own mutexes protect, and latch nothing.
    "OneLock",
    "OneServer",
    "TakeGiven",
    // Messages of a channel are posted below its lock, for that is their order; posting takes the lock of a mailbox alone.
    "PostUnderLock",
    "mail is posted",
];

/// Types whose mutexes may be held at any point.
const OWNED: &[&str] = &[
    // The background of a store that has no threads for it: the thread that calls it has all of that, and no other one asks for it.
    "almandine_store::background::maintain::Maintenance",
    // Changes of the configuration, which may wait for all sessions: threads that wait for that mutex are outside of epochs, too.
    "almandine_config::config::Change",
];

/// The calling thread has locked a mutex.
pub(super) fn enter<T: ?Sized>() {
    HELD.with_borrow_mut(|held| held.push(type_name::<T>()));
}

/// It is about to unlock it.
pub(super) fn leave<T: ?Sized>() {
    let what = type_name::<T>();
    HELD.with_borrow_mut(|held| {
        if let Some(at) = held.iter().rposition(|other| *other == what) {
            held.remove(at);
        }
    });
}

/// Asserts that a simulated thread holds no mutex at a point, unless it may.
pub(in crate::sim) fn check(point: &'static str) {
    if turn::place() != Place::Thread || std::thread::panicking() || ALLOWED.contains(&point) {
        return;
    }
    let held = HELD.with_borrow(|held| held.iter().copied().find(|held| !OWNED.iter().any(|owned| held.contains(owned))));
    assert!(held.is_none(), "a mutex is held at the point \"{point}\": {}", held.unwrap_or_default());
}
