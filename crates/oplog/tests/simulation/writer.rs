//! The writer under clients, and crashes: what a reply promised is there, in each mode and after each kind of crash (INV-OPLOG-4).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::turn;
use almandine_io::sim::world::CrashKind;
use almandine_io::thread;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::Directory;
use almandine_oplog::manifest::BaseEntry;
use almandine_oplog::writer::{LogListener, LogProgress, LogState, LogWriter, SyncMode, WriterOptions};
use almandine_oplog::{Fault, RingId, UnitSource, epoch_of};

use crate::life::{One, PATH, SEGMENT_BYTES, Unit, below, look};
use crate::rings::{RINGS, Rings};

const SECOND_NS: u64 = 1_000_000_000;

struct Silent;

impl LogListener for Silent {
    fn advanced(&self) {}

    fn changed(&self, _state: LogState) {}
}

/// What a plan varies.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: SyncMode,
    kind: CrashKind,
    faults: bool,
    /// The rings outlive the process.
    survive: bool,
    /// Of a million operations of the disk, those that take up to half a second.
    slow: u32,
    /// Bases are made meanwhile.
    bases: bool,
}

/// What each base has, by its number: runs and numbers of units. Kept outside of the simulation.
type Based = Arc<Mutex<BTreeMap<u64, Vec<(u64, u64)>>>>;

impl Case {
    /// Whether what this epoch has may be answered.
    fn is_answered(self, progress: &LogProgress, epoch: u64) -> bool {
        match self.mode {
            SyncMode::Always => progress.durable_epoch() >= epoch,
            _ => self.survive || progress.written_epoch() >= epoch,
        }
    }

    /// Whether an answer is a promise for this kind of crash.
    fn is_promised(self) -> bool {
        self.mode == SyncMode::Always || !self.survive && self.kind == CrashKind::Process
    }
}

fn now_ns() -> u64 {
    turn::simulation().map_or(0, |turn| turn.now_ns())
}

fn begin(rings: &Rings) -> Result<Appender, Fault> {
    let directory = Directory::take(PATH)?;
    let manifest = directory.manifest()?;
    let (_, end) = look().unwrap_or_else(|fault| panic!("{fault}"));
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
    Appender::begin(directory, manifest, &end, &options, &rings.left(), Box::new(|| {}))
}

/// A process: recovers, and serves clients until all are done. When that was.
fn serve(rings: &Rings, based: &Based, case: Case) -> u64 {
    let log = match begin(rings) {
        Ok(log) => log,
        // A start that the disk fails is none.
        Err(Fault::Io { .. }) if case.faults => return now_ns(),
        Err(fault) => panic!("{fault}"),
    };
    let run = log.manifest().run;
    let (found, end) = look().unwrap();
    let known = with_base(&found, based, log.manifest().base);
    rings.begin(run, end.epoch);
    let options = WriterOptions { mode: case.mode, rings_survive: case.survive };
    let progress = Arc::new(LogProgress::default());
    let writer = LogWriter::start(log, Box::new(rings.clone()), options, Box::new(Silent), progress).unwrap();
    let clients: Vec<_> = (0..RINGS).map(|ring| client(rings.clone(), ring, Arc::clone(writer.progress()), case)).collect();
    if case.bases {
        let made = make_bases(&writer, rings, based, &known);
        assert!(made.is_ok() || case.faults, "{made:?}");
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    if below(2) == 0 {
        if let Err(fault) = writer.sync() {
            // What was written and is not durable then needs a base.
            assert!(case.faults, "{fault}");
            return now_ns();
        }
        if writer.progress().state().is_broken() {
            // It does not count before a base is named that heals the log.
            return now_ns();
        }
        let mut state = rings.state();
        let (run, done) = (state.run, state.done.clone());
        state.promised.extend(done.into_iter().map(|(number, _)| (run, number)));
        drop(state);
        let ended = writer.end();
        assert!(ended.is_ok() || case.faults, "{ended:?}");
    }
    now_ns()
}

/// What is found with what the base has that is named.
fn with_base(found: &[Unit], based: &Based, base: Option<BaseEntry>) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = found.iter().map(|unit| (unit.0, unit.2)).collect();
    all.extend(base.iter().flat_map(|base| based.lock().unwrap()[&base.number].clone()));
    all.sort_unstable();
    all.dedup();
    all
}

