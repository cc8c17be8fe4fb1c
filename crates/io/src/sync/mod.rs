//! Locks, and waits for what another thread does: those of the standard library, in types of our own, so that a simulator can
//! stand in for them.

mod channel;
#[cfg(not(feature = "sim"))]
mod condvar;
#[cfg(not(feature = "sim"))]
mod mutex;
#[cfg(not(feature = "sim"))]
mod rw_lock;

#[cfg(feature = "sim")]
pub use crate::sim::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use channel::{Receiver, Sender, channel};
#[cfg(not(feature = "sim"))]
pub use condvar::Condvar;
#[cfg(not(feature = "sim"))]
pub use mutex::{Mutex, MutexGuard};
#[cfg(not(feature = "sim"))]
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
