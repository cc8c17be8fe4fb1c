//! Which scripts run for long: others may ask, and end one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::Mutex;

/// How a script was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// By its text or its digits.
    Script,
    /// By its name, as a function of a library.
    Function,
}

/// A script that runs.
#[derive(Debug)]
pub struct Running {
    /// How it was called.
    pub kind: ProgramKind,
    /// The digits of a script, or the name of a function.
    pub name: Vec<u8>,
    /// The command that has called it.
    pub command: Vec<Vec<u8>>,
    /// When it began, in monotonic nanoseconds.
    pub start_ns: u64,
    /// It has written: it is not killed any more.
    pub wrote: AtomicBool,
    /// It is to end.
    pub killed: AtomicBool,
}

/// Why a script was not killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillRefused {
    /// None runs for long enough.
    NothingRuns,
    /// It has written.
    HasWritten,
    /// What runs is of the other kind.
    OtherKind(ProgramKind),
}

/// The scripts that have run for longer than `busy-reply-threshold`. Shorter ones come and go without a word.
#[derive(Debug, Default)]
pub struct RunningScript {
    long: Mutex<Vec<Arc<Running>>>,
    count: AtomicUsize,
    /// How many have been killed.
    kills: AtomicU64,
}

impl RunningScript {
    /// Whether a script has run for long.
    #[inline]
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// The script that has run for longest.
    #[must_use]
    pub fn longest(&self) -> Option<Arc<Running>> {
        self.lock().iter().min_by_key(|running| running.start_ns).cloned()
    }

    /// A script has run for long.
    pub fn enter(&self, running: Arc<Running>) {
        let mut long = self.lock();
        long.push(running);
        self.count.store(long.len(), Relaxed);
    }

    /// It has ended.
    pub fn leave(&self, running: &Arc<Running>) {
        let mut long = self.lock();
        long.retain(|other| !Arc::ptr_eq(other, running));
        self.count.store(long.len(), Relaxed);
    }

    /// Asks the scripts of a kind to end.
    ///
    /// # Errors
    /// When there is none that may be ended.
    pub fn kill(&self, kind: ProgramKind) -> Result<(), KillRefused> {
        let long = self.lock();
        let refusal = match long.iter().find(|running| running.kind == kind) {
            Some(running) if !running.wrote.load(Relaxed) => {
                running.killed.store(true, Relaxed);
                self.kills.fetch_add(1, Relaxed);
                return Ok(());
            }
            Some(_) => KillRefused::HasWritten,
            None => long.first().map_or(KillRefused::NothingRuns, |other| KillRefused::OtherKind(other.kind)),
        };
        Err(refusal)
    }

    fn lock(&self) -> almandine_io::sync::MutexGuard<'_, Vec<Arc<Running>>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(kind: ProgramKind, start_ns: u64) -> Arc<Running> {
        let (wrote, killed) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Running { kind, name: Vec::new(), command: Vec::new(), start_ns, wrote, killed })
    }

    #[test]
    fn only_what_runs_and_has_not_written_is_killed() {
        let table = RunningScript::default();
        assert_eq!(table.kill(ProgramKind::Script), Err(KillRefused::NothingRuns));
        let (first, second) = (running(ProgramKind::Script, 2), running(ProgramKind::Function, 1));
        table.enter(Arc::clone(&first));
        assert_eq!(table.kill(ProgramKind::Function), Err(KillRefused::OtherKind(ProgramKind::Script)));
        table.enter(Arc::clone(&second));
        assert!(Arc::ptr_eq(&table.longest().unwrap(), &second) && table.is_busy());
        second.wrote.store(true, Relaxed);
        assert_eq!(table.kill(ProgramKind::Function), Err(KillRefused::HasWritten));
        assert_eq!(table.kill(ProgramKind::Script), Ok(()));
        assert!(first.killed.load(Relaxed) && !second.killed.load(Relaxed));
        table.leave(&first);
        table.leave(&second);
        assert!(!table.is_busy() && table.longest().is_none());
    }
}
