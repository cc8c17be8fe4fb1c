//! Disks that fail, are full or lie: what was promised is found or refused, never less without a word.

use std::collections::BTreeMap;
use std::sync::Arc;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_io::sim::world::CrashKind;

use crate::life::{Life, One, below};

/// A process that appends until something fails, and then goes on in a new segment if it can.
fn serve(life: &Life, disk: &Disk, faults: DiskFaults) {
    disk.set_faults(DiskFaults::default());
    let mut log = life.begin().unwrap_or_else(|fault| panic!("{fault}"));
    disk.set_faults(faults);
    for _ in 0..20 {
        let sizes: Vec<usize> = (0..1 + below(3)).map(|_| [0, 100, 5000, 40_000][below(4) as usize]).collect();
        let durable = below(2) == 0;
        if life.append(&mut log, &sizes, durable).is_err() && life.heal(&mut log).is_err() {
            life.fail();
            break;
        }
    }
    disk.set_faults(DiskFaults::default());
}

fn fail(seed: u64, faults: &DiskFaults, left_out: &[Mutant], happened: &mut BTreeMap<&'static str, u64>) -> Result<(), String> {
    One::enter(seed, left_out, |one| {
        let life = Life::default();
        for _ in 0..3 {
            let (own, disk, faults) = (life.clone(), Arc::clone(&one.disk), faults.clone());
            one.run(move || serve(&own, &disk, faults))?;
            one.crash(&life, [CrashKind::Machine, CrashKind::Process, CrashKind::Container][(seed % 3) as usize]);
        }
        one.disk.happened().into_iter().for_each(|(what, times)| *happened.entry(what).or_default() += times);
        let own = life.clone();
        one.run(move || own.check())?;
        Ok(())
    })
}

fn failing() -> DiskFaults {
    DiskFaults { write_errors: 20_000, sync_errors: 20_000, short_writes: 20_000, written_back: 200_000, ..DiskFaults::default() }
}

#[test]
fn a_disk_that_fails_loses_nothing_that_was_durable() {
    let mut happened = BTreeMap::new();
    for seed in 0..150 {
        fail(seed, &failing(), &[], &mut happened).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(["a write fails", "a sync fails", "a short write"].iter().all(|what| happened.contains_key(what)), "{happened:?}");
}

#[test]
fn a_full_disk_loses_nothing() {
    let mut happened = BTreeMap::new();
    let full = DiskFaults { full_at_bytes: Some(600 << 10), ..DiskFaults::default() };
    for seed in 0..30 {
        fail(seed, &full, &[], &mut happened).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_sync_that_is_tried_again_is_noticed() {
    let left_out = Mutant::TrustNoSync;
    let noticed = (0..2000).any(|seed| fail(seed * 3, &failing(), &[left_out], &mut BTreeMap::new()).is_err());
    assert!(noticed, "{left_out:?} is not noticed");
}

/// What a disk that lies leaves: never something that was not done; what is missing is refused or was not provable.
fn lie(seed: u64) -> Result<bool, String> {
    One::enter(seed, &[], |one| {
        let life = Life::default();
        let (own, disk) = (life.clone(), Arc::clone(&one.disk));
        one.run(move || {
            let mut log = own.begin().unwrap();
            disk.set_faults(DiskFaults::detected(25_000));
            for _ in 0..12 {
                own.append(&mut log, &[100, 3000], true).unwrap();
            }
            disk.set_faults(DiskFaults::default());
            // What comes last is proven by a seal.
            log.seal(true).unwrap();
        })?;
        one.crash(&life, CrashKind::Machine);
        let read = one.run(move || life.begin().is_ok())?;
        Ok(read.unwrap_or(false))
    })
}

#[test]
fn a_disk_that_lies_is_noticed() {
    let read = (0..100).filter(|seed| lie(*seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"))).count();
    assert!((5..95).contains(&read), "{read}");
}
