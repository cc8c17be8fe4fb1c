//! The processor of the system on which the threads of a simulation run.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One of those that the process may use, by number.
pub(super) fn choose(number: usize) -> Option<usize> {
    let set = sched_getaffinity(None).ok()?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect();
    processors.get(number % processors.len().max(1)).copied()
}

/// Pins the calling thread, if the system allows it.
pub(super) fn pin_to(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}