/// Makes bases beside the clients: each has what was found at the start and what was done when it began, and some of what was done
/// until its walk ended.
fn make_bases(writer: &LogWriter, rings: &Rings, based: &Based, known: &[(u64, u64)]) -> Result<(), Fault> {
    for _ in 0..3 {
        thread::sleep(Duration::from_millis([1, 20, 300][below(3) as usize]));
        let begun = writer.rotate()?;
        thread::sleep(Duration::from_millis([1, 20, 300][below(3) as usize]));
        let state = rings.state();
        let met = state.done.iter().map(|(number, _)| *number).filter(|number| epoch_of(*number) <= begun.epoch || below(2) == 0);
        let all: Vec<_> = known.iter().copied().chain(met.map(|number| (state.run, number))).collect();
        drop(state);
        let end = writer.sync()?;
        let number = based.lock().unwrap().last_key_value().map_or(1, |(number, _)| number + 1);
        based.lock().unwrap().insert(number, all);
        let base = BaseEntry { number, lsn: begun.place.lsn, through: end.place.lsn, epoch: end.epoch, parts: 0, key: None };
        writer.name_base(base)?;
    }
    Ok(())
}

/// Does units, and waits for its replies as the mode has it.
fn client(rings: Rings, ring: u16, progress: Arc<LogProgress>, case: Case) -> thread::JoinHandle<()> {
    let body = move || {
        for _ in 0..12 {
            let number = rings.put(ring, [10, 300, 9000][below(3) as usize], now_ns());
            let (epoch, mut waited) = (epoch_of(number), 0);
            while !case.is_answered(&progress, epoch) {
                if progress.state().is_broken() && waited > 20_000 {
                    return;
                }
                progress.want(epoch);
                thread::sleep(Duration::from_millis(1));
                waited += 1;
            }
            let promise = || {
                let run = rings.state().run;
                rings.state().promised.push((run, number));
            };
            if case.is_promised() {
                promise();
            }
            thread::sleep(Duration::from_millis([1, 20, 300][below(3) as usize]));
            // As WAITAOF hears it.
            if progress.durable_epoch() >= epoch {
                promise();
            }
        }
    };
    thread::spawn(&format!("client-{ring}"), body).unwrap()
}

/// What must be found after a crash at this time.
fn check(rings: &Rings, found: &[(u64, u64)], case: Case, crashed_ns: u64) {
    let mut state = rings.state();
    let of = |run: u64| found.iter().filter(move |unit| unit.0 == run).map(|unit| unit.1).collect::<Vec<_>>();
    for (run, number) in &state.promised {
        assert!(of(*run).contains(number), "unit {number} of run {run} had its reply and is lost, {case:?}");
    }
    let (own, done): (Vec<u64>, Vec<u64>) = (of(state.run), state.done.iter().map(|(number, _)| *number).collect());
    assert!(done.starts_with(&own), "what is found is no prefix, {case:?}: {own:?} of {done:?}");
    if case.kind == CrashKind::Process && !case.faults && case.survive {
        assert!(own.len() == done.len(), "{} units of {} outlive the process, {case:?}", own.len(), done.len());
    }
    if case.mode == SyncMode::EverySecond && !case.faults {
        // A second, what closes the cut, and a sync; one that is under way is waited for.
        let syncs_ns = if case.slow > 0 { 5 * SECOND_NS / 2 } else { SECOND_NS / 5 };
        let old = state.done.iter().filter(|(_, at_ns)| at_ns + SECOND_NS + syncs_ns < crashed_ns).count();
        assert!(own.len() >= old, "{} units are found of {old} that were done a second before, {case:?}", own.len());
    }
    // The rest is gone for good.
    state.done.truncate(own.len());
}

