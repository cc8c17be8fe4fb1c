//! A mutex.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// See [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// A [`Mutex`] that is locked.
#[derive(Debug)]
#[must_use = "an unused guard unlocks at once"]
pub struct MutexGuard<'m, T: ?Sized>(pub(super) std::sync::MutexGuard<'m, T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// What it protects.
    ///
    /// # Errors
    /// With the same when a thread panicked under the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it, and waits for that if it must.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.0.lock().map(MutexGuard).map_err(|poisoned| PoisonError::new(MutexGuard(poisoned.into_inner())))
    }

    /// Locks it if that needs no wait.
    ///
    /// # Errors
    /// When it is locked; with the guard when a thread panicked under the lock.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock().map(MutexGuard).map_err(|error| match error {
            TryLockError::Poisoned(poisoned) => TryLockError::Poisoned(PoisonError::new(MutexGuard(poisoned.into_inner()))),
            TryLockError::WouldBlock => TryLockError::WouldBlock,
        })
    }

    /// What it protects, without a lock: the reference is the only one.
    ///
    /// # Errors
    /// With the same when a thread panicked under the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
