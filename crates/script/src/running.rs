//! Which scripts run for long: others may ask, and end one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use almandine_base::steps;
use almandine_io::sync::Mutex;

/// How a script was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// What distinguishes it from all others.
    pub number: u64,
    /// It has written: it is not killed any more. This and what follows changes under the lock of the table, where its place
    /// depends on it.
    wrote: AtomicBool,
    /// It is to end: the number of the kill, which counts from 1.
    killed: AtomicU64,
    /// No other client can be served meanwhile, and it has run for long.
    holds_all: AtomicBool,
}

impl Running {
    /// Whether it is to end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed) != 0
    }

    /// Whether no other client can be served meanwhile, and it has run for long.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        self.holds_all.load(Relaxed)
    }

    fn rank(&self) -> Rank {
        let (wrote, holds_all) = (self.wrote.load(Relaxed), self.holds_all());
        Rank { kind: self.kind, wrote, killed: self.is_killed(), waits: !holds_all, start_ns: self.start_ns, number: self.number }
    }
}

/// Which of several scripts is killed first: of a kind, of those that have not written, one that was not killed before, one that
/// holds all others up, the one that began first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    kind: ProgramKind,
    wrote: bool,
    killed: bool,
    waits: bool,
    start_ns: u64,
    number: u64,
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
    long: Mutex<Long>,
    /// How many of them hold all others up.
    holding: AtomicUsize,
    /// How many have been killed.
    kills: AtomicU64,
    /// How often one that has run for more than a moment was asked whether it may go on.
    turns: AtomicU64,
}

#[derive(Debug, Default)]
struct Long {
    scripts: BTreeMap<Rank, Arc<Running>>,
    /// Those that are to end, by the numbers of the kills.
    killed: BTreeMap<u64, u64>,
    /// The last number of a script.
    last: u64,
}

impl Long {
    /// The first script of each group of those that differ in nothing but when they began.
    fn firsts(&self) -> impl Iterator<Item = &Arc<Running>> {
        let mut next = self.scripts.first_key_value();
        std::iter::from_fn(move || {
            let (rank, running) = next?;
            steps::take(1);
            let behind = Rank { start_ns: u64::MAX, number: u64::MAX, ..*rank };
            next = self.scripts.range((Bound::Excluded(behind), Bound::Unbounded)).next();
            Some(running)
        })
    }

