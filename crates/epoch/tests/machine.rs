//! The state machine with one thread that plays both the worker and the driver.
#![cfg(not(loom))]

use std::sync::{Arc, Mutex};

use almandine_epoch::{Busy, Epoch, Machine, Phase, Progress, Step};

/// A checkpoint's phases: the version travels in the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checkpoint {
    Rest(u32),
    Prepare(u32),
    Flush(u32),
}

impl Phase for Checkpoint {
    fn to_word(self) -> u64 {
        match self {
            Self::Rest(version) => u64::from(version),
            Self::Prepare(version) => 1 << 32 | u64::from(version),
            Self::Flush(version) => 2 << 32 | u64::from(version),
        }
    }

    fn from_word(word: u64) -> Self {
        let version = word as u32;
        match word >> 32 {
            0 => Self::Rest(version),
            1 => Self::Prepare(version),
            _ => Self::Flush(version),
        }
    }
}

use Checkpoint::{Flush, Prepare, Rest};

fn next(phase: Checkpoint) -> Step<Checkpoint> {
    match phase {
        Prepare(version) => Step::Next(Flush(version + 1)),
        Flush(version) => Step::Next(Rest(version)),
        Rest(_) => Step::Done,
    }
}

#[test]
fn each_step_waits_for_those_inside() {
    let epoch = Arc::new(Epoch::new(2));
    let worker = epoch.register().unwrap();
    let machine = Machine::new(Arc::clone(&epoch), Rest(7));
    let steps = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&steps);

    worker.enter();
    assert_eq!(machine.phase(), Rest(7));
    let mut run = machine
        .start(Prepare(7), move |phase| {
            log.lock().unwrap().push(phase);
            next(phase)
        })
        .unwrap();
    assert_eq!(machine.phase(), Prepare(7), "published at once");
    assert_eq!(run.poll(), Progress::Waiting);
    assert!(steps.lock().unwrap().is_empty(), "the worker entered before");

    worker.refresh();
    assert_eq!(run.poll(), Progress::Waiting);
    assert_eq!(*steps.lock().unwrap(), [Prepare(7)]);
    assert_eq!(run.phase(), Flush(8));
    assert_eq!(run.poll(), Progress::Waiting);
    assert_eq!(steps.lock().unwrap().len(), 1, "the worker is still in Prepare");

    worker.leave();
    assert_eq!(run.poll(), Progress::Waiting);
    assert_eq!(run.poll(), Progress::Finished);
    assert_eq!(run.poll(), Progress::Finished);
    assert_eq!(*steps.lock().unwrap(), [Prepare(7), Flush(8), Rest(8)]);
    assert_eq!(machine.phase(), Rest(8));
}

#[test]
fn a_step_that_waits_runs_again_in_the_same_phase() {
    let machine = Machine::new(Arc::new(Epoch::new(1)), Rest(0));
    let mut left = 3;
    let mut run = machine
        .start(Flush(0), move |_| {
            left -= 1;
            if left == 0 { Step::Done } else { Step::Wait }
        })
        .unwrap();
    let polls = std::iter::repeat_with(|| run.poll()).take_while(|&progress| progress == Progress::Waiting).count();
    assert_eq!(polls, 2);
}

#[test]
fn one_run_at_a_time_and_an_abandoned_one_can_be_followed() {
    let epoch = Arc::new(Epoch::new(1));
    let machine = Machine::new(Arc::clone(&epoch), Rest(0));
    let run = machine.start(Prepare(0), next).unwrap();
    assert_eq!(machine.start(Prepare(0), next).err(), Some(Busy));
    drop(run);
    assert_eq!(machine.phase(), Prepare(0));
    let mut run = machine.start(Rest(0), next).unwrap();
    assert_eq!(run.poll(), Progress::Finished);
    assert!(machine.start(Prepare(0), next).is_ok());
}

#[test]
fn one_thread_drives_several_machines() {
    let epoch = Arc::new(Epoch::new(1));
    let machines: Vec<_> = (0..3).map(|version| Machine::new(Arc::clone(&epoch), Rest(version))).collect();
    let mut runs: Vec<_> =
        machines.iter().zip(0..).map(|(machine, version)| machine.start(Prepare(version), next).unwrap()).collect();
    for _ in 0..3 {
        runs.retain_mut(|run| run.poll() == Progress::Waiting);
    }
    assert!(runs.is_empty());
    assert_eq!(machines.iter().map(|machine| machine.phase()).collect::<Vec<_>>(), [Rest(1), Rest(2), Rest(3)]);
}
