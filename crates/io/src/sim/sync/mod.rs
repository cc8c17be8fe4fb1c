//! The locks of [`crate::sync`] with the simulation: a simulated thread that waits for one passes the baton on.
//!
//! Inside, each has the lock of the standard library, which protects what it protects in any case: a thread outside of a
//! simulation uses that alone, and a simulated thread tries it, and waits in virtual time when it is held. So a lock may be held
//! where another thread may run, as in reality.

mod condvar;
pub(in crate::sim) mod held;
mod mutex;
mod rw_lock;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use super::turn::{self, Place, Point};
use super::wait_point::WaitPoint;

/// Takes a lock: in virtual time when the caller is a simulated thread, else as the system does it. `is_elsewhere` says whether a
/// thread of no or another simulation has it: that one goes on by itself, in real time.
fn take<G>(
    unlocked: &WaitPoint,
    is_elsewhere: impl Fn() -> bool,
    try_lock: impl Fn() -> TryLockResult<G>,
    lock: impl FnOnce() -> LockResult<G>,
) -> LockResult<G> {
    const WHAT: &str = "waits for a lock";
    let place = turn::place();
    if place == Place::Outside {
        return lock();
    }
    turn::point(Point::Inner("locks"));
    loop {
        match try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) if is_elsewhere() => return lock(),
            Err(TryLockError::WouldBlock) => match place {
                Place::Thread if std::thread::panicking() => {
                    assert!(unlocked.wait_unwinding(WHAT), "threads that unwind wait for each other's locks");
                }
                Place::Thread => drop(unlocked.wait(WHAT, None)),
                Place::Event | Place::Outside => panic!("an event cannot wait for a lock that a thread holds"),
            },
        }
    }
}

fn map<G, H>(result: LockResult<G>, wrap: impl FnOnce(G) -> H) -> LockResult<H> {
    match result {
        Ok(guard) => Ok(wrap(guard)),
        Err(poisoned) => Err(PoisonError::new(wrap(poisoned.into_inner()))),
    }
}
