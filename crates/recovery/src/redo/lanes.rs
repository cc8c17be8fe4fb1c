//! Keys of a base and entries of the log on their way into a keyspace, over [`Lanes`]: each key's in one lane, base first, then its
//! entries in the order of their numbers.

use std::collections::HashMap;
use std::time::Duration;

use almandine_base::object::{Object, Types};
use almandine_base::steps;
use almandine_io::thread;
use almandine_keyspace::{Accessor, Body, Effect, HeapValue, Key, Missing, Need, Put, Refusal, SharedValue};
use almandine_oplog::{LogEntry, Operation, epoch_of};

use crate::base::{BaseItem, take_item};
use crate::lanes::{Lane, Lanes};

/// Bytes and items from which on a job is given to its lane.
const JOB_BYTES: usize = 128 << 10;
const JOB_ITEMS: usize = 1024;
/// Keys whose cache lines are asked for together.
const TOGETHER: usize = 64;

/// Lanes for keys of a base and entries of the log.
pub struct LogLanes<'a> {
    lanes: Lanes<'a, LogLane>,
    /// Of each lane, what it is given next.
    next: Vec<LogJob>,
    /// The lane of the last key of a base: parts of its value follow it.
    last: usize,
}

/// What a lane does together.
#[derive(Debug, Default)]
pub(crate) struct LogJob {
    bytes: Vec<u8>,
    items: Vec<LogItem>,
}

#[derive(Clone, Copy, Debug)]
struct LogItem {
    /// Where its bytes end.
    end: usize,
    db: u16,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A base. What its log has from its first cut on is numbered above `floor`.
    Base { floor: u64 },
    /// The log. Up to an epoch an edit may lack its key, because the base was being made; up to [`ANY_EPOCH`], also because it is
    /// lost.
    Log { number: u64, lacking_through: u64 },
}

/// Where keys are lost to damage, any edit may lack its key.
pub(super) const ANY_EPOCH: u64 = u64::MAX;

/// What cannot be put into the keyspace.
#[derive(Debug)]
pub struct LaneFault {
    /// The number of the unit, or of the last one that the base's key has.
    pub number: u64,
    /// The key.
    pub key: Vec<u8>,
    /// How the keyspace put it; none: the bytes do not mean anything.
    pub refusal: Option<Refusal>,
}

impl<'a> LogLanes<'a> {
    /// Starts up to `count` lanes; with one, all is done by the calling thread with `accessor`.
    #[must_use]
    pub fn start(accessor: &'a mut Accessor, count: usize) -> Self {
        let lanes = Lanes::start(accessor, count, LogLane::default);
        let next = (0..lanes.count()).map(|_| LogJob::default()).collect();
        Self { lanes, next, last: 0 }
    }

    /// The feeding thread's own access to the keyspace.
    pub fn accessor(&mut self) -> &mut Accessor {
        self.lanes.accessor()
    }

    /// A key of a base as the file has it, of a database.
    pub(crate) fn base_key(&mut self, (db, key): (u16, &[u8]), bytes: &[u8], floor: u64) -> Result<(), LaneFault> {
        self.last = self.lane_of(db, key);
        self.push(self.last, bytes, (db, Source::Base { floor }))
    }

    /// A part of the value of the key before.
    pub(crate) fn base_part(&mut self, bytes: &[u8]) -> Result<(), LaneFault> {
        self.push(self.last, bytes, (0, Source::Base { floor: 0 }))
    }

    /// An entry of the log as it is there, on a key of a database.
    pub(crate) fn entry(
        &mut self,
        (db, key): (u16, &[u8]),
        bytes: &[u8],
        (number, lacking_through): (u64, u64),
    ) -> Result<(), LaneFault> {
        let lane = self.lane_of(db, key);
        self.push(lane, bytes, (db, Source::Log { number, lacking_through }))
    }

    fn lane_of(&mut self, db: u16, key: &[u8]) -> usize {
        if self.next.len() == 1 {
            return 0;
        }
        let hash = self.lanes.accessor().key(db, key).hash;
        self.lanes.of(hash)
    }

    fn push(&mut self, lane: usize, bytes: &[u8], (db, source): (u16, Source)) -> Result<(), LaneFault> {
        let job = &mut self.next[lane];
        job.bytes.extend_from_slice(bytes);
        job.items.push(LogItem { end: job.bytes.len(), db, source });
        if job.bytes.len() >= JOB_BYTES || job.items.len() >= JOB_ITEMS { self.give(lane) } else { Ok(()) }
    }

    fn give(&mut self, lane: usize) -> Result<(), LaneFault> {
        let job = std::mem::take(&mut self.next[lane]);
        if job.items.is_empty() { Ok(()) } else { self.lanes.send(lane, job) }
    }

