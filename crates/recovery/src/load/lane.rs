//! Keys of a snapshot file on their way into a keyspace.

use std::time::Duration;

use almandine_base::steps;
use almandine_io::{clock, thread};
use almandine_keyspace::{Accessor, Key, Missing, Put, Refusal, frequency};
use almandine_rdb::file::{Entry, EntryMetadata, Fault, FileError};
use almandine_rdb::value::{AnyValue, is_empty_collection};

use super::fault::{LoadError, LoadFault};
use super::rdb::{Existing, LoadOptions, Loaded};
use crate::lanes::Lane;
use crate::put::{PutError, put};

/// Bytes and keys from which on a job is given to its lane.
const JOB_BYTES: usize = 128 << 10;
const JOB_KEYS: usize = 1024;
/// Bytes of a job that is large.
const LARGE_BYTES: usize = 1 << 20;
/// Keys that are loaded in one batch.
const BATCH_KEYS: usize = 64;
/// How long a loader waits for the device at a time.
const STALL_STEP: Duration = Duration::from_millis(1);

/// Keys that a lane loads together.
#[derive(Debug, Default)]
pub(super) struct RdbJob {
    /// Of each its name and its value.
    bytes: Vec<u8>,
    keys: Vec<RdbKey>,
}

#[derive(Clone, Copy, Debug)]
struct RdbKey {
    db: u16,
    value_type: u8,
    metadata: EntryMetadata,
    /// Where in the bytes its name and its value end.
    name_end: usize,
    value_end: usize,
    /// Where in the file it begins, and its value.
    offset: u64,
    value_offset: u64,
}

impl RdbJob {
    pub(super) fn push(&mut self, db: u16, entry: &Entry<'_>, offset: u64) {
        self.bytes.extend_from_slice(&entry.key);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        let (value_end, value_offset) = (self.bytes.len(), entry.malformed().offset);
        let Entry { value_type, metadata, .. } = *entry;
        self.keys.push(RdbKey { db, value_type, metadata, name_end, value_end, offset, value_offset });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= JOB_BYTES || self.keys.len() >= JOB_KEYS
    }

    pub(super) fn is_large(&self) -> bool {
        self.bytes.len() >= LARGE_BYTES
    }
}

/// Loads keys.
pub(super) struct RdbLane {
    options: LoadOptions,
    /// Of the file.
    version: u16,
    loaded: Loaded,
}

/// A key as the file has it.
struct Found<'b> {
    key: Key<'b>,
    value: &'b [u8],
    of: RdbKey,
}

impl Found<'_> {
    fn malformed(&self) -> LoadError {
        FileError { offset: self.of.value_offset, fault: Fault::Malformed("value") }.into()
    }
}

impl Lane for RdbLane {
    type Job = RdbJob;
    type Fault = LoadError;

    fn run(&mut self, accessor: &mut Accessor, job: RdbJob) -> Result<(), LoadError> {
        let (mut begin, mut found) = (0, Vec::with_capacity(BATCH_KEYS));
        for keys in job.keys.chunks(BATCH_KEYS) {
            found.clear();
            for &of in keys {
                steps::take(1);
                let (name, value) = (&job.bytes[begin..of.name_end], &job.bytes[of.name_end..of.value_end]);
                found.push(Found { key: accessor.key(of.db, name), value, of });
                begin = of.value_end;
            }
            await_room(accessor, keys.first().map_or(0, |of| of.offset))?;
            accessor.begin_batch(if self.options.keep_expired { 0 } else { clock::unix_ms() });
            let mut group = accessor.group();
            group.begin();
            found.iter_mut().for_each(|found| found.key.glance = group.expect(found.key.hash));
            group.prefetch();
            let done = found.iter().try_for_each(|found| self.key(accessor, found));
            drop(accessor.detach());
            accessor.end_batch();
            done?;
        }
        Ok(())
    }
}

