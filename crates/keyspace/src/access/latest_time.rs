//! The latest time of a worker's batch.
//!
//! Each worker reads the clock when its batch begins, so two batches at one moment have two times. A unit of work of several keys
//! that comes behind another one must not have an earlier time: a key that has expired for that one would be there for it, beside
//! what that one has written. The clock itself is slow to read for each unit; this is a load.
//!
//! Threads of the background enter the epoch with times of their own, which do not count here.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicI64, Ordering};

/// Times of batches differ by less, in milliseconds, unless the clock was set.
const APART_MS_MAX: i64 = 10_000;

/// The latest time of a batch in milliseconds since the Unix epoch.
pub(crate) struct LatestTime(CachePadded<AtomicI64>);

impl LatestTime {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(AtomicI64::new(i64::MIN)))
    }

    /// A batch has this time from now on. What it does under its latches is behind this, so a batch that has the latches next
    /// sees it.
    #[inline]
    pub(crate) fn note(&self, now_ms: i64) {
        let latest_ms = self.0.load(Ordering::Relaxed);
        if now_ms > latest_ms {
            self.0.fetch_max(now_ms, Ordering::Relaxed);
        } else if latest_ms.saturating_sub(now_ms) > APART_MS_MAX {
            // The clock was set back.
            self.0.store(now_ms, Ordering::Relaxed);
        }
    }

    /// The time of a batch that has a time already, behind what others have done.
    #[inline]
    pub(crate) fn behind_others(&self, now_ms: i64) -> i64 {
        let latest_ms = self.0.load(Ordering::Relaxed);
        if latest_ms.saturating_sub(now_ms) > APART_MS_MAX { now_ms } else { latest_ms.max(now_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_until_the_clock_is_set_back() {
        let latest = LatestTime::new();
        assert_eq!(latest.behind_others(-5), -5, "no other batch has begun");
        latest.note(50_000);
        latest.note(49_990);
        assert_eq!((latest.behind_others(49_980), latest.behind_others(50_001)), (50_000, 50_001));
        assert_eq!(latest.behind_others(30_000), 30_000, "the clock was set");
        latest.note(30_000);
        assert_eq!(latest.behind_others(29_999), 30_000);
    }
}
