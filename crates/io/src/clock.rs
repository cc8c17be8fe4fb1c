//! Clocks. All time in the process comes from here, so that a simulator can replace it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall-clock time: milliseconds since the Unix epoch.
#[must_use]
pub fn unix_ms() -> i64 {
    i64::try_from(since_unix_epoch().as_millis()).unwrap_or(i64::MAX)
}

/// Wall-clock time: microseconds since the Unix epoch.
#[must_use]
pub fn unix_us() -> i64 {
    i64::try_from(since_unix_epoch().as_micros()).unwrap_or(i64::MAX)
}

/// How far the wall clock is ahead of [`monotonic_ns`], in nanoseconds. Valid until either clock is set.
#[must_use]
pub fn unix_ahead_ns() -> i64 {
    // In this order the sum is never ahead of the wall clock.
    let unix_ns = i64::try_from(since_unix_epoch().as_nanos()).unwrap_or(i64::MAX);
    unix_ns.saturating_sub(i64::try_from(monotonic_ns()).unwrap_or(i64::MAX))
}

/// Monotonic time in nanoseconds since an arbitrary start. Asked twice per batch, so it is no more than the kernel's answer.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    #[cfg(feature = "sim")]
    if let Some(simulated_ns) = crate::sim::world::monotonic_ns() {
        return simulated_ns;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // By the C library, not by a system call library of our own: that one does not start under Valgrind.
    // SAFETY: the call writes the time into the given place. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // The clock begins at zero with the machine.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A clock before 1970 reads as 1970.
fn since_unix_epoch() -> Duration {
    #[cfg(feature = "sim")]
    if let Some(simulated_ns) = crate::sim::world::unix_ns() {
        return Duration::from_nanos(simulated_ns);
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_begins_and_never_goes_back() {
        let begin = monotonic_ns();
        assert!(begin > 0);
        crate::thread::sleep(Duration::from_millis(2));
        assert!(monotonic_ns() - begin >= 2_000_000);
    }
}