    /// Waits until all that was given is done.
    ///
    /// # Errors
    /// When something of it could not be done.
    pub fn settle(&mut self) -> Result<(), LaneFault> {
        (0..self.next.len()).try_for_each(|lane| self.give(lane))?;
        self.lanes.settle()
    }

    /// Ends the lanes when all that was given is done, and returns how many entries were passed over.
    ///
    /// # Errors
    /// When something of it could not be done.
    pub fn end(mut self) -> Result<u64, LaneFault> {
        self.settle()?;
        Ok(self.lanes.end()?.iter().map(|lane| lane.passed_over).sum())
    }
}

/// What one lane knows.
#[derive(Default)]
pub(crate) struct LogLane {
    /// Of keys that a base has: the number of the last unit that is in it. Empty behind the base's end.
    based: HashMap<(u64, Box<[u8]>), u64>,
    pending: Option<Pending>,
    /// Entries that the base had.
    passed_over: u64,
}

/// The key of a base whose value is not whole yet.
struct Pending {
    db: u16,
    key: Vec<u8>,
    kind: almandine_keyspace::Kind,
    put: Put,
    value: Large,
}

/// A value that comes in parts.
enum Large {
    String(Vec<u8>),
    Object(Box<dyn Object>),
}

/// An item as it was read.
enum Known<'b> {
    Base(BaseItem<'b>),
    Log(LogEntry<'b>),
}

impl<'b> Known<'b> {
    fn read(source: Source, mut bytes: &'b [u8]) -> Option<Self> {
        Some(match source {
            Source::Base { .. } => Self::Base(take_item(&mut bytes)?),
            Source::Log { .. } => Self::Log(LogEntry::split(bytes)?.0),
        })
    }

    fn key(&self) -> &'b [u8] {
        match self {
            Self::Base(BaseItem::Key { key, .. }) => key,
            Self::Base(_) => &[],
            Self::Log(entry) => entry.key,
        }
    }
}

impl Lane for LogLane {
    type Job = LogJob;
    type Fault = LaneFault;

    fn run(&mut self, accessor: &mut Accessor, job: LogJob) -> Result<(), LaneFault> {
        let mut begin = 0;
        let mut known = Vec::with_capacity(TOGETHER);
        for items in job.items.chunks(TOGETHER) {
            known.clear();
            for item in items {
                steps::take(1);
                let (from, bytes) = (begin, &job.bytes[begin..item.end]);
                debug_assert!(from < item.end, "an item has bytes");
                begin = item.end;
                let read = Known::read(item.source, bytes);
                let read = read.ok_or_else(|| LaneFault { number: 0, key: Vec::new(), refusal: None })?;
                known.push((accessor.key(item.db, read.key()), item, read));
            }
            await_room(accessor);
            accessor.begin_batch(0);
            let mut group = accessor.group();
            group.begin();
            known.iter_mut().for_each(|(key, ..)| key.glance = group.expect(key.hash));
            group.prefetch();
            stage_cold(accessor, &known);
            let done = known.drain(..).try_for_each(|(key, item, read)| {
                let number = match (&read, item.source) {
                    (_, Source::Log { number, .. }) => number,
                    (Known::Base(BaseItem::Key { number, .. }), _) => *number,
                    _ => 0,
                };
                let refused = self.item(accessor, key, item, read).err();
                refused.map_or(Ok(()), |refusal| Err(LaneFault { number, key: key.bytes.to_vec(), refusal }))
            });
            drop(accessor.detach());
            accessor.end_batch();
            done?;
        }
        Ok(())
    }
}

/// How long a lane rests while the device is behind.
const REST: Duration = Duration::from_millis(1);

/// Waits while the device is behind.
fn await_room(accessor: &Accessor) {
    while accessor.keyspace().is_stalled() {
        thread::sleep(REST);
    }
}

/// Reads the records together that the items of a group need from the device.
fn stage_cold(accessor: &mut Accessor, known: &[(Key<'_>, &LogItem, Known<'_>)]) {
    let cold = accessor.cold();
    if cold.is_possible() {
        let missed = known.iter().filter(|(key, ..)| cold.probe_all(*key, Need::Read) == Err(Missing::Cold)).count();
        if missed != 0 {
            accessor.unit().fetch_missed();
        }
    }
}

/// Does something to a key; what it misses on the device is read, and it is done again.
fn done(accessor: &mut Accessor, mut act: impl FnMut(&mut Accessor) -> Result<(), Refusal>) -> Result<(), Refusal> {
    loop {
        match act(accessor) {
            Err(Refusal::Missing(Missing::Cold)) => accessor.unit().fetch_missed(),
            done => return done,
        }
    }
}

