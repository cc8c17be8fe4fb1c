//! What a disk reports is reported, and loses nothing that was synced.

use std::collections::BTreeMap;
use std::sync::Arc;

use almandine_device::{Device, OpenMode};
use almandine_io::sim::choice::Subsystem;
use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_io::sim::turn;
use almandine_io::sim::world::CrashKind;

use crate::crashes::{One, open};
use crate::model::{Model, Step};

fn below(limit: u64) -> u64 {
    turn::simulation().unwrap().below(Subsystem::Clients, limit)
}

/// Random steps on a disk with these faults.
fn write(model: &Model, disk: &Disk, faults: DiskFaults) {
    let device = open(OpenMode::Keep);
    model.check(&device);
    device.sync().unwrap();
    model.settle();
    disk.set_faults(faults);
    let mut sync_failed = false;
    for _ in 0..40 {
        let (first, count) = (below(20), 1 + below(6));
        let step = match below(4) {
            0 => Step::Sync,
            1 => Step::Discard(first, count),
            _ => Step::Write(first, count),
        };
        let result = model.execute(&device, step);
        if matches!(step, Step::Sync) {
            assert!(!sync_failed || result.is_err(), "D3");
            sync_failed |= result.is_err();
        }
    }
    disk.set_faults(DiskFaults::default());
}

#[test]
fn a_disk_that_fails_loses_nothing_that_was_synced() {
    let faults = DiskFaults {
        full_at_bytes: Some(20 * 4096),
        short_reads: 20_000,
        ..DiskFaults { written_back: 200_000, ..DiskFaults::reported(20_000) }
    };
    let mut happened = BTreeMap::<&str, u64>::new();
    for seed in 0..200 {
        One::enter(seed, |one| {
            let model = Model::default();
            for _ in 0..3 {
                let (own, disk, faults) = (model.clone(), Arc::clone(&one.disk), faults.clone());
                one.run(move || write(&own, &disk, faults)).unwrap();
                one.crash(CrashKind::Machine);
            }
            one.run(move || model.check(&open(OpenMode::Keep))).unwrap();
            one.disk.happened().into_iter().for_each(|(what, times)| *happened.entry(what).or_default() += times);
        });
    }
    for what in ["a write fails", "a sync fails", "a hole fails", "the disk is full", "a short write"] {
        assert!(happened.get(what).is_some_and(|times| *times > 0), "{what}: {happened:?}");
    }
}

/// A disk that lies is caught by checksums, not by a device; but a device reads no other file and no torn block of a healthy one.
#[test]
fn a_slow_disk_with_short_transfers_changes_nothing() {
    for seed in 0..50 {
        One::enter(seed, |one| {
            let model = Model::default();
            for _ in 0..3 {
                let (own, disk) = (model.clone(), Arc::clone(&one.disk));
                one.run(move || {
                    let faults = DiskFaults { slow: 1_000, ..DiskFaults::harmless(100_000) };
                    write(&own, &disk, faults);
                })
                .unwrap();
                one.crash(CrashKind::Machine);
            }
        });
    }
}
