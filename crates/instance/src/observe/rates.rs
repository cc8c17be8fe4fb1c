//! Rates of late: the totals sampled ten times a second, over the last 16 samples, as INFO's `instantaneous_*` fields report them.

use std::collections::VecDeque;
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard};

use crate::observe::statistics::Totals;

const SAMPLES_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ms: i64,
    totals: Totals,
}

/// The last samples.
#[derive(Debug, Default)]
pub struct Rates {
    samples: Mutex<VecDeque<Sample>>,
}

impl Rates {
    /// Takes a sample. Called by one background thread.
    pub fn sample(&self, at_ms: i64, totals: Totals) {
        let mut samples = self.lock();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(Sample { at_ms, totals });
    }

    /// Commands per second.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is not negative and far below 2^64")]
    pub fn commands_per_s(&self) -> u64 {
        self.per_s(|totals| totals.commands_processed) as u64
    }

    /// KiB per second read.
    #[must_use]
    pub fn input_kib_per_s(&self) -> f64 {
        self.per_s(|totals| totals.net_input_bytes) / 1024.0
    }

    /// KiB per second of replies.
    #[must_use]
    pub fn output_kib_per_s(&self) -> f64 {
        self.per_s(|totals| totals.net_output_bytes) / 1024.0
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for humans")]
    fn per_s(&self, field: impl Fn(&Totals) -> u64) -> f64 {
        let samples = self.lock();
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return 0.0 };
        let elapsed_ms = last.at_ms - first.at_ms;
        // A reset in between makes the difference meaningless: report nothing until it has left the window.
        let difference = field(&last.totals).saturating_sub(field(&first.totals));
        if elapsed_ms <= 0 { 0.0 } else { difference as f64 * 1000.0 / elapsed_ms as f64 }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_cover_the_window() {
        let rates = Rates::default();
        assert_eq!(rates.commands_per_s(), 0);
        for tick in 0..40_u64 {
            let totals = Totals { commands_processed: tick * 10, net_input_bytes: tick * 102_400, ..Totals::default() };
            rates.sample(i64::try_from(tick).unwrap() * 100, totals);
        }
        assert_eq!(rates.commands_per_s(), 100);
        assert!((rates.input_kib_per_s() - 1000.0).abs() < 1e-6);
    }
}
