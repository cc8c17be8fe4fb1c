//! What the measurements are held against, and which of them missed it.

/// Longest time without an answer while loading.
const STALL_MS: f64 = 5.0;
/// CPU per SET against loading in memory.
const LOAD_CPU_RATIO: f64 = 1.3;
/// What may be resident beyond `maxmemory`.
const BEYOND_BYTES: f64 = (64 << 20) as f64;
/// Share of fio's reads at depth 50, without pipelining.
const SHARE_SINGLE: f64 = 0.8;
/// Share of fio's best, with pipelining.
const SHARE_BATCHED: f64 = 0.97;
/// Server CPU per device read.
const CPU_US_PER_READ: f64 = 7.0;
/// p99 in multiples of p50.
const TAIL_RATIO: f64 = 2.0;
/// The slowest connection's share of the mean: below, it is starved.
const SLOWEST_SHARE: f64 = 0.5;
/// Device reads per GET with caching, as a share of those without.
const CACHING_RATIO: f64 = 1.0 / 3.0;

/// Collects what missed its limit.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) checked: usize,
    pub(super) missed: Vec<String>,
}

/// The numbers of one pipeline depth that have limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Depth {
    pub(super) pipeline: usize,
    pub(super) reads_per_second: Option<f64>,
    /// fio at depth 50, and its best.
    pub(super) fio: Option<(f64, f64)>,
    pub(super) reads_per_get: Option<f64>,
    pub(super) cpu_us_per_read: Option<f64>,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) slowest_share: f64,
    /// Whether keys are uniform: with others the tail mixes memory and device.
    pub(super) uniform: bool,
}

impl Limits {
    fn most(&mut self, what: &str, value: f64, limit: f64) {
        self.checked += 1;
        if value > limit {
            self.missed.push(format!("{what}: {value:.3}, allowed {limit:.3}"));
        }
    }

    fn least(&mut self, what: &str, value: f64, limit: f64) {
        self.checked += 1;
        if value < limit {
            self.missed.push(format!("{what}: {value:.3}, wanted {limit:.3}"));
        }
    }

    /// The limits of loading.
    pub(super) fn load(&mut self, name: &str, stall_ms: f64, cpu_ratio: Option<f64>, resident: u64, maxmemory: u64) {
        self.most(&format!("{name}: longest stall in ms"), stall_ms, STALL_MS);
        if let Some(ratio) = cpu_ratio {
            self.most(&format!("{name}: CPU per SET against memory"), ratio, LOAD_CPU_RATIO);
        }
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        self.most(&format!("{name}: resident MiB"), mib(resident as f64), mib(maxmemory as f64 + BEYOND_BYTES));
    }

    /// The limits of reading.
    pub(super) fn read(&mut self, name: &str, depth: &Depth) {
        let name = |what: &str| format!("{name} P={}: {what}", depth.pipeline);
        if let (Some(reads), Some((single, best)), true) = (depth.reads_per_second, depth.fio, depth.uniform) {
            match depth.pipeline {
                1 => self.least(&name("share of fio's reads at depth 50"), reads / single, SHARE_SINGLE),
                _ => self.least(&name("share of fio's best"), reads / best, SHARE_BATCHED),
            }
        }
        if let Some(reads) = depth.reads_per_get {
            self.most(&name("device reads per GET"), reads, 1.0);
        }
        if let (Some(cpu), true) = (depth.cpu_us_per_read, depth.uniform) {
            self.most(&name("CPU µs per device read"), cpu, CPU_US_PER_READ);
        }
        if depth.uniform {
            self.most(&name("p99 in p50s"), depth.p99_us / depth.p50_us.max(0.001), TAIL_RATIO);
        }
        self.least(&name("share of the slowest connection"), depth.slowest_share, SLOWEST_SHARE);
    }

    /// The limit of caching.
    pub(super) fn caching(&mut self, name: &str, with: f64, without: f64) {
        self.most(&format!("{name}: device reads per GET against no caching"), with / without.max(1e-9), CACHING_RATIO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Depth = Depth {
        pipeline: 16,
        reads_per_second: Some(98.0),
        fio: Some((80.0, 100.0)),
        reads_per_get: Some(0.95),
        cpu_us_per_read: Some(6.0),
        p50_us: 100.0,
        p99_us: 190.0,
        slowest_share: 0.9,
        uniform: true,
    };

    fn missed(depth: Depth) -> usize {
        let mut limits = Limits::default();
        limits.read("x", &depth);
        limits.missed.len()
    }

    #[test]
    fn each_limit_of_reading_is_told_apart() {
        assert_eq!(missed(GOOD), 0);
        assert_eq!(missed(Depth { reads_per_second: Some(90.0), ..GOOD }), 1);
        // Without pipelining fio's own reads at depth 50 are the measure.
        assert_eq!(missed(Depth { reads_per_second: Some(65.0), pipeline: 1, ..GOOD }), 0);
        assert_eq!(missed(Depth { reads_per_second: Some(63.0), pipeline: 1, ..GOOD }), 1);
        assert_eq!(missed(Depth { reads_per_get: Some(1.01), cpu_us_per_read: Some(8.0), ..GOOD }), 2);
        assert_eq!(missed(Depth { p99_us: 201.0, slowest_share: 0.4, ..GOOD }), 2);
        assert_eq!(missed(Depth { p99_us: 900.0, uniform: false, ..GOOD }), 0);
    }

    #[test]
    fn loading_and_caching() {
        let mut limits = Limits::default();
        limits.load("x", 4.9, Some(1.29), (512 + 63) << 20, 512 << 20);
        limits.caching("x", 0.1, 0.31);
        assert_eq!((limits.checked, limits.missed.len()), (4, 0));
        limits.load("x", 5.1, Some(1.31), (512 + 65) << 20, 512 << 20);
        limits.caching("x", 0.1, 0.29);
        assert_eq!(limits.missed.len(), 4);
    }
}
