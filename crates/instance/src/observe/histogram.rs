//! A histogram of nanoseconds: 32 linear steps in each power of two, so that a value is known within 3 %.
//!
//! One thread records; any thread reads or merges. Values above the range count in the last step.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Linear steps in each octave.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Values up to 2^36 ns, which is 69 s, are told apart.
const OCTAVES: usize = 36 - STEP_BITS as usize + 1;
const SLOTS: usize = OCTAVES * STEPS;

/// Counts of durations in nanoseconds.
#[derive(Debug)]
pub struct Histogram {
    slots: [AtomicU64; SLOTS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { slots: [const { AtomicU64::new(0) }; SLOTS] }
    }
}

impl Histogram {
    /// Records `count` durations of `value_ns`. Called by one thread only.
    #[inline]
    pub fn record(&self, value_ns: u64, count: u64) {
        let slot = &self.slots[slot_of(value_ns)];
        slot.store(slot.load(Relaxed) + count, Relaxed);
    }

    /// Adds the counts of `other`.
    pub fn merge(&self, other: &Histogram) {
        for (into, from) in self.slots.iter().zip(&other.slots) {
            into.store(into.load(Relaxed) + from.load(Relaxed), Relaxed);
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Relaxed));
    }

    /// Durations recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.slots.iter().map(|slot| slot.load(Relaxed)).sum()
    }

    /// The sum of the durations in nanoseconds, each within half a step.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        let parts = self.slots.iter().enumerate().map(|(index, slot)| (index, slot.load(Relaxed)));
        parts.filter(|(_, count)| *count > 0).fold(0, |sum: u64, (index, count)| {
            let lowest = if index == 0 { 0 } else { highest_value(index - 1) + 1 };
            sum.saturating_add(count.saturating_mul(u64::midpoint(lowest, highest_value(index))))
        })
    }

    /// The duration in nanoseconds that `percentile` per cent of the recorded ones do not exceed, within a step.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let count = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank, at most `count`"
        )]
        let rank = ((count as f64 * percentile / 100.0).ceil() as u64).clamp(1, count.max(1));
        self.value_at(rank)
    }

    /// How many durations are at most `limit_ns`, within a step.
    #[must_use]
    pub fn at_most(&self, limit_ns: u64) -> u64 {
        let last = slot_of(limit_ns);
        self.slots[..=last].iter().map(|slot| slot.load(Relaxed)).sum()
    }

    fn value_at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        for (index, slot) in self.slots.iter().enumerate() {
            seen += slot.load(Relaxed);
            if seen >= rank {
                return highest_value(index);
            }
        }
        0
    }
}

/// Values below 32 have slots of their own; above, the top six bits choose the slot.
#[inline]
fn slot_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return usize::try_from(value).unwrap_or(0);
    }
    let octave = u64::BITS - 1 - value.leading_zeros();
    let step = usize::try_from((value >> (octave - STEP_BITS)) & (STEPS as u64 - 1)).unwrap_or(0);
    (((octave - STEP_BITS + 1) as usize) * STEPS + step).min(SLOTS - 1)
}

fn highest_value(slot: usize) -> u64 {
    if slot < STEPS {
        return slot as u64;
    }
    let (octave, step) = (slot / STEPS - 1, slot % STEPS);
    (((STEPS + step + 1) as u64) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_within_a_step() {
        for value in [0, 1, 31, 32, 33, 63, 64, 100, 1_000, 12_345, 1_000_000, 999_999_999] {
            let high = highest_value(slot_of(value));
            assert!(high >= value && high <= value + value / 32, "{value} reads as {high}");
        }
        assert_eq!(slot_of(u64::MAX), SLOTS - 1);
    }

    #[test]
    fn the_sum_is_known_within_half_a_step() {
        let histogram = Histogram::default();
        let mut exact = 0;
        for value in [0, 1, 31, 32, 1_000, 12_345, 1_000_000, 999_999_999] {
            histogram.record(value, 3);
            exact += 3 * value;
            assert!(histogram.sum_ns().abs_diff(exact) <= exact / 60, "{} for {exact}", histogram.sum_ns());
        }
    }

    #[test]
    fn percentiles_follow_the_ranks() {
        let histogram = Histogram::default();
        assert_eq!(histogram.percentile_ns(50.0), 0);
        histogram.record(10, 90);
        histogram.record(1000, 10);
        assert_eq!(histogram.percentile_ns(50.0), 10);
        assert!((1000..1032).contains(&histogram.percentile_ns(99.0)));
        assert_eq!((histogram.at_most(10), histogram.count()), (90, 100));
    }
}
