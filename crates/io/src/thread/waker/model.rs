//! The waker under the model checker: `RUSTFLAGS="--cfg loom" cargo test --profile fast -p almandine-io --lib model`.
//!
//! A waiter takes numbers that others publish before they wake it, and ends when it has all. Nothing times out, so a lost wake is a
//! deadlock, which the checker reports. A twin without one step of the protocol must fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

use super::Waker;

/// A step of the protocol that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// w2: between the work and the question whether a signal is there.
    AskFence,
    /// w5: between the signal and the question whether the thread waits.
    SignalFence,
    /// t2: between saying that it waits and looking for a signal.
    WaitFence,
    /// t6: between taking the signal and looking for work.
    TakeFence,
}

/// Two pieces of work, each published by itself and followed by a wake, from as many threads as there are entries.
fn check(left_out: Option<Step>, wakes: &'static [usize]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((Waker { left_out, ..Waker::new() }, [AtomicUsize::new(0), AtomicUsize::new(0)]));
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
fn the_waker_needs_each_fence() {
    for step in [Step::AskFence, Step::SignalFence, Step::WaitFence, Step::TakeFence] {
        let found = [&[1][..], &[2], &[1, 1]].into_iter().any(|wakes| {
            let outcome = catch_unwind(AssertUnwindSafe(|| check(Some(step), wakes)));
            let report = outcome.err().map(|report| report.downcast_ref::<String>().cloned().unwrap_or_default());
            report.is_some_and(|report| report.contains("deadlock"))
        });
        assert!(found, "no lost wake without {step:?}");
    }
}