/// Waits while the device is behind.
fn await_room(accessor: &Accessor, offset: u64) -> Result<(), LoadError> {
    let keyspace = accessor.keyspace();
    while keyspace.is_stalled() {
        thread::sleep(STALL_STEP);
    }
    // Without a device, what does not fit is evicted, or refused to clients behind the load, as in Redis.
    if keyspace.figures().tier().is_some() && keyspace.over_limit() {
        return Err(LoadError { offset, fault: LoadFault::StorageFull });
    }
    Ok(())
}

impl RdbLane {
    pub(super) fn new(options: LoadOptions, version: u16) -> Self {
        Self { options, version, loaded: Loaded::default() }
    }

    /// What became of the keys that it was given.
    pub(super) fn loaded(self) -> Loaded {
        self.loaded
    }

    fn key(&mut self, accessor: &mut Accessor, found: &Found<'_>) -> Result<(), LoadError> {
        let of = found.of;
        let expiry_ms = of.metadata.expiry_ms;
        if expiry_ms.is_some_and(|at_ms| at_ms <= accessor.reader(of.db).now_ms()) {
            self.loaded.expired += 1;
            return Ok(());
        }
        let mut body = found.value;
        let value = AnyValue::read(of.value_type, self.version, &mut body);
        if value.is_err() && is_empty_collection(of.value_type, found.value) {
            self.loaded.pass_over(found.key.bytes);
            return Ok(());
        }
        let refused = |fault| Err(LoadError { offset: of.offset, fault });
        // What is larger than a record is not copied, so a value is read again when it must wait for the device.
        let mut value = Some(value.map_err(|_| found.malformed())?);
        loop {
            let taken = match value.take() {
                Some(value) => value,
                None => AnyValue::read(of.value_type, self.version, &mut { found.value }).map_err(|_| found.malformed())?,
            };
            match self.put(accessor, found, taken) {
                Ok(Fate::Kept) => {
                    self.loaded.keys += 1;
                    return Ok(());
                }
                Ok(Fate::Expired) => {
                    self.loaded.expired += 1;
                    return Ok(());
                }
                Ok(Fate::Duplicate) => return refused(LoadFault::Duplicate(found.key.bytes.to_vec())),
                Err(PutError::Refused(Refusal::Missing(Missing::Cold))) => accessor.unit().fetch_missed(),
                Err(PutError::Refused(Refusal::Missing(_))) => return refused(LoadFault::Unreadable),
                Err(PutError::Refused(Refusal::Full | Refusal::WrongKind)) => {
                    return refused(LoadFault::Full(found.key.bytes.to_vec()));
                }
                Err(PutError::Malformed) => return Err(found.malformed()),
            }
        }
    }

    fn put(&mut self, accessor: &mut Accessor, found: &Found<'_>, value: AnyValue<'_>) -> Result<Fate, PutError> {
        let (mut keys, key) = (accessor.writer(found.of.db), found.key);
        if self.options.existing == Existing::Refuse && keys.exists(key)? {
            return Ok(Fate::Duplicate);
        }
        let metadata = found.of.metadata;
        let kept = put(&mut keys, key, value, Put { expiry_ms: metadata.expiry_ms, ..Put::default() }, &self.options.limits)?;
        // Whichever of them the eviction policy does not keep is left out, as in Redis.
        if let Some(idle_s) = metadata.idle_s.filter(|_| kept) {
            keys.heat().set_idle_ms(key, i64::try_from(idle_s).unwrap_or(i64::MAX).saturating_mul(1000));
        }
        if let Some(of) = metadata.frequency.filter(|_| kept) {
            keys.heat().set_frequency(key, frequency::steps(of));
        }
        Ok(if kept { Fate::Kept } else { Fate::Expired })
    }
}

/// What became of a key.
enum Fate {
    Kept,
    /// All of its elements were past their time.
    Expired,
    /// One of its name is there already, and is to stay.
    Duplicate,
}
