//! Where simulated threads wait for what another thread does, which may be outside of the simulation.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use super::turn::{self, Condition, Turn, Woken};

/// See the module. It is bound to a simulation by the first wait.
#[derive(Debug, Default)]
pub(crate) struct WaitPoint {
    waiting: AtomicU32,
    condition: Mutex<Option<(Weak<Turn>, Condition)>>,
}

impl WaitPoint {
    pub(crate) const fn new() -> Self {
        Self { waiting: AtomicU32::new(0), condition: Mutex::new(None) }
    }

    /// Blocks the calling thread until it is notified or the virtual time has come. None when it cannot wait: it is no
    /// simulated thread, or it unwinds.
    pub(crate) fn wait(&self, what: &'static str, until_ns: Option<u64>) -> Option<Woken> {
        let condition = self.condition()?;
        let _waiting = self.count();
        turn::block(what, Some(condition), until_ns)
    }

    /// Waits although the thread unwinds, for what another thread that unwinds is bound to do. False when it cannot.
    pub(crate) fn wait_unwinding(&self, what: &'static str) -> bool {
        let Some(condition) = self.condition() else { return false };
        let _waiting = self.count();
        turn::block_unwinding(what, condition)
    }

    pub(crate) fn notify_one(&self) {
        self.notify(Turn::notify_one);
    }

    pub(crate) fn notify_all(&self) {
        self.notify(Turn::notify_all);
    }

    fn notify(&self, notify: impl FnOnce(&Turn, Condition)) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let bound = self.bound().clone();
        if let Some((turn, condition)) = bound
            && let Some(turn) = turn.upgrade()
        {
            notify(&turn, condition);
        }
    }

    /// The condition in the simulation in which the caller runs.
    fn condition(&self) -> Option<Condition> {
        let turn = turn::simulation()?;
        let mut bound = self.bound();
        match &*bound {
            Some((own, condition)) if std::ptr::eq(own.as_ptr(), &raw const *turn) => Some(*condition),
            _ => {
                let condition = turn.condition();
                *bound = Some((std::sync::Arc::downgrade(&turn), condition));
                Some(condition)
            }
        }
    }

    fn bound(&self) -> MutexGuard<'_, Option<(Weak<Turn>, Condition)>> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }
}

/// A thread that waits, or unwinds out of its wait.
struct Waiting<'w>(&'w AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
