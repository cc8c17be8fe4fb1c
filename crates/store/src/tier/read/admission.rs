//! Admission: how warm a record on the device must be for a copy of it to be worth its place.
//!
//! A copy costs about a fifth of a read of the device, once when it is made and again each time that it stays. So what counts is
//! how many reads a copy answers: where it is less than one in two, the threshold goes up, and copies become fewer and live
//! longer; where each answers several, it goes down. Keys that are all read alike end up with next to no copies, and a skewed
//! load with its hot keys in memory.

use crate::index::entry::HEAT_MAX;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lowest threshold: a record that was read twice of late.
const HEAT_MIN: u64 = 2;
/// Copies after which the threshold is looked at again.
const SAMPLE: u64 = 4096;
/// Reads of the device after which the threshold goes down if fewer copies than the sample were made.
const READS_WITHOUT: u64 = 1 << 17;

/// The threshold, read by sessions and moved by the compactor.
pub(crate) struct Admission {
    heat: AtomicU64,
}

/// What the threshold was last judged by.
#[derive(Clone, Copy, Default)]
pub(crate) struct Judged {
    copies: u64,
    hits: u64,
    reads: u64,
}

impl Admission {
    pub(in crate::tier) fn new() -> Self {
        Self { heat: AtomicU64::new(HEAT_MIN) }
    }

    /// Heat from which on a record is copied, or stays.
    pub(crate) fn heat(&self) -> u64 {
        self.heat.load(Ordering::Relaxed)
    }

    /// Judges the threshold by the sums of copies made, reads that copies answered, and reads of the device.
    pub(crate) fn judge(&self, last: &mut Judged, copies: u64, hits: u64, reads: u64) {
        debug_assert!(copies >= last.copies && reads >= last.reads, "copies and reads are only ever counted up");
        let (made, answered) = (copies - last.copies, hits.saturating_sub(last.hits));
        let heat = self.heat();
        let next = if made >= SAMPLE {
            if answered * 2 < made {
                (heat + 1).min(HEAT_MAX)
            } else if answered > made * 3 {
                (heat - 1).max(HEAT_MIN)
            } else {
                heat
            }
        } else if reads.saturating_sub(last.reads) >= READS_WITHOUT {
            (heat - 1).max(HEAT_MIN)
        } else {
            return;
        };
        debug_assert!((HEAT_MIN..=HEAT_MAX).contains(&next), "a record can be warm enough");
        self.heat.store(next, Ordering::Relaxed);
        *last = Judged { copies, hits, reads };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn useless_copies_raise_the_threshold_and_useful_ones_lower_it() {
        let (admission, mut last) = (Admission::new(), Judged::default());
        admission.judge(&mut last, SAMPLE - 1, 0, 0);
        assert_eq!(admission.heat(), HEAT_MIN, "too few to judge by");
        for round in 1..=10 {
            admission.judge(&mut last, round * SAMPLE, 0, 0);
        }
        assert_eq!(admission.heat(), HEAT_MAX);
        admission.judge(&mut last, 11 * SAMPLE, SAMPLE, 0);
        assert_eq!(admission.heat(), HEAT_MAX, "worth it");
        admission.judge(&mut last, 12 * SAMPLE, 6 * SAMPLE, 0);
        assert_eq!(admission.heat(), HEAT_MAX - 1);
        for round in 1..=10 {
            admission.judge(&mut last, 12 * SAMPLE, 6 * SAMPLE, round * READS_WITHOUT);
        }
        assert_eq!(admission.heat(), HEAT_MIN, "tried again when nothing is copied");
    }
}
