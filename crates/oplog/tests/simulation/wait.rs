//! How long what waits for a log that is broken waits for its being healed, and what the end of one that is broken says.

use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_io::thread;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::Directory;
use almandine_oplog::manifest::BaseEntry;
use almandine_oplog::writer::{Cut, LogListener, LogState, LogWriter, SyncMode, WriterOptions};
use almandine_oplog::{Fault, epoch_of};

use crate::life::{One, PATH, SEGMENT_BYTES, look};
use crate::rings::Rings;

const HEAL_WAIT_S: u64 = 4;

struct Waits;

impl LogListener for Waits {
    fn advanced(&self) {}

    fn changed(&self, _state: LogState) {}

    fn heal_wait_s(&self) -> u64 {
        HEAL_WAIT_S
    }
}

fn begin(rings: &Rings, mode: SyncMode) -> LogWriter {
    let directory = Directory::take(PATH).unwrap();
    let manifest = directory.manifest().unwrap();
    let (_, end) = look().unwrap();
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
    let log = Appender::begin(directory, manifest, &end, &options, &rings.left(), Box::new(|| {})).unwrap();
    rings.begin(log.manifest().run, end.epoch);
    let options = WriterOptions { mode, rings_survive: true };
    LogWriter::start(log, Box::new(rings.clone()), options, Box::new(Waits), std::sync::Arc::default()).unwrap()
}

/// Whether nothing can be written.
fn fail(disk: &Disk, fails: bool) {
    disk.set_faults(DiskFaults { write_errors: if fails { 1_000_000 } else { 0 }, ..DiskFaults::default() });
}

fn sleep_s(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}

/// A unit that cannot be written; its epoch. The log is broken.
fn break_by_unit(writer: &LogWriter, rings: &Rings, disk: &Disk) -> u64 {
    fail(disk, true);
    let epoch = epoch_of(rings.put(0, 300, 0));
    writer.progress().want(epoch);
    while writer.progress().state() == LogState::Serving {
        thread::sleep(Duration::from_millis(5));
    }
    epoch
}

/// What was written is not durable, and the sync of it has failed: only a base heals the log.
fn break_behind_written(writer: &LogWriter, rings: &Rings, disk: &Disk) -> u64 {
    let epoch = epoch_of(rings.put(0, 9000, 0));
    while writer.progress().written_epoch() < epoch {
        writer.progress().press();
        thread::sleep(Duration::from_millis(5));
    }
    disk.set_faults(DiskFaults { sync_errors: 1_000_000, ..DiskFaults::default() });
    assert!(writer.sync().is_err(), "the sync has failed");
    fail(disk, false);
    assert!(writer.progress().needs_base());
    epoch
}

fn name(writer: &LogWriter, begun: Cut) -> Result<Cut, Fault> {
    let end = writer.sync()?;
    let base = BaseEntry { number: 1, lsn: begun.place.lsn, through: end.place.lsn, epoch: end.epoch, parts: 0, key: None };
    writer.name_base(base)
}

fn in_simulation(left_out: &[Mutant], body: impl FnOnce(&Rings, &Disk) + Send + 'static) -> Result<(), String> {
    One::enter(1, left_out, |one| {
        let disk = std::sync::Arc::clone(&one.disk);
        one.run(move || body(&Rings::default(), &disk)).map(|_| ())
    })
}

/// INV-OPLOG-1: what waits is durable when the disk takes it, and it is not given up before its time.
#[test]
fn what_waits_is_durable_when_the_disk_takes_it() {
    let body = |rings: &Rings, disk: &Disk| {
        let writer = begin(rings, SyncMode::Always);
        let epoch = break_by_unit(&writer, rings, disk);
        sleep_s(HEAL_WAIT_S - 2);
        let progress = writer.progress();
        assert_eq!((progress.state(), progress.breaks()), (LogState::Broken, 0), "it is waited for");
        assert!(progress.durable_epoch() < epoch);
        fail(disk, false);
        while progress.durable_epoch() < epoch {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((progress.state(), progress.breaks()), (LogState::Serving, 0), "what waited is durable");
        // The seconds before do not count any more.
        break_by_unit(&writer, rings, disk);
        sleep_s(HEAL_WAIT_S - 2);
        assert_eq!(progress.state(), LogState::Broken);
        sleep_s(4);
        assert_eq!((progress.state(), progress.breaks()), (LogState::GivenUp, 1), "the disk does not come back");
        fail(disk, false);
        while progress.state() != LogState::Serving {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(progress.breaks(), 1, "it is healed all the same");
    };
    in_simulation(&[], body).unwrap();
}

/// Seconds do not count while a base is made; they do when it has failed.
fn waits_for_a_base(left_out: &[Mutant]) -> Result<(), String> {
    in_simulation(left_out, |rings, disk| {
        let writer = begin(rings, SyncMode::Never);
        let epoch = break_behind_written(&writer, rings, disk);
        let progress = writer.progress();
        let begun = writer.rotate().unwrap();
        sleep_s(10 * HEAL_WAIT_S);
        assert_eq!(progress.state(), LogState::Broken, "a base is being made");
        assert!(progress.durable_epoch() < epoch, "it is not named");
        name(&writer, begun).unwrap();
        assert_eq!((progress.state(), progress.breaks()), (LogState::Serving, 0));
        assert!(progress.durable_epoch() >= epoch);
        break_behind_written(&writer, rings, disk);
        for _ in 0..2 {
            writer.rotate().unwrap();
            sleep_s(HEAL_WAIT_S);
            assert_eq!(progress.state(), LogState::Broken);
            writer.abandon_base();
            sleep_s(HEAL_WAIT_S / 2 + 1);
        }
        assert_eq!((progress.state(), progress.breaks()), (LogState::GivenUp, 1), "no base heals it");
        let begun = writer.rotate().unwrap();
        name(&writer, begun).unwrap();
        assert_eq!((progress.state(), progress.breaks()), (LogState::Serving, 1));
    })
}

#[test]
fn seconds_in_which_a_base_is_made_are_not_counted() {
    waits_for_a_base(&[]).unwrap();
    assert!(waits_for_a_base(&[Mutant::AwaitBase]).unwrap_err().contains("a base is being made"));
}

/// What is not durable at the end of a broken log is not said to be.
fn ends_broken(left_out: &[Mutant]) -> Result<(), String> {
    in_simulation(left_out, |rings, disk| {
        for breaks_first in [true, false] {
            let writer = begin(rings, SyncMode::Always);
            if breaks_first {
                break_by_unit(&writer, rings, disk);
            } else {
                rings.put(0, 300, 0);
                fail(disk, true);
            }
            assert!(writer.end().is_err());
            assert_eq!(writer.progress().state(), LogState::GivenUp, "it has no end");
            fail(disk, false);
            drop(writer);
        }
        let writer = begin(rings, SyncMode::Always);
        rings.put(0, 300, 0);
        writer.end().unwrap();
        assert_eq!(writer.progress().state(), LogState::Ended);
    })
}

#[test]
fn the_end_of_a_broken_log_does_not_make_it_durable() {
    ends_broken(&[]).unwrap();
    assert!(ends_broken(&[Mutant::EndBroken]).unwrap_err().contains("it has no end"));
}
