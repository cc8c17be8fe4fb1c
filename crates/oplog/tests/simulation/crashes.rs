//! A crash at each change of the disk: what was promised is found, and nothing that was not done; the log always begins again.

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::world::CrashKind;
use almandine_oplog::Fault;
use almandine_oplog::manifest::BaseEntry;

use crate::life::{Life, One};

/// Two processes: groups that are durable and not, in one segment and over several, seals, a clean end.
fn plan(life: &Life) -> Result<(), Fault> {
    let mut log = life.begin()?;
    life.append(&mut log, &[10, 3000, 0], true)?;
    life.append(&mut log, &[40], false)?;
    log.seal(true)?;
    life.settle();
    life.append(&mut log, &[30_000, 9000], false)?;
    life.append(&mut log, &[50_000, 30_000, 8], true)?;
    drop(log);
    let mut log = life.begin()?;
    life.append(&mut log, &[70_000], false)?;
    log.sync()?;
    life.settle();
    life.append(&mut log, &[5, 5], true)?;
    log.end()?;
    life.settle();
    Ok(())
}

/// A process after a crash: it finds what was promised, and goes on.
fn go_on(life: &Life) {
    let mut log = life.begin().unwrap_or_else(|fault| panic!("{fault}"));
    life.append(&mut log, &[100, 100], true).unwrap();
    life.append(&mut log, &[5000], false).unwrap();
}

fn changes(body: impl FnOnce(&Life) -> Result<(), Fault> + Send + 'static) -> u64 {
    One::enter(0, &[], |one| {
        one.run(move || body(&Life::default()).unwrap()).unwrap().unwrap();
        one.disk.changes()
    })
}

fn crash_at(seed: u64, change: u64, kind: CrashKind, left_out: &[Mutant]) -> Result<(), String> {
    One::enter(seed, left_out, |one| {
        one.disk.set_faults(DiskFaults { written_back: 200_000, ..DiskFaults::default() });
        one.disk.crash_at(change, kind);
        let life = Life::default();
        let own = life.clone();
        match one.run(move || plan(&own).unwrap())? {
            None => life.crash(kind),
            Some(()) => {
                one.disk.crash_at(u64::MAX, kind);
                one.crash(&life, kind);
            }
        }
        // Writes that were under way arrive before the next process looks, or while it does.
        for next in [CrashKind::Machine, CrashKind::Process, CrashKind::Container, CrashKind::Machine] {
            let own = life.clone();
            one.run(move || go_on(&own))?;
            one.crash(&life, next);
        }
        let own = life.clone();
        one.run(move || own.check())?;
        Ok(())
    })
}

#[test]
fn what_was_promised_survives_a_crash_at_each_change() {
    let changes = changes(plan);
    assert!((80..400).contains(&changes), "{changes}");
    for kind in [CrashKind::Process, CrashKind::Container, CrashKind::Machine] {
        for (change, seed) in (0..=changes).flat_map(|change| (0..1).map(move |seed| (change, seed))) {
            crash_at(seed, change, kind, &[]).unwrap_or_else(|error| panic!("{kind:?} at {change}, seed {seed}: {error}"));
        }
    }
}

/// Some seed notices.
fn notice(left_out: Mutant, try_seed: impl Fn(u64) -> Result<(), String>) {
    let noticed = (0..2000).find_map(|seed| try_seed(seed).err().map(|error| (seed, error)));
    let (seed, error) = noticed.unwrap_or_else(|| panic!("{left_out:?} is not noticed"));
    let text = error.lines().last().unwrap_or_default().to_owned();
    println!("{left_out:?} is noticed with seed {seed}: {text}");
}

#[test]
fn steps_that_are_left_out_are_noticed_by_crashes() {
    let changes = changes(plan);
    for left_out in [Mutant::SyncNames, Mutant::AppendOnce] {
        let kind = if left_out == Mutant::AppendOnce { CrashKind::Process } else { CrashKind::Machine };
        notice(left_out, |seed| crash_at(seed, seed % changes, kind, &[left_out]));
    }
}

/// A base drops segments, which are used again.
fn with_bases(life: &Life) -> Result<(), Fault> {
    let mut log = life.begin()?;
    for number in 1..5 {
        let before = log.rotate()?;
        for _ in 0..3 {
            life.append(&mut log, &[20_000, 100], true)?;
        }
        let base = BaseEntry { number, lsn: before.lsn, through: log.ends().1.lsn, epoch: 0, parts: 0, key: None };
        life.forget(|| log.name_base(base))?;
    }
    log.end()
}

fn crash_among_bases(seed: u64, change: u64, kind: CrashKind, left_out: &[Mutant]) -> Result<(), String> {
    One::enter(seed, left_out, |one| {
        one.disk.crash_at(change, kind);
        let life = Life::default();
        let own = life.clone();
        if one.run(move || with_bases(&own).unwrap())?.is_some() {
            one.disk.crash_at(u64::MAX, kind);
            one.crash(&life, kind);
        } else {
            life.crash(kind);
        }
        let own = life.clone();
        one.run(move || go_on(&own)).map(|_| ())
    })
}

#[test]
fn a_crash_while_segments_are_dropped_leaves_the_old_base_or_the_new_one() {
    let changes = changes(with_bases);
    for kind in [CrashKind::Process, CrashKind::Machine] {
        for change in 0..=changes {
            crash_among_bases(0, change, kind, &[]).unwrap_or_else(|error| panic!("{kind:?} at {change}: {error}"));
        }
    }
    notice(Mutant::NameFirst, |seed| crash_among_bases(seed, seed % changes, CrashKind::Machine, &[Mutant::NameFirst]));
}
