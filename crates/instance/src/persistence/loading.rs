//! Progress and outcome of loading data.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use almandine_io::clock;

/// Progress and outcome of loading. One thread loads, and all may ask.
#[derive(Debug, Default)]
pub struct Loading {
    started_ms: AtomicI64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    /// Of the last file.
    keys: AtomicU64,
    keys_expired: AtomicU64,
}

/// How far loading is.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadingFigures {
    /// When it began, Unix milliseconds.
    pub started_ms: i64,
    /// Bytes to be read; 0 when that is not known.
    pub total_bytes: u64,
    /// Bytes that were read.
    pub loaded_bytes: u64,
}

impl Loading {
    pub(super) fn begin(&self, bytes: u64) {
        self.started_ms.store(clock::unix_ms(), Relaxed);
        self.total_bytes.store(bytes, Relaxed);
        self.loaded_bytes.store(0, Relaxed);
    }

    /// This many bytes have been read.
    pub fn reached(&self, bytes: u64) {
        self.loaded_bytes.store(bytes, Relaxed);
    }

    /// A file is loaded: with `keys`, and without `expired` that were past their time.
    pub fn finish(&self, keys: u64, expired: u64) {
        self.keys.store(keys, Relaxed);
        self.keys_expired.store(expired, Relaxed);
    }

    /// How far loading is.
    #[must_use]
    pub fn figures(&self) -> LoadingFigures {
        LoadingFigures {
            started_ms: self.started_ms.load(Relaxed),
            total_bytes: self.total_bytes.load(Relaxed),
            loaded_bytes: self.loaded_bytes.load(Relaxed),
        }
    }

    /// Keys of the last file.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// Keys of the last file that were past their time.
    #[must_use]
    pub fn keys_expired(&self) -> u64 {
        self.keys_expired.load(Relaxed)
    }
}

impl LoadingFigures {
    /// Which share of the bytes was read, 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    pub fn share(&self) -> f64 {
        if self.total_bytes == 0 { 0.0 } else { self.loaded_bytes.min(self.total_bytes) as f64 / self.total_bytes as f64 }
    }

    /// Seconds that the rest takes at the speed so far; 1 while nothing is known of it, as in Redis.
    #[must_use]
    pub fn seconds_left(&self, now_ms: i64) -> u64 {
        let elapsed_ms = u128::try_from(now_ms - self.started_ms).unwrap_or(0);
        let left = self.total_bytes.saturating_sub(self.loaded_bytes);
        match self.loaded_bytes {
            0 => 1,
            loaded => u64::try_from(elapsed_ms * u128::from(left) / u128::from(loaded) / 1000).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was() {
        let figures = LoadingFigures { started_ms: 1000, total_bytes: 100, loaded_bytes: 20 };
        assert_eq!(figures.seconds_left(3000), 8);
        assert_eq!(LoadingFigures::default().seconds_left(3000), 1);
        assert_eq!(LoadingFigures::default().share(), 0.0);
    }
}
