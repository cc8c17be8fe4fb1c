//! How long a record has been idle, from the laps of the hand: its age says how many laps ago it was used, and when laps began
//! is known. Precise to a lap.
//!
//! Without need to evict, the background takes the hand round slowly, and ever more slowly from level to level, so that four
//! levels tell seconds from minutes: a record gets to the next level after one lap, eight, and sixty-four.

use almandine_io::clock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Levels that a record can get to by being idle.
pub(crate) const LEVELS: usize = 3;
/// Laps of rest per step between two levels, each compared with the one before.
const LAPS_PER_LEVEL: u64 = 8;

/// When laps began, by what they tell.
pub(crate) struct IdleClock {
    /// A record at age `level` was not used since this time, milliseconds of the monotonic clock.
    unused_since_ms: [AtomicI64; LEVELS],
    lap_start_ms: AtomicI64,
    laps: AtomicU64,
}

pub(crate) fn now_ms() -> i64 {
    (clock::monotonic_ns() / 1_000_000) as i64
}

impl IdleClock {
    pub(crate) fn new() -> Self {
        let start = || AtomicI64::new(now_ms());
        Self { unused_since_ms: [start(), start(), start()], lap_start_ms: start(), laps: AtomicU64::new(0) }
    }

    /// A lap is over in which records cooled down from the level above `level` to it, where `cooled[level]` says so.
    pub(crate) fn lap_ended(&self, cooled: &[bool; LEVELS]) {
        let read = |time: &AtomicI64| time.load(Ordering::Relaxed);
        for (level, &cooled) in cooled.iter().enumerate() {
            if cooled {
                let newcomers = self.unused_since_ms.get(level + 1).map_or(read(&self.lap_start_ms), read);
                self.unused_since_ms[level].store(newcomers, Ordering::Relaxed);
            }
        }
        debug_assert!(
            self.unused_since_ms.windows(2).all(|pair| read(&pair[0]) <= now_ms() && read(&pair[1]) <= now_ms()),
            "what is unused has been so since a time that has passed"
        );
        self.lap_start_ms.store(now_ms(), Ordering::Relaxed);
        self.laps.fetch_add(1, Ordering::Relaxed);
    }

    /// Which levels the present lap at rest leads to.
    pub(crate) fn calm_lap(&self) -> [bool; LEVELS] {
        let lap = self.laps.load(Ordering::Relaxed) + 1;
        let levels = [lap.is_multiple_of(LAPS_PER_LEVEL * LAPS_PER_LEVEL), lap.is_multiple_of(LAPS_PER_LEVEL), true];
        debug_assert!(levels.is_sorted(), "a level gives records away only in laps in which it takes others in");
        levels
    }

    /// Milliseconds for which a record of this age has not been used, at least.
    pub(crate) fn idle_ms(&self, age: u64) -> i64 {
        let since = self.unused_since_ms.get(age as usize).map_or(i64::MAX, |time| time.load(Ordering::Relaxed));
        now_ms().saturating_sub(since).max(0)
    }

    /// The greatest age that says no more than that a record was not used for `idle_ms`.
    pub(crate) fn age(&self, idle_ms: i64) -> u64 {
        debug_assert!(idle_ms >= 0, "the last use is in the past");
        (0..LEVELS as u64).find(|age| self.idle_ms(*age) <= idle_ms).unwrap_or(LEVELS as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Lets time pass, and as much more as the test does not wait for.
    fn pass(clock: &IdleClock, more_ms: i64) {
        std::thread::sleep(Duration::from_millis(20));
        let times = clock.unused_since_ms.iter().chain([&clock.lap_start_ms]);
        times.for_each(|time| time.store(time.load(Ordering::Relaxed) - more_ms, Ordering::Relaxed));
    }

    #[test]
    fn older_levels_are_idle_for_longer() {
        let clock = IdleClock::new();
        for _ in 0..3 {
            pass(&clock, 40_000);
            clock.lap_ended(&[true; LEVELS]);
        }
        let idle: Vec<i64> = (0..4).map(|age| clock.idle_ms(age)).collect();
        assert!(idle[0] >= 120_060 && idle[1] >= 80_040 && idle[2] >= 40_020 && idle[3] == 0, "{idle:?}");
        assert!(idle[0] > idle[1] && idle[1] > idle[2]);
        // Meanwhile time goes on, on a busy machine for a while.
        assert_eq!([0, idle[2] + 20_000, idle[1] + 20_000, 1_000_000].map(|idle_ms| clock.age(idle_ms)), [3, 2, 1, 0]);
        assert_eq!(clock.calm_lap(), [false, false, true]);
    }
}
