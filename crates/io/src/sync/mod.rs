//! Locks, and waits for what another thread does: those of the standard library, in types of our own, so that a simulator can
//! stand in for them.

mod channel;
mod condvar;
mod mutex;
mod rw_lock;

pub use channel::{Receiver, Sender, channel};
pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
