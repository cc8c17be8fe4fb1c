//! A broken log is healed by a new base, and crashes at each change of the disk meanwhile: nothing that was promised is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_io::sim::world::CrashKind;
use almandine_io::thread;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::Directory;
use almandine_oplog::manifest::BaseEntry;
use almandine_oplog::writer::{LogListener, LogProgress, LogState, LogWriter, SyncMode, WriterOptions};
use almandine_oplog::{Fault, epoch_of};

use crate::life::{One, PATH, SEGMENT_BYTES, look};
use crate::rings::Rings;

struct Silent;

impl LogListener for Silent {
    fn advanced(&self) {}

    fn changed(&self, _state: LogState) {}
}

/// What the base has, once it is named: the numbers of all units that were done when its walk ended.
type Based = Arc<Mutex<Vec<u64>>>;

fn begin(rings: &Rings) -> Result<LogWriter, Fault> {
    let directory = Directory::take(PATH)?;
    let manifest = directory.manifest()?;
    let (_, end) = look()?;
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
    let log = Appender::begin(directory, manifest, &end, &options, &rings.left(), Box::new(|| {}))?;
    let run = log.manifest().run;
    let (_, end) = look()?;
    rings.begin(run, end.epoch);
    let options = WriterOptions { mode: SyncMode::Never, rings_survive: true };
    let progress = Arc::new(LogProgress::default());
    Ok(LogWriter::start(log, Box::new(rings.clone()), options, Box::new(Silent), progress).unwrap())
}

/// Units are written and not durable, and the sync of some fails; then a base is made beside further units.
fn break_and_heal(rings: &Rings, based: &Based, disk: &Disk) {
    let writer = begin(rings).unwrap_or_else(|fault| panic!("{fault}"));
    let written = rings.put(0, 9000, 0);
    while writer.progress().written_epoch() < epoch_of(written) {
        writer.progress().press();
        thread::sleep(Duration::from_millis(5));
    }
    rings.put(1, 300, 0);
    disk.set_faults(DiskFaults { sync_errors: 1_000_000, ..DiskFaults::default() });
    assert!(writer.sync().is_err(), "the sync has failed");
    disk.set_faults(DiskFaults::default());
    assert!(writer.progress().state().is_broken());
    assert!(writer.progress().durable_epoch() < writer.progress().written_epoch(), "the rings have not all that is not durable");
    assert!(writer.sync().is_err() && writer.resume().is_err(), "nothing is written behind what failed");
    let begun = writer.rotate().unwrap_or_else(|fault| panic!("{fault}"));
    rings.put(2, 10, 0);
    let all: Vec<u64> = rings.state().done.iter().map(|(number, _)| *number).collect();
    rings.put(0, 500, 0);
    let end = writer.sync().unwrap_or_else(|fault| panic!("{fault}"));
    assert!(writer.progress().state().is_broken(), "until the base is named");
    based.lock().unwrap().extend(all);
    let base = BaseEntry { number: 1, lsn: begun.place.lsn, through: end.place.lsn, epoch: end.epoch, parts: 0, key: None };
    writer.name_base(base).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(writer.progress().state(), LogState::Serving);
    let mut state = rings.state();
    let promised: Vec<_> = state.done.iter().map(|(number, _)| (state.run, *number)).collect();
    state.promised.extend(promised);
    drop(state);
    let last = rings.put(1, 20_000, 0);
    writer.sync().unwrap_or_else(|fault| panic!("{fault}"));
    let mut state = rings.state();
    let run = state.run;
    state.promised.push((run, last));
    drop(state);
    writer.end().unwrap_or_else(|fault| panic!("{fault}"));
}

/// All that was done is there behind the end of a process, as far as the disk has what it took, and what was promised behind that
/// of a machine.
fn check(rings: &Rings, based: &Based, kind: CrashKind) {
    let left = if kind == CrashKind::Process { rings.left() } else { Vec::new() };
    let directory = Directory::take(PATH).unwrap();
    let manifest = directory.manifest().unwrap();
    let (_, end) = look().unwrap_or_else(|fault| panic!("{fault}"));
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
    let has_base = manifest.base.is_some();
    drop(Appender::begin(directory, manifest, &end, &options, &left, Box::new(|| {})).unwrap_or_else(|fault| panic!("{fault}")));
    let (found, _) = look().unwrap_or_else(|fault| panic!("{fault}"));
    let based = if has_base { based.lock().unwrap().clone() } else { Vec::new() };
    let state = rings.state();
    let has = |number: &u64| based.contains(number) || found.iter().any(|unit| unit.0 == state.run && unit.2 == *number);
    let lost = |number: &u64| panic!("unit {number} is lost, {kind:?}, with a base: {has_base}");
    // What was written and not durable when the sync failed is gone from the disk's cache, too, and then the rings do not count;
    // without it nothing behind it does.
    let is_cached = state.done.first().is_none_or(|(number, _)| has(number));
    if kind == CrashKind::Process && is_cached {
        state.done.iter().map(|(number, _)| number).filter(|number| !has(number)).for_each(lost);
    }
    state.promised.iter().map(|(_, number)| number).filter(|number| !has(number)).for_each(lost);
}

fn crash(seed: u64, change: u64, kind: CrashKind) -> (Result<(), String>, u64) {
    One::enter(seed, &[], |one| {
        one.disk.crash_at(change, kind);
        let (rings, based) = (Rings::default(), Based::default());
        let (own, own_base, disk) = (rings.clone(), Arc::clone(&based), Arc::clone(&one.disk));
        let ended = match one.run(move || break_and_heal(&own, &own_base, &disk)) {
            Err(error) => return (Err(error), 0),
            Ok(ended) => ended,
        };
        let changes = one.disk.changes();
        one.disk.crash_at(u64::MAX, kind);
        one.disk.set_faults(DiskFaults::default());
        if ended.is_some() {
            one.end(kind);
        }
        let checked = one.run(move || check(&rings, &based, kind)).map(|_| ());
        (checked, changes)
    })
}

/// INV-CHECKPOINT-1.
#[test]
fn a_broken_log_is_healed_by_a_base_and_survives_a_crash_at_each_change() {
    let (healed, changes) = crash(0, u64::MAX, CrashKind::Process);
    healed.unwrap_or_else(|error| panic!("{error}"));
    for kind in [CrashKind::Process, CrashKind::Machine] {
        for change in 0..=changes {
            crash(change, change, kind).0.unwrap_or_else(|error| panic!("{kind:?} at {change}: {error}"));
        }
    }
}
