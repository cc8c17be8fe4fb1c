//! Each operation of the disk of a server with a log and snapshots fails once, or all from it on for some time: nothing that was
//! acknowledged is lost, the server says it, and serves again by itself when the disk does. `ALMANDINE_TEST_FULL=1` takes each of
//! them, in every mode; a plain run some.
#![cfg(feature = "sim")]

use std::collections::BTreeMap;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::Failure;
use almandine_sim::media::{Came, Case, Fails, Part, run};
use almandine_sim::run::quiet;
use almandine_testkit::full;

const MODES: [&str; 3] = ["always", "everysec", "no"];
const FAILURES: [Failure; 2] = [Failure::Medium, Failure::Full];

/// How many operations lie between two that a plain run has fail.
const STEP: u64 = 23;
/// In how many runs a missing step is looked for.
const SEEDS: u64 = 20;

/// Has operations fail, each in a run of its own: what came of them.
///
/// # Errors
/// The first run that does not hold.
fn each_fails(case: &Case, (failure, lasts): (Failure, bool), step: u64) -> Result<Vec<Came>, String> {
    quiet();
    let operations = run(case)?.operations;
    assert!(operations > 60, "{case:?} has {operations} operations");
    let mut all = Vec::new();
    for operation in (case.seed % step..operations).step_by(usize::try_from(step).unwrap_or(1)) {
        let case = Case { fails: Some(Fails { operation, failure, lasts }), ..case.clone() };
        all.push(run(&case).map_err(|report| format!("{case:?}: {report}"))?);
    }
    Ok(all)
}

/// All modes, both failures.
fn all_fail(part: Part, lasts: bool) -> Vec<Came> {
    let (mut all, step) = (Vec::new(), if full() { 1 } else { STEP });
    for (seed, mode) in (1..).zip(MODES) {
        for failure in FAILURES {
            let case = Case { seed, mode, part, fails: None, left_out: Vec::new() };
            let came = each_fails(&case, (failure, lasts), step).unwrap_or_else(|report| panic!("{report}"));
            let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
            for came in &came {
                *kinds.entry(format!("{:?}: {:?}{:?}", came.failed, came.told, came.refused)).or_default() += 1;
            }
            println!("{mode}, {part:?}, {failure:?}, {}: {} runs", if lasts { "for some time" } else { "once" }, came.len());
            kinds.iter().for_each(|(kind, count)| println!("  {count} with {kind}"));
            all.extend(came);
        }
    }
    assert!(all.iter().any(|came| !came.failed.is_empty()), "nothing has failed");
    all
}

#[test]
fn an_operation_that_fails_once_loses_nothing() {
    let all = all_fail(Part::Service, false);
    assert!(all.iter().all(|came| !came.restarts), "one failure is over without a restart");
}

#[test]
fn a_disk_that_fails_for_some_time_loses_nothing() {
    let all = all_fail(Part::Service, true);
    assert!(all.iter().all(|came| !came.restarts), "it is over without a restart");
    // What fails from the first operations on meets writers.
    assert!(all.iter().any(|came| came.told.len() > 1), "the server says what has failed");
}

#[test]
fn a_start_on_a_failing_disk_is_refused_with_the_file_and_the_next_one_has_all() {
    for lasts in [false, true] {
        let all = all_fail(Part::Start, lasts);
        let refused: Vec<&str> = all.iter().filter_map(|came| came.refused.as_deref()).collect();
        assert!(!refused.is_empty(), "no start is refused");
        let names_one = |text: &&&str| text.contains("/data") || text.contains("/dev/shm");
        assert_eq!(refused.iter().find(|text| !names_one(text)), None, "a file is named");
    }
}

#[test]
fn a_missing_step_is_noticed() {
    let missing = [
        ("always", Part::Service, Mutant::CheckNames),
        ("always", Part::Start, Mutant::KeepRings),
        ("no", Part::Service, Mutant::NameFirst),
    ];
    for (mode, part, mutant) in missing {
        // Whether an operation that fails meets units that are in rings alone depends on the moment.
        let noticed = (1..=SEEDS).find_map(|seed| {
            let case = Case { seed, mode, part, fails: None, left_out: vec![mutant] };
            each_fails(&case, (Failure::Medium, false), 1).err().map(|report| (seed, report))
        });
        let (seed, report) = noticed.unwrap_or_else(|| panic!("{mutant:?} is not noticed"));
        println!("{mutant:?}, seed {seed}: {}", report.lines().last().unwrap_or_default());
    }
}
