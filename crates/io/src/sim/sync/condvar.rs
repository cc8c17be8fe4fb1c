//! A condition variable.

use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use super::MutexGuard;
use crate::sim::turn::{self, Place};
use crate::sim::wait_point::WaitPoint;

/// See [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar {
    simulated: WaitPoint,
    system: std::sync::Condvar,
}

impl Condvar {
    /// A condition that no thread waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self { simulated: WaitPoint::new(), system: std::sync::Condvar::new() }
    }

    /// Unlocks, waits, and locks again; also for no reason.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        self.wait_until(guard, None)
    }

    /// Waits until the condition does not hold.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn wait_while<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Unlocks, waits for no longer than this, and locks again; also for no reason.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn wait_timeout<'m, T>(&self, guard: MutexGuard<'m, T>, time_max: Duration) -> LockResult<MutexGuard<'m, T>> {
        self.wait_until(guard, Some(crate::clock::monotonic_ns().saturating_add(nanoseconds(time_max))))
    }

    /// Waits until the condition does not hold, but for no longer than this.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn wait_timeout_while<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
        time_max: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        let until_ns = crate::clock::monotonic_ns().saturating_add(nanoseconds(time_max));
        while condition(&mut guard) && crate::clock::monotonic_ns() < until_ns {
            guard = self.wait_until(guard, Some(until_ns))?;
        }
        Ok(guard)
    }

    /// Ends one wait.
    pub fn notify_one(&self) {
        self.system.notify_one();
        self.simulated.notify_one();
    }

    /// Ends all waits.
    pub fn notify_all(&self) {
        self.system.notify_all();
        self.simulated.notify_all();
    }

    /// Waits until notified, or until this time of the monotonic clock.
    fn wait_until<'m, T>(&self, guard: MutexGuard<'m, T>, until_ns: Option<u64>) -> LockResult<MutexGuard<'m, T>> {
        let mutex = guard.mutex;
        match turn::place() {
            Place::Event => panic!("an event cannot wait for a condition"),
            Place::Thread => {
                // Nothing runs between the two.
                drop(guard);
                self.simulated.wait("waits for a condition", left(until_ns).and_then(turn::later_ns));
                mutex.lock()
            }
            Place::Outside => {
                let Some(system) = guard.into_system() else { return mutex.lock() };
                let waited = match left(until_ns) {
                    None => self.system.wait(system),
                    Some(left) => {
                        let waited = self.system.wait_timeout(system, left);
                        waited.map(|(guard, _)| guard).map_err(|poisoned| PoisonError::new(poisoned.into_inner().0))
                    }
                };
                super::map(waited, |system| mutex.guard(system))
            }
        }
    }
}

/// What is left until a time of the monotonic clock. None for a time that does not come.
fn left(until_ns: Option<u64>) -> Option<Duration> {
    let until_ns = until_ns.filter(|until_ns| *until_ns < u64::MAX)?;
    Some(Duration::from_nanos(until_ns.saturating_sub(crate::clock::monotonic_ns())))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
