//! Whether all workers rest: what looks around ten times a second rests, too, while none has anything to do.
//!
//! Each worker says when it rests ([`Awake`]), and its first step afterwards wakes the threads that look around. So an idle server
//! wakes up some times a minute, and a busy one pays nothing for that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::thread::Waker;

/// See the module.
#[derive(Debug, Default)]
pub struct Rest {
    /// Workers that do not rest.
    awake: AtomicUsize,
    wakers: Mutex<Vec<Arc<Waker>>>,
}

impl Rest {
    /// A thread that looks around is woken by this when a worker does not rest any more.
    pub fn install_waker(&self, waker: Arc<Waker>) {
        let mut wakers = self.wakers();
        if !wakers.iter().any(|known| Arc::ptr_eq(known, &waker)) {
            wakers.push(waker);
        }
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Arc<Waker>>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all workers rest: none has, or had a moment ago, something to do.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.awake.load(Ordering::SeqCst) == 0
    }
}

/// A worker that says whether it rests. It does not when this is made.
#[derive(Debug)]
pub struct Awake {
    rest: Arc<Rest>,
    rests: bool,
}

impl Awake {
    /// The worker has begun.
    #[must_use]
    pub fn new(rest: &Arc<Rest>) -> Self {
        let mut awake = Self { rest: Arc::clone(rest), rests: true };
        awake.set_rests(false);
        awake
    }

    /// The worker rests from now on, or does not any more.
    pub fn set_rests(&mut self, rests: bool) {
        match (std::mem::replace(&mut self.rests, rests), rests) {
            (false, true) => {
                let before = self.rest.awake.fetch_sub(1, Ordering::SeqCst);
                debug_assert_ne!(before, 0, "a worker that does not rest is counted");
            }
            (true, false) => {
                self.rest.awake.fetch_add(1, Ordering::SeqCst);
                self.rest.wakers().iter().for_each(|waker| waker.wake());
            }
            _ => {}
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.set_rests(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_while_all_workers_rest() {
        let rest = Arc::<Rest>::default();
        assert!(rest.is_whole());
        let (mut one, two) = (Awake::new(&rest), Awake::new(&rest));
        one.set_rests(true);
        one.set_rests(true);
        assert!(!rest.is_whole(), "the other one does not rest");
        drop(two);
        assert!(rest.is_whole());
        one.set_rests(false);
        assert!(!rest.is_whole());
        drop(one);
        assert!(rest.is_whole());
    }
}
