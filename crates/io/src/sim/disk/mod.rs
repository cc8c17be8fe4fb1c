//! The disk of a node: files and directories of which a crash of the machine leaves what was synced, and of the rest the old or the
//! new; with faults.
//!
//! A simulated thread that uses `io::file` and `io::files` uses the disk of its node. Each operation takes virtual time and is
//! a point. A read has its bytes when its time is over. A change happens before its time begins, so a crash meanwhile finds it
//! done and not told; only a write past the page cache happens behind its time, and may reach the disk after its process has
//! crashed. A file's sectors of 512 bytes are old or new after a crash of the machine, after direct writes its pages of 4 KiB.
//!
//! Real file systems order more than this one does: only what POSIX promises holds here.

mod content;
mod faults;
mod file;
mod names;
mod paths;
mod reads;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub use self::faults::{DiskFaults, Failure};
pub(crate) use self::file::{How, OpenFile};
pub(crate) use self::reads::read_together;
pub use self::reads::start_read;
use self::state::{Drawing, State};
use super::choice::Subsystem;
use super::node::{CrashKind, NodeId};
use super::turn::{self, Point, Turn};

/// What an operation on the page cache takes, and one that waits for the device: the least, and how much more it may be, in
/// nanoseconds.
const CACHE_NS: (u64, u64) = (1_000, 20_000);
const DEVICE_NS: (u64, u64) = (10_000, 500_000);
/// The same of an operation that is slow.
const SLOW_NS: (u64, u64) = (10_000_000, 490_000_000);

/// See the module.
pub struct Disk {
    turn: Weak<Turn>,
    node: NodeId,
    /// Crashes the node.
    crash_node: Box<dyn Fn(CrashKind) + Send + Sync>,
    state: Mutex<State>,
}

