//! What is sampled during a soak, what has drifted, and what exceeded its bound.

use serde_json::{Value, json};

/// What may be resident beyond `maxmemory`, and beyond 1.25 × live without one.
pub(super) const BEYOND_BYTES: u64 = 64 << 20;
/// Resident memory without a device, in multiples of live bytes.
const MEMORY_RATIO: f64 = 1.25;
/// Space on the device in multiples of live bytes.
const DEVICE_RATIO: f64 = 1.5;
/// What a record may take besides key and value before it counts as waste.
const RECORD_BYTES: u64 = 24;

/// One look at the server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) resident: Option<u64>,
    pub(super) used: Option<u64>,
    pub(super) device: Option<u64>,
    /// The server's own count of live bytes.
    pub(super) storage_live: Option<u64>,
    pub(super) index: Option<u64>,
    pub(super) dbsize: u64,
    /// Keys and bytes of keys and values that must be there.
    pub(super) keys: u64,
    pub(super) live: u64,
    pub(super) operations: u64,
}

impl Sample {
    /// The most that may be on the device.
    pub(super) fn device_bound(&self, slack: u64) -> u64 {
        ((self.live + self.keys * RECORD_BYTES) as f64 * DEVICE_RATIO) as u64 + slack
    }

    /// The most that may be resident without a device.
    pub(super) fn memory_bound(&self) -> u64 {
        ((self.live + self.keys * RECORD_BYTES) as f64 * MEMORY_RATIO) as u64 + BEYOND_BYTES
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "resident_bytes": self.resident, "used_memory": self.used, "device_bytes": self.device,
            "storage_live_bytes": self.storage_live, "index_bytes": self.index, "dbsize": self.dbsize, "keys": self.keys,
            "live_bytes": self.live, "operations": self.operations,
        })
    }
}

/// Growth per hour over the second half, by least squares; `None` with fewer than four points.
pub(super) fn drift_per_hour(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let half = &samples[samples.len() / 2..];
    let points: Vec<(f64, f64)> = half.iter().filter_map(|s| Some((s.seconds / 3600.0, of(s)?))).collect();
    if points.len() < 4 {
        return None;
    }
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (spread > 0.0).then(|| points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(resident: impl Fn(f64) -> u64) -> Vec<Sample> {
        let sample = |i: u32| {
            let seconds = f64::from(i) * 5.0;
            Sample { seconds, resident: Some(resident(seconds)), ..Sample::default() }
        };
        (0..100).map(sample).collect()
    }

    #[test]
    fn drift_is_growth_of_the_second_half() {
        let drift = |samples: &[Sample]| drift_per_hour(samples, |s| s.resident.map(|b| b as f64));
        let steady = drift(&series(|seconds| 1_000_000 + if seconds < 100.0 { 0 } else { 50_000 })).unwrap();
        assert!(steady.abs() < 1e-6, "{steady}");
        let leak = drift(&series(|seconds| 1_000_000 + (seconds * 1000.0) as u64)).unwrap();
        assert!((leak / 3_600_000.0 - 1.0).abs() < 0.01, "{leak}");
        assert_eq!(drift(&series(|_| 1)[..5]), None);
    }

    #[test]
    fn bounds_count_records() {
        let sample = Sample { live: 1000, keys: 10, ..Sample::default() };
        assert_eq!(sample.device_bound(5), 1860 + 5);
        assert_eq!(sample.memory_bound(), 1550 + BEYOND_BYTES);
    }
}
