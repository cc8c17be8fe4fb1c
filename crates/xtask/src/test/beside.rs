//! Jobs that run beside each other: what no longer builds.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::step::Ended;

/// How a job runs. In this order they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// It takes long, and begins before those that do not, so that none runs alone at the end.
    Long,
    Short,
    /// It mostly waits: one at a time, beside as many of the others as there are processors.
    Waiting,
    /// It measures time: when nothing else runs.
    Timed,
}

/// A job: a step, or a part of one.
pub(super) struct Job<'a> {
    pub(super) kind: Kind,
    pub(super) work: Box<dyn FnOnce() -> Ended + Send + 'a>,
}

/// Runs all jobs, and what failed in them once more where that may be; how they ended, in the order in which they were given,
/// those of one step together.
pub(super) fn run(jobs: Vec<Job<'_>>) -> Vec<Ended> {
    let mut ordered: Vec<_> = jobs.into_iter().enumerate().collect();
    ordered.sort_by_key(|(_, job)| job.kind);
    let of_kinds = |kinds: &[Kind]| ordered.extract_if(.., |(_, job)| kinds.contains(&job.kind)).collect();
    let [busy, waiting, timed] = [&[Kind::Long, Kind::Short][..], &[Kind::Waiting], &[Kind::Timed]].map(of_kinds);
    let [busy, waiting, timed]: [Mutex<VecDeque<_>>; 3] = [busy, waiting, timed].map(Mutex::new);
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| take(&busy, &ended));
        }
        scope.spawn(|| take(&waiting, &ended));
    });
    take(&timed, &ended);
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(place, _)| *place);
    // Nothing else runs now.
    ended.iter_mut().for_each(|(_, part)| part.try_again());
    let mut steps: Vec<Ended> = Vec::new();
    for (_, part) in ended {
        match steps.iter_mut().find(|step| step.name == part.name) {
            Some(step) => step.add(part),
            None => steps.push(part),
        }
    }
    for step in steps.iter_mut().filter(|step| step.passed + step.failed + step.skipped == 0) {
        step.failed = 1;
        step.problems.push("it had no test to run".to_owned());
    }
    steps
}

fn processors() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

/// Takes jobs until there are none.
fn take(queue: &Mutex<VecDeque<(usize, Job<'_>)>>, ended: &Mutex<Vec<(usize, Ended)>>) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    while let Some((place, job)) = next() {
        let one = (job.work)();
        ended.lock().unwrap_or_else(PoisonError::into_inner).push((place, one));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_job_is_done_and_those_of_a_step_are_one() {
        let job = |name: &'static str, failed, kind| Job {
            kind,
            work: Box::new(move || Ended { passed: 1, failed, ..Ended::new(name, Duration::from_secs(1)) }),
        };
        let kinds = [Kind::Long, Kind::Short, Kind::Waiting, Kind::Timed];
        let jobs =
            (0..20).flat_map(|n| [job("unit", 0, kinds[n % 4]), job("clients", usize::from(n == 7), kinds[n / 5])]).collect();
        let told: Vec<_> = run(jobs).into_iter().map(|e| (e.name, e.passed, e.failed, e.took.as_secs())).collect();
        assert_eq!(told, [("unit".to_owned(), 20, 0, 20), ("clients".to_owned(), 20, 1, 20)]);
    }

    #[test]
    fn a_step_without_tests_has_failed() {
        let job =
            |passed| Job { kind: Kind::Short, work: Box::new(move || Ended { passed, ..Ended::new("loom", Duration::ZERO) }) };
        assert_eq!(run(vec![job(0), job(0)])[0].failed, 1);
        assert_eq!(run(vec![job(0), job(3)])[0].failed, 0);
    }

    #[test]
    fn what_is_long_begins_first_and_what_is_timed_runs_alone() {
        let (begun, running) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let job = |kind: Kind| Job {
            kind,
            work: Box::new({
                let (begun, running) = (&begun, &running);
                move || {
                    let others = running.fetch_add(1, Ordering::SeqCst);
                    begun.lock().unwrap().push((kind, others));
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ended::new("a", Duration::ZERO)
                }
            }),
        };
        let kinds = [Kind::Timed, Kind::Short, Kind::Waiting, Kind::Long];
        run((0..100).map(|n| job(kinds[n % 4])).collect());
        let begun = &begun.into_inner().unwrap();
        let places = |kind| (0..begun.len()).filter(move |place| begun[*place].0 == kind);
        assert_eq!(begun.len(), 100);
        // A thread may have taken one and not have said so yet.
        let first_short = places(Kind::Short).next().unwrap();
        assert!(places(Kind::Long).filter(|place| *place > first_short).count() < processors(), "{begun:?}");
        assert!(places(Kind::Timed).all(|place| place >= 75 && begun[place].1 == 0), "{begun:?}");
        assert!(begun.iter().all(|(_, others)| *others <= processors()), "{begun:?}");
    }
}