impl Disk {
    pub(super) fn new(turn: &Arc<Turn>, node: NodeId, crash_node: Box<dyn Fn(CrashKind) + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { turn: Arc::downgrade(turn), node, crash_node, state: Mutex::default() })
    }

    /// From now on these faults happen.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.state().faults = faults;
    }

    /// From now on these faults happen to files that are made below this directory, in place of the others, as if another disk was
    /// there. They are counted by names of their own, which begin with `apart: `.
    pub fn set_faults_of(&self, directory: impl Into<PathBuf>, faults: DiskFaults) {
        self.state().apart = Some((directory.into(), faults));
    }

    /// Takes away what faults have done to the medium.
    pub fn heal(&self) {
        self.state().files.values_mut().for_each(|inode| inode.content.heal());
    }

    /// How often each fault has happened.
    #[must_use]
    pub fn happened(&self) -> BTreeMap<&'static str, u64> {
        self.state().happened.clone()
    }

    /// The number of changes so far: writes, syncs, names made durable and not, and arrivals of direct writes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// The node crashes in place of the change of this number; the first one has number 0.
    pub fn crash_at(&self, change: u64, kind: CrashKind) {
        self.state().crash_at = Some((change, kind));
    }

    /// The number of operations so far: changes, but for arrivals of direct writes, and looks.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Operations of these numbers fail, and no others by this; the first one has number 0. What fails may have happened, in part
    /// or not at all.
    pub fn fail_at(&self, operations: Range<u64>, failure: Failure) {
        self.state().fail_at = Some((operations, failure));
    }

    /// Makes a file that survives every crash, in place of one that has this path; also the directories above it.
    ///
    /// # Errors
    /// When one of those is a file.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let (mut state, path) = (self.state(), path.as_ref());
        paths::make_directories(&mut state, path.parent().unwrap_or(path))?;
        let file = paths::open(&mut state, path)?;
        let number = state.number();
        let content = &mut state.file(file)?.content;
        content.set_len(0, number);
        content.write(0, bytes, content::How { write: number, ..content::PLAIN });
        content.sync();
        path.ancestors().skip(1).try_for_each(|directory| {
            let directory = state.names.find(directory)?;
            state.names.sync(directory);
            Ok(())
        })
    }

    /// What a file holds, as a process reads it.
    ///
    /// # Errors
    /// When there is none, or a part of it cannot be read.
    pub fn get(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        let file = state.names.find(path.as_ref())?;
        let content = &state.file(file)?.content;
        let mut bytes = vec![0; usize::try_from(content.bytes()).map_err(io::Error::other)?];
        content.read(0, &mut bytes).ok_or(rustix::io::Errno::IO)?;
        Ok(bytes)
    }

    /// The process that uses the disk ends.
    pub(super) fn crash(&self, kind: CrashKind) {
        if let Some(turn) = self.turn.upgrade() {
            Drawing { state: &mut self.state(), turn: &turn }.crash(kind);
        }
    }

    /// Another number for each process of a node.
    pub(crate) fn process_id(&self) -> u32 {
        (self.node.0 + 1) * 1000 + u32::try_from(self.state().process).unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that uses the disk now.
    fn process(&self) -> u64 {
        self.state().process
    }

    /// Draws when an operation that begins now ends.
    fn end_ns(&self, device: bool) -> u64 {
        let Some(turn) = self.turn.upgrade() else { return 0 };
        let (slow, stuck_until_ns) = {
            let state = self.state();
            (state.faults.slow, state.faults.stuck_until_ns)
        };
        let is_slow = self.draw(&turn, |drawing| drawing.fault("an operation is slow", slow, [0, 0]));
        let (least_ns, more_ns) = match (is_slow, device) {
            (true, _) => SLOW_NS,
            (false, true) => DEVICE_NS,
            (false, false) => CACHE_NS,
        };
        let end_ns = turn.now_ns() + least_ns + turn.below(Subsystem::Disk, more_ns);
        if stuck_until_ns > end_ns {
            self.draw(&turn, |drawing| drawing.fault("an operation is stuck", 1_000_000, [stuck_until_ns, 0]));
        }
        end_ns.max(stuck_until_ns)
    }

    fn draw<T>(&self, turn: &Turn, draw: impl FnOnce(&mut Drawing<'_>) -> T) -> T {
        draw(&mut Drawing { state: &mut self.state(), turn })
    }

    /// The turn, for a caller that may use the disk on behalf of this process.
    fn enter(&self, process: u64) -> io::Result<Arc<Turn>> {
        let is_dead = turn::is_gone() || process != self.process();
        self.turn.upgrade().filter(|_| !is_dead).ok_or_else(|| io::Error::other("the process has crashed"))
    }

    /// An operation that changes nothing: what it reads it reads when its time is over.
    fn look<T>(&self, process: u64, device: bool, look: impl FnOnce(&mut Drawing<'_>) -> io::Result<T>) -> io::Result<T> {
        let turn = self.enter(process)?;
        let failure = self.count_operation();
        self.wait_until(self.end_ns(device));
        self.enter(process)?;
        self.draw(&turn, |drawing| drawing.perform(("looks", failure), look))
    }

    /// An operation that changes something at once and then takes its time.
    fn change<T>(
        &self,
        process: u64,
        what: (&'static str, [u64; 2]),
        device: bool,
        change: impl FnOnce(&mut Drawing<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let turn = self.count_change(process)?;
        let failure = self.count_operation();
        turn.note(what.0, what.1);
        let result = self.draw(&turn, |drawing| drawing.perform((what.0, failure), change));
        self.wait_until(self.end_ns(device));
        result
    }

    /// An operation begins, and fails in this way.
    fn count_operation(&self) -> Option<Failure> {
        let mut state = self.state();
        let number = state.operations;
        state.operations += 1;
        state.fail_at.as_ref().filter(|(at, _)| at.contains(&number)).map(|(_, failure)| *failure)
    }

    /// A change begins, or the node crashes in its place.
    fn count_change(&self, process: u64) -> io::Result<Arc<Turn>> {
        let turn = self.enter(process)?;
        let crash = {
            let mut state = self.state();
            let number = state.changes;
            state.changes += 1;
            state.crash_at.take_if(|(at, _)| *at == number)
        };
        if let Some((_, kind)) = crash {
            (self.crash_node)(kind);
            // A thread of the node does not come back from here.
            turn::point(Point::Yield);
            return self.enter(process);
        }
        Ok(turn)
    }

    /// Nothing where the caller cannot wait: in an event, or outside of the simulation.
    fn wait_until(&self, until_ns: u64) {
        turn::block("waits for its disk", None, Some(until_ns));
    }
}

#[cfg(test)]
mod tests;
