//! The life of a log over processes: what each appends, what it was promised, and what the next one finds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use almandine_base::mutants::Mutant;
use almandine_io::sim::choice::{Choices, Subsystem};
use almandine_io::sim::disk::Disk;
use almandine_io::sim::turn::{self, Schedule};
use almandine_io::sim::world::{CrashKind, NodeId, World};
use almandine_oplog::append::{Appender, Leftover, LogOptions};
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_oplog::read::{BodyAccess, LogEnd, read_with};
use almandine_oplog::{Fault, RingId, UnitHead};

use crate::keys::{Encrypted, all_keys, keys_of};

pub(crate) const PATH: &str = "/var/lib/almandine/log";
pub(crate) const SEGMENT_BYTES: u64 = 64 << 10;
const HOUR_NS: u64 = 3_600_000_000_000;
const RINGS: u16 = 2;

/// Whose unit it is, and its number.
pub(crate) type Unit = (u64, RingId, u64);

/// What has happened, outside of the simulation.
#[derive(Clone, Default)]
pub(crate) struct Life(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// All units in the order in which they were done; those of a group together.
    done: Vec<Unit>,
    /// Groups: how many units are done when it ends.
    ends: Vec<usize>,
    /// The number of them that were written to the log, and of those that are durable.
    written: usize,
    durable: usize,
    /// What the rings hold. Gone when the machine is.
    rings: Vec<(Unit, Vec<u8>)>,
    epoch: u64,
    /// Where groups of this run end, and what was written then.
    places: BTreeMap<u64, usize>,
    /// A base may have come in place of this number of units.
    may_forget: usize,
    /// What was encrypted in any file.
    encrypted: Encrypted,
}

impl Life {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A process crashes, or what it runs in.
    pub(crate) fn crash(&self, kind: CrashKind) {
        let mut state = self.state();
        if kind != CrashKind::Process {
            state.rings.clear();
        }
        if kind == CrashKind::Machine {
            state.written = state.durable;
        }
    }

    /// Begins a run: what the log holds is a prefix of what was done that ends with a group, and what was promised is in it.
    pub(crate) fn begin(&self) -> Result<Appender, Fault> {
        let directory = Directory::take(PATH)?;
        let manifest = directory.manifest()?;
        let (found, end) = look()?;
        let left = {
            let mut state = self.state();
            state.encrypted.look(Path::new(PATH));
            state.forget(found.first());
            assert!(state.done.starts_with(&found), "what was never done is found, or something is missing between");
            assert!(found.len() >= state.written.max(state.durable), "{} of {} units are lost", found.len(), state.written);
            assert!(found.is_empty() || state.ends.contains(&found.len()), "a group is cut");
            // With the rings, nothing is lost at all.
            if state.rings.is_empty() {
                let count = found.len();
                state.done.truncate(count);
                state.ends.retain(|end| *end <= count);
            }
            leftovers(&state.rings)
        };
        let options = LogOptions { segment_bytes: SEGMENT_BYTES, keys: keys_of(manifest.run), ..LogOptions::default() };
        let log = Appender::begin(directory, manifest, &end, &options, &left, Box::new(|| {}))?;
        let (found, end) = look()?;
        let mut state = self.state();
        assert!(found == state.done, "{} units are recovered of {}", found.len(), state.done.len());
        (state.written, state.durable) = (found.len(), found.len());
        state.rings.clear();
        state.places.clear();
        state.ends.push(found.len());
        state.epoch = end.epoch;
        Ok(log)
    }

    /// Does units of these sizes and appends them as a group, with those that are not durable where the log has been healed.
    pub(crate) fn append(&self, log: &mut Appender, sizes: &[usize], durable: bool) -> Result<(), Fault> {
        let run = log.manifest().run;
        let (pending, epoch, count) = {
            let mut state = self.state();
            state.epoch += 1;
            for (at, bytes) in (0_u16..).zip(sizes) {
                let (ring, number) = (RingId(at % RINGS), (state.epoch << 18) + u64::from(at) + 1);
                let unit = encode(number, *bytes);
                state.done.push((run, ring, number));
                state.rings.push(((run, ring, number), unit));
            }
            let count = state.done.len();
            state.ends.push(count);
            let written = state.rings.len() - (count - state.written);
            let pending = state.rings[written..].to_vec();
            (pending, state.epoch, count)
        };
        log.append(epoch, durable, &mut |group| pending.iter().for_each(|((_, ring, _), unit)| group.push(*ring, unit)))?;
        {
            let mut state = self.state();
            state.written = count;
            state.places.insert(log.ends().0.lsn, count);
        }
        if durable {
            self.state().durable = count;
        }
        Ok(())
    }

