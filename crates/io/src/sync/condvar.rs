//! A condition variable.

use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use super::MutexGuard;

/// See [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition that no thread waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// Unlocks, waits, and locks again; also for no reason.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        wrap(self.0.wait(guard.0), |guard| guard)
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
        wrap(self.0.wait_timeout(guard.0, time_max), |(guard, _)| guard)
    }

    /// Waits until the condition does not hold, but for no longer than this.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn wait_timeout_while<'m, T>(
        &self,
        guard: MutexGuard<'m, T>,
        time_max: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        wrap(self.0.wait_timeout_while(guard.0, time_max, condition), |(guard, _)| guard)
    }

    /// Ends one wait.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Ends all waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A result of the standard library as one of ours.
fn wrap<'m, T, R>(result: LockResult<R>, guard: impl FnOnce(R) -> std::sync::MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
    match result {
        Ok(result) => Ok(MutexGuard(guard(result))),
        Err(poisoned) => Err(PoisonError::new(MutexGuard(guard(poisoned.into_inner())))),
    }
}
