//! A mutex.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LockResult, TryLockError, TryLockResult};

use super::{held, map, take};
use crate::sim::turn::{self, Point};
use crate::sim::wait_point::WaitPoint;

/// See [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    unlocked: WaitPoint,
    /// The simulation of the thread that has it, by its address; 0 for none. A static of the process is of all simulations.
    holder: AtomicUsize,
    system: std::sync::Mutex<T>,
}

/// A [`Mutex`] that is locked.
#[derive(Debug)]
#[must_use = "an unused guard unlocks at once"]
pub struct MutexGuard<'m, T: ?Sized> {
    /// None while it is unlocked, when it is dropped.
    system: Option<std::sync::MutexGuard<'m, T>>,
    pub(super) mutex: &'m Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self { unlocked: WaitPoint::new(), holder: AtomicUsize::new(0), system: std::sync::Mutex::new(value) }
    }

    /// What it protects.
    ///
    /// # Errors
    /// With the same when a thread panicked under the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.system.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it, and waits for that if it must.
    ///
    /// # Errors
    /// With the guard when a thread panicked under the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let is_elsewhere = || self.holder.load(Ordering::Relaxed) != turn::number();
        let taken = take(&self.unlocked, is_elsewhere, || self.system.try_lock(), || self.system.lock());
        map(taken, |guard| self.guard(guard))
    }

    /// Locks it if that needs no wait.
    ///
    /// # Errors
    /// When it is locked; with the guard when a thread panicked under the lock.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        turn::point(Point::Inner("tries to lock"));
        match self.system.try_lock() {
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => Ok(map(Err(poisoned), |guard| self.guard(guard))?),
            Ok(guard) => Ok(self.guard(guard)),
        }
    }

    /// What it protects, without a lock: the reference is the only one.
    ///
    /// # Errors
    /// With the same when a thread panicked under the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.system.get_mut()
    }

    pub(super) fn guard<'m>(&'m self, system: std::sync::MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.holder.store(turn::number(), Ordering::Relaxed);
        held::enter::<T>();
        MutexGuard { system: Some(system), mutex: self }
    }
}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    /// The lock of the system, still locked.
    pub(super) fn into_system(mut self) -> Option<std::sync::MutexGuard<'m, T>> {
        self.mutex.holder.store(0, Ordering::Relaxed);
        held::leave::<T>();
        self.system.take()
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(system) = self.system.take() {
            // Before it is unlocked: the next thread that has it says so itself.
            self.mutex.holder.store(0, Ordering::Relaxed);
            held::leave::<T>();
            drop(system);
            self.mutex.unlocked.notify_all();
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.system.as_ref().expect("locked until it is dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.system.as_mut().expect("locked until it is dropped")
    }
}
