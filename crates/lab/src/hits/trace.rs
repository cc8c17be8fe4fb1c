//! Streams of keys for caches: which key is asked for next, and whether the answer can be there at all.
//!
//! A stream depends on its pattern and its seed alone, so that every server sees the same one. Ranks are mapped onto keys one
//! to one: a cache that holds a tenth of the keys must really hold a tenth of what can be asked.

use almandine_bench::generate::random::Random;
use almandine_bench::generate::zipf::Zipf;

/// What the stream looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pattern {
    /// Zipf over all keys.
    Zipf,
    /// Zipf, interrupted every `every` requests by `length` keys in order that are never asked again.
    Scan {
        /// Zipf requests between two scans.
        every: u64,
        /// Keys per scan.
        length: u64,
    },
    /// Zipf whose popular keys become unpopular: every `every` requests all ranks move on by `by` keys.
    Shift {
        /// Requests between two moves.
        every: u64,
        /// Ranks per move: the keys that were least popular take the first places.
        by: u64,
    },
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Number of the key. Scanned keys are numbered from the number of keys on.
    pub(super) key: u64,
    /// Whether it is part of a scan, and so cannot be in any cache.
    pub(super) scanned: bool,
}

/// A stream of requests.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    keys: u64,
    pattern: Pattern,
    zipf: Zipf,
    random: Random,
    stride: u64,
    position: u64,
    shifted: u64,
    scanned: u64,
    scan_left: u64,
}

impl Trace {
    /// The stream of `seed` over `keys` keys.
    pub(super) fn new(keys: u64, theta: f64, pattern: Pattern, seed: u64) -> Self {
        let keys = keys.max(1);
        Self {
            keys,
            pattern,
            zipf: Zipf::new(keys, theta),
            random: Random::new(seed, 0),
            stride: stride(keys),
            position: 0,
            shifted: 0,
            scanned: 0,
            scan_left: 0,
        }
    }

    /// The next request.
    pub(super) fn next_request(&mut self) -> Request {
        if self.scan_left > 0 {
            self.scan_left -= 1;
            self.scanned += 1;
            return Request { key: self.keys + self.scanned - 1, scanned: true };
        }
        let rank = self.zipf.rank(&mut self.random);
        let key = self.spread((rank + self.keys - self.shifted) % self.keys);
        self.position += 1;
        match self.pattern {
            Pattern::Scan { every, length } if self.position.is_multiple_of(every.max(1)) => self.scan_left = length,
            Pattern::Shift { every, by } if self.position.is_multiple_of(every.max(1)) => {
                self.shifted = (self.shifted + by) % self.keys;
            }
            _ => {}
        }
        Request { key, scanned: false }
    }

    /// Scatters ranks over the keys: neighbours in popularity are not neighbours in number.
    fn spread(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.stride) % u128::from(self.keys)) as u64
    }
}

/// A step that visits all of `keys` before it repeats: near the golden section, and without a common divisor.
fn stride(keys: u64) -> u64 {
    let first = ((keys as f64 * 0.618_033_988_749_894_9) as u64).max(1);
    (first..).find(|&step| divisor(step, keys) == 1).unwrap_or(1)
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn draw(pattern: Pattern, keys: u64, requests: usize) -> Vec<Request> {
        let mut trace = Trace::new(keys, 0.99, pattern, 7);
        (0..requests).map(|_| trace.next_request()).collect()
    }

    fn favourite(requests: &[Request]) -> u64 {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        requests.iter().for_each(|r| *counts.entry(r.key).or_default() += 1);
        counts.into_iter().max_by_key(|&(_, count)| count).map(|(key, _)| key).unwrap()
    }

    #[test]
    fn ranks_and_keys_are_one_to_one() {
        for keys in [1, 2, 10, 1000, 4096, 200_000] {
            let trace = Trace::new(keys, 0.99, Pattern::Zipf, 1);
            let seen: HashSet<u64> = (0..keys).map(|rank| trace.spread(rank)).collect();
            assert_eq!((seen.len() as u64, seen.iter().max().copied()), (keys, Some(keys - 1)));
        }
    }

    #[test]
    fn the_same_seed_asks_the_same() {
        let pattern = Pattern::Scan { every: 10, length: 3 };
        assert_eq!(draw(pattern, 1000, 500), draw(pattern, 1000, 500));
        assert_ne!(Trace::new(1000, 0.99, pattern, 8).next_request(), Trace::new(1000, 0.99, pattern, 9).next_request());
    }

    #[test]
    fn scans_never_repeat_a_key_and_leave_the_rest_alone() {
        let requests = draw(Pattern::Scan { every: 100, length: 50 }, 1000, 1500);
        let scanned: Vec<u64> = requests.iter().filter(|r| r.scanned).map(|r| r.key).collect();
        assert_eq!(scanned, (1000..1500).collect::<Vec<_>>());
        let rest: Vec<Request> = requests.into_iter().filter(|r| !r.scanned).collect();
        assert_eq!(rest, draw(Pattern::Zipf, 1000, 1000));
    }

    #[test]
    fn the_hot_set_moves() {
        let requests = draw(Pattern::Shift { every: 5000, by: 100 }, 1000, 10_000);
        assert_ne!(favourite(&requests[..5000]), favourite(&requests[5000..]));
        let hot = |part: &[Request]| part.iter().map(|r| r.key).collect::<HashSet<_>>().len();
        assert!(requests.iter().all(|r| r.key < 1000) && hot(&requests[..5000]) > 500);
    }
}
