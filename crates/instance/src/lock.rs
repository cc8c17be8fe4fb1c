//! A mutex whose holder has panicked is as good as another: the process ends then anyway.

use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard};

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
