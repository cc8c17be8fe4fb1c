//! A lock for one writer or several readers.

use std::ops::{Deref, DerefMut};
use std::sync::LockResult;

use super::{map, take};
use crate::sim::wait_point::WaitPoint;

/// See [`std::sync::RwLock`].
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized> {
    unlocked: WaitPoint,
    system: std::sync::RwLock<T>,
}

/// An [`RwLock`] that is locked for reading.
#[derive(Debug)]
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockReadGuard<'l, T: ?Sized> {
    /// Dropped before the notice.
    system: Option<std::sync::RwLockReadGuard<'l, T>>,
    unlocked: &'l WaitPoint,
}

/// An [`RwLock`] that is locked for writing.
#[derive(Debug)]
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockWriteGuard<'l, T: ?Sized> {
    /// Dropped before the notice.
    system: Option<std::sync::RwLockWriteGuard<'l, T>>,
    unlocked: &'l WaitPoint,
}

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self { unlocked: WaitPoint::new(), system: std::sync::RwLock::new(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it for reading, and waits for that if it must.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let taken = take(&self.unlocked, || false, || self.system.try_read(), || self.system.read());
        map(taken, |guard| RwLockReadGuard { system: Some(guard), unlocked: &self.unlocked })
    }

    /// Locks it for writing, and waits for that if it must.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let taken = take(&self.unlocked, || false, || self.system.try_write(), || self.system.write());
        map(taken, |guard| RwLockWriteGuard { system: Some(guard), unlocked: &self.unlocked })
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.system = None;
        self.unlocked.notify_all();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.system = None;
        self.unlocked.notify_all();
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.system.as_ref().expect("locked until it is dropped")
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.system.as_ref().expect("locked until it is dropped")
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.system.as_mut().expect("locked until it is dropped")
    }
}
