//! The waker under the model checker: `RUSTFLAGS="--cfg loom" cargo test --profile fast -p almandine-io --lib model`.
//!
//! A waiter takes numbers that others publish before they wake it, and ends when it has all. Nothing times out, so a lost wake is a
//! deadlock, which the checker reports. A twin without one step of the protocol must fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use almandine_base::mutants::{self, Mutant};
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

use super::Waker;

/// Two pieces of work, each published by itself and followed by a wake, from as many threads as there are entries.
fn check(mutant: Option<Mutant>, wakes: &'static [usize]) {
    mutants::choose(mutant);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((Waker::new(), [AtomicUsize::new(0), AtomicUsize::new(0)]));
        let threads: Vec<_> = (0..wakes.len())
            .map(|own| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for done in 1..=wakes[own] {
                        shared.1[own].store(done, Relaxed);
                        shared.0.wake();
                    }
                })
            })
            .collect();
        // Not this thread: the checker takes an unpark of a thread that joins another for its end.
        let waiter = thread::spawn(move || {
            while (0..wakes.len()).any(|own| shared.1[own].load(Relaxed) < wakes[own]) {
                shared.0.wait(Duration::MAX);
            }
        });
        threads.into_iter().chain([waiter]).for_each(|thread| thread.join().expect("no thread fails"));
    });
}

#[test]
fn no_wake_is_lost() {
    check(None, &[1]);
    check(None, &[2]);
    check(None, &[1, 1]);
}

#[test]
fn the_waker_needs_each_fence_and_its_order() {
    for mutant in [Mutant::SayWaiting, Mutant::AskFence, Mutant::SignalFence, Mutant::WaitFence, Mutant::TakeFence] {
        let found = [&[1][..], &[2], &[1, 1]].into_iter().any(|wakes| {
            let outcome = catch_unwind(AssertUnwindSafe(|| check(Some(mutant), wakes)));
            let report = outcome.err().map(|report| report.downcast_ref::<String>().cloned().unwrap_or_default());
            report.is_some_and(|report| report.contains("deadlock"))
        });
        assert!(found, "no lost wake without {mutant:?}");
    }
}
