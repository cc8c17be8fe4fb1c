//! A lock for one writer or several readers.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};

/// See [`std::sync::RwLock`].
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

/// An [`RwLock`] that is locked for reading.
#[derive(Debug)]
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockReadGuard<'l, T: ?Sized>(std::sync::RwLockReadGuard<'l, T>);

/// An [`RwLock`] that is locked for writing.
#[derive(Debug)]
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockWriteGuard<'l, T: ?Sized>(std::sync::RwLockWriteGuard<'l, T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it for reading, and waits for that if it must.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.0.read().map(RwLockReadGuard).map_err(|poisoned| PoisonError::new(RwLockReadGuard(poisoned.into_inner())))
    }

    /// Locks it for writing, and waits for that if it must.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.0.write().map(RwLockWriteGuard).map_err(|poisoned| PoisonError::new(RwLockWriteGuard(poisoned.into_inner())))
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