    /// Changes what the place of a script depends on.
    fn change(&mut self, running: &Running, change: impl FnOnce(&mut Self)) {
        let known = self.scripts.remove(&running.rank());
        change(self);
        if let Some(known) = known {
            self.scripts.insert(known.rank(), known);
        }
    }
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
        self.lock().firsts().find(|running| running.holds_all()).map(|running| running.kind)
    }

    /// A script that has run for more than a moment goes on.
    pub fn go_on(&self) {
        self.turns.fetch_add(1, Relaxed);
    }

    /// How often one went on: it changes while one runs that holds its worker up.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    /// How often a script was killed, ever.
    #[inline]
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.kills.load(Relaxed)
    }

    /// The numbers of the scripts that were killed behind the kill of this number and have not ended; with that of the last kill.
    #[must_use]
    pub fn killed_since(&self, kills: u64) -> (u64, Vec<u64>) {
        let long = self.lock();
        (self.kills(), long.killed.range(kills + 1..).map(|(_, number)| *number).collect())
    }

    /// The script that has run for longest.
    #[must_use]
    pub fn longest(&self) -> Option<Arc<Running>> {
        self.lock().firsts().min_by_key(|running| running.start_ns).cloned()
    }

    /// A script has run for long, and may have written.
    pub fn enter(&self, of: (ProgramKind, Vec<u8>, Vec<Vec<u8>>), start_ns: u64, wrote: bool) -> Arc<Running> {
        let (kind, name, command) = of;
        let mut long = self.lock();
        long.last += 1;
        let (number, wrote, killed, holds_all) = (long.last, wrote.into(), AtomicU64::new(0), AtomicBool::new(false));
        let running = Arc::new(Running { kind, name, command, start_ns, number, wrote, killed, holds_all });
        long.scripts.insert(running.rank(), Arc::clone(&running));
        running
    }

    /// A script that has entered holds all others up.
    pub fn hold_all(&self, running: &Running) {
        self.lock().change(running, |_| {
            if !running.holds_all.swap(true, Relaxed) {
                self.holding.fetch_add(1, Relaxed);
            }
        });
    }

    /// A script that has entered is about to write for the first time: it is not killed from now on. False when it was killed.
    #[must_use]
    pub fn may_write(&self, running: &Running) -> bool {
        let may_write = |running: &Running| !running.is_killed();
        self.lock().change(running, |_| running.wrote.store(may_write(running), Relaxed));
        may_write(running)
    }

    /// It has ended.
    pub fn leave(&self, running: &Running) {
        let mut long = self.lock();
        long.scripts.remove(&running.rank());
        long.killed.remove(&running.killed.load(Relaxed));
        if running.holds_all.swap(false, Relaxed) {
            self.holding.fetch_sub(1, Relaxed);
        }
    }

    /// Asks a script of a kind to end: the one that holds all others up, else the one that has run for longest. One that was asked
    /// before comes last.
    ///
    /// # Errors
    /// When there is none that may be ended.
    pub fn kill(&self, kind: ProgramKind) -> Result<(), KillRefused> {
        let mut long = self.lock();
        let Some(running) = long.firsts().find(|running| running.kind == kind).cloned() else {
            return Err(long.firsts().next().map_or(KillRefused::NothingRuns, |other| KillRefused::OtherKind(other.kind)));
        };
        if running.wrote.load(Relaxed) {
            return Err(KillRefused::HasWritten);
        }
        if !running.is_killed() {
            long.change(&running, |long| {
                let number = self.kills.fetch_add(1, Relaxed) + 1;
                running.killed.store(number, Relaxed);
                long.killed.insert(number, running.number);
            });
        }
        Ok(())
    }

    fn lock(&self) -> almandine_io::sync::MutexGuard<'_, Long> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(table: &RunningScript, kind: ProgramKind, start_ns: u64) -> Arc<Running> {
        table.enter((kind, Vec::new(), Vec::new()), start_ns, false)
    }

    #[test]
    fn only_what_runs_and_has_not_written_is_killed() {
        let table = RunningScript::default();
        assert_eq!(table.kill(ProgramKind::Script), Err(KillRefused::NothingRuns));
        let first = enter(&table, ProgramKind::Script, 2);
        assert_eq!(table.kill(ProgramKind::Function), Err(KillRefused::OtherKind(ProgramKind::Script)));
        let second = enter(&table, ProgramKind::Function, 1);
        assert!(Arc::ptr_eq(&table.longest().unwrap(), &second) && !table.is_busy());
        table.hold_all(&second);
        assert!(table.is_busy() && table.holder() == Some(ProgramKind::Function));
        assert!(table.may_write(&second));
        assert_eq!(table.kill(ProgramKind::Function), Err(KillRefused::HasWritten));
        assert_eq!(table.kill(ProgramKind::Script), Ok(()));
        assert!(first.is_killed() && !second.is_killed());
        assert_eq!(table.killed_since(0), (1, vec![first.number]));
        assert_eq!(table.killed_since(1), (1, vec![]));
        assert!(!table.may_write(&first), "what is killed does not write any more");
        assert_eq!(table.kill(ProgramKind::Script), Ok(()), "it has not ended yet");
        table.leave(&first);
        table.leave(&second);
        assert_eq!(table.killed_since(0), (1, vec![]));
        assert!(!table.is_busy() && table.longest().is_none());
    }

    #[test]
    fn the_order_of_kills_is_kept() {
        let table = RunningScript::default();
        let [third, first, second] = [3, 1, 2].map(|start_ns| enter(&table, ProgramKind::Script, start_ns));
        table.hold_all(&third);
        for expected in [&third, &first, &second] {
            assert!(!expected.is_killed());
            assert_eq!(table.kill(ProgramKind::Script), Ok(()));
            assert!(expected.is_killed());
        }
    }

    /// Steps that it takes to kill and end scripts, one after the other.
    fn steps_of(count: u64) -> u64 {
        let table = RunningScript::default();
        let scripts: Vec<_> = (0..count).map(|start_ns| enter(&table, ProgramKind::Script, start_ns)).collect();
        let before = steps::taken();
        let mut kills = 0;
        for running in &scripts {
            assert_eq!(table.kill(ProgramKind::Script), Ok(()));
            let killed;
            (kills, killed) = table.killed_since(kills);
            assert_eq!(killed, [running.number]);
            steps::take(killed.len());
            let _ = (table.longest(), table.holder());
            table.leave(running);
        }
        steps::taken() - before
    }

    #[test]
    fn a_kill_costs_the_same_however_many_scripts_run() {
        assert!(steps_of(2_000) <= 2 * steps_of(1_000) + 8);
    }
}