    /// All that was appended is durable.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        state.durable = state.written;
    }

    /// The log goes on behind what is durable; what was not is done and not written.
    pub(crate) fn heal(&self, log: &mut Appender) -> Result<(), Fault> {
        log.heal()?;
        let mut state = self.state();
        let place = log.ends().1.lsn;
        // A segment that was full has made more durable than was promised.
        state.written = state.places.range(..=place).next_back().map_or(state.durable, |(_, count)| *count).max(state.durable);
        state.places.retain(|lsn, _| *lsn <= place);
        Ok(())
    }

    /// Something could not be written or synced, and the process ends: what was not durable is not promised.
    pub(crate) fn fail(&self) {
        let mut state = self.state();
        state.written = state.durable;
    }

    /// Names a base: the log forgets what is before it.
    pub(crate) fn forget(&self, name: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        let kept = self.state().done.len() - 6;
        self.state().may_forget = kept;
        name()
    }

    /// What was promised is in the log.
    pub(crate) fn check(&self) {
        drop(self.begin().unwrap_or_else(|fault| panic!("{fault}")));
    }
}

impl State {
    /// Units before this one are in a base, if they may be.
    fn forget(&mut self, first: Option<&Unit>) {
        let Some(at) = self.done.iter().position(|unit| Some(unit) == first) else { return };
        if at <= self.may_forget {
            self.done.drain(..at);
            self.ends = self.ends.iter().filter_map(|end| end.checked_sub(at)).collect();
            (self.written, self.durable, self.may_forget) = (self.written - at, self.durable - at, self.may_forget - at);
        }
    }
}

pub(crate) fn encode(number: u64, bytes: usize) -> Vec<u8> {
    let head = UnitHead { number, bytes: u32::try_from(bytes).unwrap(), entries: 1 };
    [&head.encode()[..], &vec![number as u8; bytes]].concat()
}

fn leftovers(rings: &[(Unit, Vec<u8>)]) -> Vec<Leftover> {
    let mut left: Vec<Leftover> = Vec::new();
    for ((run, ring, _), unit) in rings {
        match left.iter_mut().find(|left| (left.run, left.ring) == (*run, *ring)) {
            Some(left) => left.units.extend_from_slice(unit),
            None => left.push(Leftover { run: *run, ring: *ring, units: unit.clone() }),
        }
    }
    left
}

pub(crate) fn look() -> Result<(Vec<Unit>, LogEnd), Fault> {
    let Some(manifest) = read_manifest(Path::new(PATH))? else { return Ok(Default::default()) };
    let mut units = Vec::new();
    let from = manifest.base.map_or(0, |base| base.lsn);
    let keys = all_keys();
    let end = read_with((Path::new(PATH), BodyAccess::Keys(&keys)), &manifest, from, &mut |group| {
        let first = units.len();
        for slice in group.slices() {
            let slice = slice.unwrap();
            units.extend(slice.heads().map(|head| (slice.run, slice.ring, head.unwrap().number)));
        }
        units[first..].sort_by_key(|(_, _, number)| *number);
        Ok(())
    })?;
    Ok((units, end))
}

/// A random number below `limit`.
pub(crate) fn below(limit: u64) -> u64 {
    turn::simulation().unwrap().below(Subsystem::Clients, limit)
}

/// One node with a disk.
pub(crate) struct One {
    world: Arc<World>,
    node: NodeId,
    pub(crate) disk: Arc<Disk>,
}

impl One {
    pub(crate) fn enter<T>(seed: u64, left_out: &[Mutant], body: impl FnOnce(&Self) -> T) -> T {
        World::enter(Choices::from_seed(seed), Schedule::default(), |world| {
            world.turn().leave_out(left_out);
            let node = world.node();
            let disk = world.disk(node);
            body(&Self { world: Arc::clone(world), node, disk })
        })
    }

    /// Runs a process to its end; none when the node crashed before. An error is what a thread panicked with.
    pub(crate) fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Result<Option<T>, String> {
        let thread = self.world.spawn(self.node, "main", body);
        self.world.run(HOUR_NS).map_err(|error| {
            format!("{}{error}", if std::env::var_os("TRACE").is_some() { self.world.turn().trace_words() } else { String::new() })
        })?;
        Ok(thread.join())
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.world.turn().now_ns()
    }

    /// The process ends, or what it runs in.
    pub(crate) fn end(&self, kind: CrashKind) {
        self.world.crash(self.node, kind);
    }

    pub(crate) fn crash(&self, life: &Life, kind: CrashKind) {
        self.world.crash(self.node, kind);
        life.crash(kind);
    }
}