fn crash(seed: u64, change: u64, case: Case, left_out: &[Mutant]) -> Result<(), String> {
    One::enter(seed, left_out, |one| {
        let errors = if case.faults { 10_000 } else { 0 };
        let faults = DiskFaults {
            written_back: 100_000,
            write_errors: errors,
            sync_errors: errors,
            slow: case.slow,
            ..DiskFaults::default()
        };
        let (rings, based) = (Rings::default(), Based::default());
        for (round, change) in [change, change / 2, u64::MAX].into_iter().enumerate() {
            one.disk.set_faults(if round == 2 { DiskFaults::default() } else { faults.clone() });
            one.disk.crash_at(one.disk.changes().saturating_add(change), case.kind);
            let (own, bases) = (rings.clone(), Arc::clone(&based));
            let served = one.run(move || serve(&own, &bases, case))?;
            let crashed_ns = served.unwrap_or(one.now_ns());
            if served.is_some() {
                one.end(case.kind);
            }
            if case.kind != CrashKind::Process || !case.survive {
                rings.clear();
            }
            one.disk.crash_at(u64::MAX, case.kind);
            one.disk.set_faults(DiskFaults::default());
            let (own, bases) = (rings.clone(), Arc::clone(&based));
            one.run(move || {
                // Direct writes that were under way arrive.
                thread::sleep(Duration::from_secs(1));
                let base = begin(&own).unwrap_or_else(|fault| panic!("{fault}")).manifest().base;
                let (found, _) = look().unwrap_or_else(|fault| panic!("{fault}"));
                check(&own, &with_base(&found, &bases, base), case, crashed_ns);
                own.clear();
            })?;
        }
        Ok(())
    })
}

const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::EverySecond, SyncMode::Never];

#[test]
fn what_a_reply_promised_is_there_after_crashes() {
    let kinds = [CrashKind::Process, CrashKind::Machine];
    for (mode, kind, survive) in MODES
        .into_iter()
        .flat_map(|mode| kinds.into_iter().flat_map(move |kind| [false, true].map(|survive| (mode, kind, survive))))
    {
        let case = Case { mode, kind, faults: false, survive, slow: 0, bases: false };
        for seed in 0..40 {
            let case = Case { slow: [200_000, 0, 0][seed as usize % 3], bases: seed % 2 == 0, ..case };
            crash(seed, 20 + seed * 3, case, &[]).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

#[test]
fn a_disk_that_fails_at_times_breaks_no_promise() {
    for (mode, survive) in [(SyncMode::Always, true), (SyncMode::EverySecond, false), (SyncMode::EverySecond, true)] {
        let case = Case { mode, kind: CrashKind::Machine, faults: true, survive, slow: 0, bases: false };
        for seed in 0..60 {
            let case = Case { bases: seed % 2 == 0, ..case };
            crash(seed, 20 + seed * 3, case, &[]).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

#[test]
fn steps_of_the_writer_that_are_left_out_are_noticed() {
    let (always, every_second) = ((SyncMode::Always, true, 0), (SyncMode::EverySecond, false, 1_000_000));
    for (left_out, (mode, survive, slow)) in [
        (Mutant::SyncFirst, always),
        (Mutant::WriteFirst, always),
        (Mutant::AwaitSync, every_second),
        (Mutant::SyncNames, every_second),
        (Mutant::EndBlock, every_second),
        (Mutant::AwaitOwnCut, every_second),
    ] {
        let case = Case {
            mode,
            kind: CrashKind::Machine,
            faults: false,
            survive,
            slow,
            bases: matches!(left_out, Mutant::SyncNames | Mutant::AwaitOwnCut),
        };
        let noticed = (0..500).any(|seed| crash(seed, 20 + seed % 80, case, &[left_out]).is_err());
        assert!(noticed, "{left_out:?} is not noticed");
    }
}

#[test]
fn rings_give_what_is_closed() {
    One::enter(1, &[], |one| {
        one.run(|| {
            let mut rings = Rings::default();
            rings.begin(1, 0);
            let number = rings.put(0, 3, 0);
            rings.raise_epoch();
            rings.put(1, 3, 0);
            let mut seen = Vec::new();
            rings.units(epoch_of(number), &mut |ring: RingId, units: &[u8]| seen.push((ring, units.len())));
            assert_eq!(seen, [(RingId(0), 19)]);
            rings.release(epoch_of(number));
            assert_eq!(rings.pending_bytes(), 19);
        })
        .unwrap()
        .unwrap();
    });
}