impl LogLane {
    fn item(&mut self, accessor: &mut Accessor, key: Key<'_>, item: &LogItem, read: Known<'_>) -> Result<(), Option<Refusal>> {
        match (read, item.source) {
            (Known::Base(read), Source::Base { floor }) => self.base(accessor, key, (item.db, floor), read),
            (Known::Log(entry), Source::Log { number, lacking_through }) => {
                self.log(accessor, key, item.db, (&entry, number, lacking_through)).map_err(Some)
            }
            _ => Err(None),
        }
    }

    fn base(
        &mut self,
        accessor: &mut Accessor,
        key: Key<'_>,
        (db, floor): (u16, u64),
        item: BaseItem<'_>,
    ) -> Result<(), Option<Refusal>> {
        match (item, self.pending.take()) {
            (BaseItem::Key { contents, number, kind, put, value, .. }, None) => {
                // Of two copies of a key the greater number counts.
                if number > floor {
                    let copied = self.based.entry((contents, key.bytes.into())).or_insert(number);
                    *copied = number.max(*copied);
                }
                match value {
                    Some(bytes) => set(accessor, db, key, &Effect::Set { kind, value: Body::Bytes(bytes), put })?,
                    None => {
                        let value = match accessor.keyspace().types().empty(kind) {
                            Some(object) => Large::Object(object),
                            None => Large::String(Vec::new()),
                        };
                        self.pending = Some(Pending { db, key: key.bytes.to_vec(), kind, put, value });
                    }
                }
                Ok(())
            }
            (BaseItem::Part { bytes, last }, Some(mut of)) => {
                if add(&mut of.value, bytes, last).ok_or(None)? {
                    let value = match of.value {
                        Large::String(bytes) => HeapValue::string(bytes),
                        Large::Object(object) => HeapValue::object(object),
                    };
                    let value = SharedValue::new(value);
                    let effect = Effect::Set { kind: of.kind, value: Body::Shared(&value), put: of.put };
                    let key = accessor.key(of.db, &of.key);
                    set(accessor, of.db, key, &effect)?;
                } else {
                    self.pending = Some(of);
                }
                Ok(())
            }
            _ => Err(None),
        }
    }

    fn log(
        &mut self,
        accessor: &mut Accessor,
        key: Key<'_>,
        db: u16,
        (entry, number, lacking_through): (&LogEntry<'_>, u64, u64),
    ) -> Result<(), Refusal> {
        if epoch_of(number) > lacking_through && !self.based.is_empty() {
            // The base has nothing of this unit or a later one.
            self.based = HashMap::new();
        }
        let copied = if self.based.is_empty() { None } else { self.based.get(&(entry.contents, entry.key.into())) };
        if copied.is_some_and(|&copied| number <= copied) {
            self.passed_over += 1;
            return Ok(());
        }
        // What makes its key tells the whole value. An edit of a key that is lost must not make a part of it again.
        let tells_all = matches!(entry.operation, Operation::Set { .. } | Operation::Remove(_));
        if lacking_through == ANY_EPOCH && !tells_all && !has(accessor, key, db)? {
            self.passed_over += 1;
            return Ok(());
        }
        // Made before the base met it and gone by then: what it lacks goes with its removal.
        let may_lack = copied.is_none() && epoch_of(number) <= lacking_through;
        match done(accessor, |accessor| accessor.writer(db).redo(key, entry)) {
            Err(Refusal::WrongKind) if may_lack => {
                self.passed_over += 1;
                Ok(())
            }
            done => done,
        }
    }
}

/// Whether a key is there, and not lost to damage.
fn has(accessor: &mut Accessor, key: Key<'_>, db: u16) -> Result<bool, Refusal> {
    loop {
        let found = accessor.reader(db).exists(key);
        match found {
            Err(Missing::Cold) => accessor.unit().fetch_missed(),
            // What may be overwritten though it cannot be read is damaged, and not just out of reach.
            Err(Missing::Unreadable) if accessor.cold().probe_all(key, Need::Overwrite).is_ok() => return Ok(false),
            _ => return found.map_err(Refusal::Missing),
        }
    }
}

fn set(accessor: &mut Accessor, db: u16, key: Key<'_>, effect: &Effect<'_>) -> Result<(), Option<Refusal>> {
    done(accessor, |accessor| accessor.writer(db).replay(key, effect)).map_err(Some)
}

/// Takes a part into a value. Whether it was the last; None: it does not fit.
fn add(value: &mut Large, part: &[u8], last: bool) -> Option<bool> {
    match value {
        Large::String(bytes) => bytes.extend_from_slice(part),
        Large::Object(object) => {
            if object.read_part(part).ok()? != last {
                return None;
            }
        }
    }
    Some(last)
}
