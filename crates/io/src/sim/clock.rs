//! The wall clock of a node: virtual time, seen through a clock that is off, drifts and is set.

/// The time at which virtual time begins: 2026-01-01, in nanoseconds since the Unix epoch.
const BEGIN_NS: i64 = 1_767_225_600 * 1_000_000_000;

/// A node's wall clock. The default shows virtual time as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// How far it is ahead, in nanoseconds.
    pub offset_ns: i64,
    /// How much faster than virtual time it goes, in millionths.
    pub drift_ppm: i32,
}

impl WallClock {
    /// Nanoseconds since the Unix epoch at a virtual time.
    #[must_use]
    pub fn unix_ns(&self, now_ns: u64) -> i64 {
        let now_ns = i64::try_from(now_ns).unwrap_or(i64::MAX);
        let drift = i128::from(now_ns) * i128::from(self.drift_ppm) / 1_000_000;
        let drift = i64::try_from(drift).unwrap_or(0);
        BEGIN_NS.saturating_add(now_ns).saturating_add(self.offset_ns).saturating_add(drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_and_drifts() {
        let hour_ns = 3_600_000_000_000;
        let right = WallClock::default().unix_ns(hour_ns);
        assert_eq!(right - WallClock::default().unix_ns(0), 3_600_000_000_000);
        assert_eq!(WallClock { offset_ns: -5, drift_ppm: 0 }.unix_ns(hour_ns), right - 5);
        assert_eq!(WallClock { offset_ns: 0, drift_ppm: -200 }.unix_ns(hour_ns), right - 720_000_000);
    }
}
