//! Which key a command names, and how it is spelled.
//!
//! A key is a prefix followed by its number in decimal, padded with zeros to a fixed length, so that every request of one
//! kind has the same shape and a key can be replaced in place. The prefix carries a letter per data type, so that a run of
//! hash commands never meets a string.

use super::random::{Random, mix};
use super::zipf::Zipf;

/// How key numbers are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Every key equally often.
    Uniform,
    /// Few keys very often; the parameter is theta.
    Zipf(f64),
    /// 0, 1, 2, … and around again; each thread starts at its own share.
    Sequential,
    /// A share of the keys receives a share of the operations.
    Hotspot {
        /// The share of the keys that is hot, in `(0, 1]`.
        keys: f64,
        /// The share of the operations that goes to hot keys.
        operations: f64,
    },
}

/// Draws key numbers for one thread.
#[derive(Debug, Clone)]
pub struct Chooser {
    count: u64,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Uniform,
    Zipf(Zipf),
    Sequential { next: u64 },
    Hotspot { hot: u64, operations: f64 },
}

impl Chooser {
    /// A chooser over `count` keys for thread `thread` of `threads`.
    pub fn new(distribution: Distribution, count: u64, thread: usize, threads: usize) -> Self {
        let count = count.max(1);
        let state = match distribution {
            Distribution::Uniform => State::Uniform,
            Distribution::Zipf(theta) => State::Zipf(Zipf::new(count, theta)),
            Distribution::Sequential => State::Sequential { next: count / threads.max(1) as u64 * thread as u64 },
            Distribution::Hotspot { keys, operations } => {
                State::Hotspot { hot: ((count as f64 * keys) as u64).clamp(1, count), operations }
            }
        };
        Self { count, state }
    }

    /// The next key number.
    pub fn choose(&mut self, random: &mut Random) -> u64 {
        match &mut self.state {
            State::Uniform => random.below(self.count),
            // Popular ranks are scattered over the key space: neighbours in load order must not be neighbours in popularity.
            State::Zipf(zipf) => mix(zipf.rank(random)) % self.count,
            State::Sequential { next } => {
                let number = *next;
                *next = if number + 1 >= self.count { 0 } else { number + 1 };
                number
            }
            State::Hotspot { hot, operations } => {
                { if random.unit() < *operations { random.below(*hot) } else { *hot + random.below(self.count - *hot) } }
                    .min(self.count - 1)
            }
        }
    }
}

/// How keys are spelled.
#[derive(Debug, Clone)]
pub struct KeyFormat {
    prefix: Vec<u8>,
    digits: usize,
}

impl KeyFormat {
    /// Keys of exactly `len` bytes that begin with `prefix`, able to number `count` keys.
    pub fn new(prefix: &str, len: usize, count: u64) -> Result<Self, String> {
        let needed = count.max(1).saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1;
        let digits = len.saturating_sub(prefix.len());
        if digits < needed {
            let least = prefix.len() + needed;
            return Err(format!("{count} keys with the prefix {prefix:?} need --key-length of at least {least}; it is {len}"));
        }
        Ok(Self { prefix: prefix.as_bytes().to_vec(), digits })
    }

    /// Length of every key in bytes.
    pub fn len(&self) -> usize {
        self.prefix.len() + self.digits
    }

    /// Whether keys are empty: never, in practice.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of decimal digits at the end of every key.
    pub fn digits(&self) -> usize {
        self.digits
    }

    /// Appends key `number`.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        let from = out.len();
        out.resize(from + self.digits, b'0');
        write_digits(&mut out[from..], number);
    }
}

/// Fills `field` with `number` in decimal, padded with zeros. Digits that do not fit are dropped from the left.
pub fn write_digits(field: &mut [u8], mut number: u64) {
    for byte in field.iter_mut().rev() {
        if number == 0 {
            *byte = b'0';
        } else {
            *byte = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(distribution: Distribution, count: u64, draws: usize) -> Vec<u32> {
        let mut chooser = Chooser::new(distribution, count, 0, 1);
        let mut random = Random::new(11, 0);
        let mut counts = vec![0; count as usize];
        for _ in 0..draws {
            counts[chooser.choose(&mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_is_even() {
        let counts = histogram(Distribution::Uniform, 100, 100_000);
        assert!(counts.iter().all(|n| (800..1200).contains(n)));
    }

    #[test]
    fn sequential_visits_each_key_once_per_round() {
        assert!(histogram(Distribution::Sequential, 100, 300).iter().all(|&n| n == 3));
        let mut second = Chooser::new(Distribution::Sequential, 100, 1, 2);
        assert_eq!(second.choose(&mut Random::new(0, 0)), 50);
    }

    #[test]
    fn hotspot_favours_the_hot_share() {
        let counts = histogram(Distribution::Hotspot { keys: 0.2, operations: 0.8 }, 100, 100_000);
        let hot: u32 = counts[..20].iter().sum();
        assert!((79_000..81_000).contains(&hot), "{hot}");
    }

    #[test]
    fn hotspot_of_everything_stays_in_range() {
        let counts = histogram(Distribution::Hotspot { keys: 1.0, operations: 0.5 }, 10, 1000);
        assert_eq!(counts.iter().sum::<u32>(), 1000);
    }

    #[test]
    fn zipf_has_a_head_and_a_tail() {
        let mut counts = histogram(Distribution::Zipf(0.99), 10_000, 200_000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!(counts[0] > 10 * counts[100]);
        assert!(counts.iter().filter(|&&n| n > 0).count() > 3_000);
    }

    #[test]
    fn keys_have_one_length() {
        let format = KeyFormat::new("key:", 16, 1_000_000).unwrap();
        let mut out = Vec::new();
        format.write(42, &mut out);
        assert_eq!(out, b"key:000000000042");
        assert_eq!(format.len(), 16);
        assert!(KeyFormat::new("key:", 8, 100_000).is_err());
        assert!(KeyFormat::new("key:", 8, 10_000).is_ok());
    }
}
