//! Breaks of the operation log that were given up, and that all workers have heard of.
//!
//! While the log is broken and given up, a worker that has heard of it refuses writes, and what it tells others need not wait: it
//! tells of no unit of work that the log lacks. A worker that has not heard yet may tell of one. So a message is stamped with the
//! number of breaks that all workers have heard of when it is sent, its sender among them; with a break that is not in this number
//! it is not told while the log is given up (INV-OPLOG-1).
//!
//! A worker has heard of a break when it is behind the announcement, which comes after writes are refused, and has no unit of work
//! open: a script that is suspended may have written before.

use std::sync::atomic::{AtomicU64, Ordering};

use almandine_io::sync::Mutex;

use crate::lock::lock;

/// See the module.
#[derive(Debug, Default)]
pub struct Breaks {
    /// Written by the log's listener.
    announced: AtomicU64,
    /// The least of `workers`.
    by_all: AtomicU64,
    /// What each worker has heard of.
    workers: Mutex<Vec<u64>>,
}

impl Breaks {
    /// The log has broken and was given up this many times, and writes are refused for that.
    pub fn announce(&self, breaks: u64) {
        self.announced.fetch_max(breaks, Ordering::AcqRel);
    }

    /// Breaks for which writes have been refused.
    #[must_use]
    pub fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// A worker begins, with no unit of work.
    pub fn join(&self, worker: usize) {
        let mut workers = lock(&self.workers);
        if workers.len() <= worker {
            workers.resize(worker + 1, u64::MAX);
        }
        // One that runs has its own word.
        if workers[worker] == u64::MAX {
            workers[worker] = self.announced();
        }
        self.count(&workers);
    }

    /// A worker without a unit of work has heard of this many breaks.
    pub fn hear(&self, worker: usize, breaks: u64) {
        let mut workers = lock(&self.workers);
        if let Some(heard) = workers.get_mut(worker) {
            *heard = breaks;
        }
        self.count(&workers);
    }

    /// Breaks that all workers have heard of.
    #[must_use]
    pub fn heard_by_all(&self) -> u64 {
        self.by_all.load(Ordering::Acquire)
    }

    fn count(&self, workers: &[u64]) {
        self.by_all.store(workers.iter().copied().min().unwrap_or(0), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_counts_when_the_last_worker_has_heard_of_it() {
        let breaks = Breaks::default();
        assert_eq!(breaks.heard_by_all(), 0);
        (0..3).for_each(|worker| breaks.join(worker));
        breaks.announce(1);
        for worker in [2, 0] {
            breaks.hear(worker, 1);
            assert_eq!(breaks.heard_by_all(), 0, "worker 1 has not");
        }
        breaks.announce(2);
        breaks.join(1);
        breaks.join(5);
        assert_eq!(breaks.heard_by_all(), 0, "one that runs does not hear by joining, and places between have no worker");
        breaks.hear(1, breaks.announced());
        assert_eq!(breaks.heard_by_all(), 1);
        (0..3).for_each(|worker| breaks.hear(worker, 2));
        assert_eq!(breaks.heard_by_all(), 2);
    }
}
