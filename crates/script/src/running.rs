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
    /// No other client can be served meanwhile, and it has run for long.
    pub holds_all: AtomicBool,
}

impl Running {
    /// A script that has not written.
    #[must_use]
    pub fn new(kind: ProgramKind, name: Vec<u8>, command: Vec<Vec<u8>>, start_ns: u64) -> Self {
        let (wrote, killed, holds_all) = Default::default();
        Self { kind, name, command, start_ns, wrote, killed, holds_all }
    }

    /// Whether it is to end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }
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

/// The scripts that have been suspended, or have run for longer than `busy-reply-threshold`. Shorter ones come and go without a
/// word.
#[derive(Debug, Default)]
pub struct RunningScript {
    long: Mutex<Vec<Arc<Running>>>,
    /// How many of them hold all others up.
    holding: AtomicUsize,
    /// How many have been killed.
    kills: AtomicU64,
}

impl RunningScript {
    /// Whether a script holds all others up, and has run for long.
    #[inline]
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.holding.load(Relaxed) > 0
    }

    /// How the script was called that holds all others up.
    #[must_use]
    pub fn holder(&self) -> Option<ProgramKind> {
        self.lock().iter().find(|running| running.holds_all.load(Relaxed)).map(|running| running.kind)
    }

    /// How often a script was killed, ever.
    #[inline]
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.kills.load(Relaxed)
    }

    /// The script that has run for longest.
    #[must_use]
    pub fn longest(&self) -> Option<Arc<Running>> {
        self.lock().iter().min_by_key(|running| running.start_ns).cloned()
    }

    /// A script has run for long.
    pub fn enter(&self, running: Arc<Running>) {
        self.lock().push(running);
    }

    /// A script that has entered holds all others up.
    pub fn hold_all(&self, running: &Running) {
        let long = self.lock();
        running.holds_all.store(true, Relaxed);
        self.count(&long);
    }

    /// A script that has entered is about to write for the first time: it is not killed from now on. False when it was killed.
    #[must_use]
    pub fn may_write(&self, running: &Running) -> bool {
        let _long = self.lock();
        let may_write = !running.is_killed();
        running.wrote.store(may_write, Relaxed);
        may_write
    }

    /// It has ended.
    pub fn leave(&self, running: &Arc<Running>) {
        let mut long = self.lock();
        long.retain(|other| !Arc::ptr_eq(other, running));
        self.count(&long);
    }

    fn count(&self, long: &[Arc<Running>]) {
        self.holding.store(long.iter().filter(|running| running.holds_all.load(Relaxed)).count(), Relaxed);
    }

    /// Asks a script of a kind to end: the one that holds all others up, else the one that has run for longest. One that was asked
    /// before comes last.
    ///
    /// # Errors
    /// When there is none that may be ended.
    pub fn kill(&self, kind: ProgramKind) -> Result<(), KillRefused> {
        let long = self.lock();
        let of_kind = || long.iter().filter(|running| running.kind == kind);
        let order = |running: &&Arc<Running>| (running.is_killed(), !running.holds_all.load(Relaxed), running.start_ns);
        let may_end = of_kind().filter(|running| !running.wrote.load(Relaxed)).min_by_key(order);
        let refusal = match may_end.or_else(|| of_kind().next()) {
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
        Arc::new(Running::new(kind, Vec::new(), Vec::new(), start_ns))
    }

    #[test]
    fn only_what_runs_and_has_not_written_is_killed() {
        let table = RunningScript::default();
        assert_eq!(table.kill(ProgramKind::Script), Err(KillRefused::NothingRuns));
        let (first, second) = (running(ProgramKind::Script, 2), running(ProgramKind::Function, 1));
        table.enter(Arc::clone(&first));
        assert_eq!(table.kill(ProgramKind::Function), Err(KillRefused::OtherKind(ProgramKind::Script)));
        table.enter(Arc::clone(&second));
        assert!(Arc::ptr_eq(&table.longest().unwrap(), &second) && !table.is_busy());
        table.hold_all(&second);
        assert!(table.is_busy() && table.holder() == Some(ProgramKind::Function));
        assert!(table.may_write(&second));
        assert_eq!(table.kill(ProgramKind::Function), Err(KillRefused::HasWritten));
        assert_eq!(table.kill(ProgramKind::Script), Ok(()));
        assert!(first.is_killed() && !second.is_killed());
        assert!(!table.may_write(&first), "what is killed does not write any more");
        table.leave(&first);
        table.leave(&second);
        assert!(!table.is_busy() && table.longest().is_none());
    }
}
