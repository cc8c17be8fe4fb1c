//! The writer under clients, and crashes: what a reply promised is there, in each mode and after each kind of crash (INV-OPLOG-4).

use std::sync::Arc;
use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::turn;
use almandine_io::sim::world::CrashKind;
use almandine_io::thread;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::Directory;
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
}

fn now_ns() -> u64 {
    turn::simulation().map_or(0, |turn| turn.now_ns())
}

/// A process: recovers, and serves clients until all are done. When that was.
fn serve(rings: &Rings, case: Case) -> u64 {
    let directory = Directory::take(PATH).unwrap();
    let manifest = directory.manifest().unwrap();
    let (_, end) = look().unwrap_or_else(|fault| panic!("{fault}"));
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
    let log = match Appender::begin(directory, manifest, &end, &options, &rings.left(), Box::new(|| {})) {
        Ok(log) => log,
        // A start that the disk fails is none.
        Err(Fault::Io { .. }) if case.faults => return now_ns(),
        Err(fault) => panic!("{fault}"),
    };
    let run = log.manifest().run;
    let (_, end) = look().unwrap();
    rings.begin(run, end.epoch);
    let options = WriterOptions { mode: case.mode, rings_survive: true };
    let progress = Arc::new(LogProgress::default());
    let writer = LogWriter::start(log, Box::new(rings.clone()), options, Box::new(Silent), progress).unwrap();
    let clients: Vec<_> = (0..RINGS).map(|ring| client(rings.clone(), ring, Arc::clone(writer.progress()), case)).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    if below(2) == 0 {
        writer.sync().unwrap_or_else(|fault| panic!("{fault}"));
        let mut state = rings.state();
        let (run, done) = (state.run, state.done.clone());
        state.promised.extend(done.into_iter().map(|(number, _)| (run, number)));
        drop(state);
        writer.end().unwrap_or_else(|fault| panic!("{fault}"));
    }
    now_ns()
}

/// Does units, and waits for its replies as the mode has it.
fn client(rings: Rings, ring: u16, progress: Arc<LogProgress>, case: Case) -> thread::JoinHandle<()> {
    let body = move || {
        for _ in 0..12 {
            let number = rings.put(ring, [10, 300, 9000][below(3) as usize], now_ns());
            let mut waited = 0;
            while case.mode == SyncMode::Always && progress.durable_epoch() < epoch_of(number) {
                if progress.state() == LogState::Broken && waited > 20_000 {
                    return;
                }
                progress.want(epoch_of(number));
                thread::sleep(Duration::from_millis(1));
                waited += 1;
            }
            if case.mode == SyncMode::Always {
                let run = rings.state().run;
                rings.state().promised.push((run, number));
            }
            thread::sleep(Duration::from_millis([1, 20, 300][below(3) as usize]));
        }
    };
    thread::spawn(&format!("client-{ring}"), body).unwrap()
}

/// What must be found after a crash at this time.
fn check(rings: &Rings, found: &[Unit], case: Case, crashed_ns: u64) {
    let mut state = rings.state();
    let of = |run: u64| found.iter().filter(move |unit| unit.0 == run).map(|unit| unit.2).collect::<Vec<_>>();
    for (run, number) in &state.promised {
        assert!(of(*run).contains(number), "unit {number} of run {run} had its reply and is lost, {case:?}");
    }
    let (own, done): (Vec<u64>, Vec<u64>) = (of(state.run), state.done.iter().map(|(number, _)| *number).collect());
    assert!(done.starts_with(&own), "what is found is no prefix, {case:?}: {own:?} of {done:?}");
    if case.kind == CrashKind::Process && !case.faults {
        assert!(own.len() == done.len(), "{} units of {} outlive the process, {case:?}", own.len(), done.len());
    }
    if case.mode == SyncMode::EverySecond && !case.faults {
        // A second, what closes the cut, and a sync.
        let old = state.done.iter().filter(|(_, at_ns)| at_ns + SECOND_NS + SECOND_NS / 5 < crashed_ns).count();
        assert!(own.len() >= old, "{} units are found of {old} that were done a second before, {case:?}", own.len());
    }
    // The rest is gone for good.
    state.done.truncate(own.len());
}

fn crash(seed: u64, change: u64, case: Case, left_out: &[Mutant]) -> Result<(), String> {
    One::enter(seed, left_out, |one| {
        let errors = if case.faults { 10_000 } else { 0 };
        let faults = DiskFaults { written_back: 100_000, write_errors: errors, ..DiskFaults::default() };
        let rings = Rings::default();
        for (round, change) in [change, change / 2, u64::MAX].into_iter().enumerate() {
            one.disk.set_faults(if round == 2 { DiskFaults::default() } else { faults.clone() });
            one.disk.crash_at(one.disk.changes().saturating_add(change), case.kind);
            let own = rings.clone();
            let served = one.run(move || serve(&own, case))?;
            let crashed_ns = served.unwrap_or(one.now_ns());
            if served.is_some() {
                one.end(case.kind);
            }
            if case.kind != CrashKind::Process {
                rings.clear();
            }
            one.disk.crash_at(u64::MAX, case.kind);
            one.disk.set_faults(DiskFaults::default());
            let own = rings.clone();
            one.run(move || {
                // Direct writes that were under way arrive.
                thread::sleep(Duration::from_secs(1));
                let directory = Directory::take(PATH).unwrap();
                let manifest = directory.manifest().unwrap();
                let (_, end) = look().unwrap_or_else(|fault| panic!("{fault}"));
                let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
                let log = Appender::begin(directory, manifest, &end, &options, &own.left(), Box::new(|| {})).unwrap();
                drop(log);
                let (found, _) = look().unwrap_or_else(|fault| panic!("{fault}"));
                check(&own, &found, case, crashed_ns);
                own.clear();
            })?;
        }
        Ok(())
    })
}

const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::EverySecond, SyncMode::Never];

#[test]
fn what_a_reply_promised_is_there_after_crashes() {
    for (mode, kind) in MODES.into_iter().flat_map(|mode| [CrashKind::Process, CrashKind::Machine].map(|kind| (mode, kind))) {
        let case = Case { mode, kind, faults: false };
        for seed in 0..40 {
            crash(seed, 20 + seed * 3, case, &[]).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

#[test]
fn a_disk_that_fails_at_times_breaks_no_promise() {
    let case = Case { mode: SyncMode::Always, kind: CrashKind::Machine, faults: true };
    for seed in 0..40 {
        crash(seed, 20 + seed * 3, case, &[]).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn steps_of_the_writer_that_are_left_out_are_noticed() {
    for left_out in [Mutant::SyncFirst, Mutant::WriteFirst] {
        let case = Case { mode: SyncMode::Always, kind: CrashKind::Machine, faults: false };
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
