//! Whether a file has a key twice, in memory that does not grow with it.
//!
//! Of each key a sum of 64 bits is kept, seeded at random. When the sums do not fit, only those below a bound are: the others are
//! for a further pass over the file. Equal sums are suspects, which a last pass tells apart by second sums.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use almandine_base::steps;
use almandine_io::entropy;

/// Equal sums that are looked at again. Of keys that differ there are none, or hardly any.
const SUSPECTS_MAX: usize = 1024;
/// Sums that are kept at least.
const KEPT_MIN: usize = 1024;

pub(super) struct Twice {
    seeds: [u64; 2],
    /// The sums of this pass.
    from: u64,
    until: u64,
    kept: Vec<u64>,
    kept_max: usize,
    /// With the second sum of the first key that had it, in the last pass.
    suspects: BTreeMap<u64, Option<u64>>,
}

impl Twice {
    /// Takes about this much memory.
    pub(super) fn new(memory_bytes: usize) -> Self {
        // Of a power of two the vector grows to it, and not beyond.
        let kept_max = 1 << (memory_bytes / size_of::<u64>()).max(KEPT_MIN).ilog2();
        let seeds = [entropy::seed(), entropy::seed()];
        Self { seeds, from: 0, until: u64::MAX, kept: Vec::new(), kept_max, suspects: BTreeMap::new() }
    }

    /// A key of the file.
    pub(super) fn see(&mut self, db: u16, key: &[u8]) {
        let sum = sum(self.seeds[0], db, key);
        if (self.from..=self.until).contains(&sum) {
            self.kept.push(sum);
            if self.kept.len() == self.kept_max {
                self.settle();
                // What is above waits for the next pass.
                if self.kept.len() > self.kept_max / 2 {
                    self.kept.truncate(self.kept_max / 2);
                    self.until = self.kept.last().copied().unwrap_or(u64::MAX);
                }
            }
        }
    }

    /// The file is over. Whether it is to be read again for the sums that did not fit.
    pub(super) fn end_pass(&mut self) -> bool {
        self.settle();
        self.kept.clear();
        if self.until == u64::MAX {
            self.kept = Vec::new();
            return false;
        }
        (self.from, self.until) = (self.until + 1, u64::MAX);
        true
    }

    /// Whether it is to be read once more, for [`Twice::is_second`].
    pub(super) fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// In the last pass: whether the key was there before.
    pub(super) fn is_second(&mut self, db: u16, key: &[u8]) -> bool {
        let Some(first) = self.suspects.get_mut(&sum(self.seeds[0], db, key)) else { return false };
        let second = sum(self.seeds[1], db, key);
        let is_second = *first == Some(second);
        first.get_or_insert(second);
        is_second
    }

    /// Leaves one of each sum, in their order.
    fn settle(&mut self) {
        steps::take(self.kept.len());
        self.kept.sort_unstable();
        let equal = self.kept.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| (pair[0], None));
        self.suspects.extend(equal.take(SUSPECTS_MAX - self.suspects.len().min(SUSPECTS_MAX)));
        self.kept.dedup();
    }
}

fn sum(seed: u64, db: u16, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seed);
    hasher.write_u16(db);
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes over keys, and which of them are there before.
    fn search(keys: &[(u16, u64)], memory_bytes: usize) -> (u32, Vec<(u16, u64)>) {
        let (mut twice, mut passes) = (Twice::new(memory_bytes), 0);
        loop {
            keys.iter().for_each(|(db, key)| twice.see(*db, &key.to_le_bytes()));
            assert!(twice.kept.capacity() <= twice.kept_max);
            passes += 1;
            if !twice.end_pass() {
                break;
            }
        }
        let again = keys.iter().filter(|(db, key)| twice.has_suspects() && twice.is_second(*db, &key.to_le_bytes()));
        (passes, again.copied().collect())
    }

    #[test]
    fn a_key_that_is_there_twice_is_found_in_each_pass() {
        let keys: Vec<(u16, u64)> = (0..20_000).map(|key| ((key % 3) as u16, key / 3)).collect();
        assert_eq!(search(&keys, 1 << 20), (1, Vec::new()));
        let (passes, again) = search(&keys, 0);
        assert!((20..=40).contains(&passes) && again.is_empty(), "{passes}");
        let mut doubled = keys.clone();
        doubled.extend((0..100).map(|at| keys[at * 199]));
        for memory_bytes in [0, 1 << 20] {
            assert_eq!(search(&doubled, memory_bytes).1, doubled[20_000..], "{memory_bytes}");
        }
        // Of very many some are told.
        doubled.extend(keys);
        assert!(search(&doubled, 0).1.len() >= SUSPECTS_MAX);
    }

    #[test]
    fn equal_sums_of_other_keys_are_no_duplicates() {
        let mut twice = Twice::new(0);
        twice.suspects.extend([(sum(twice.seeds[0], 0, b"a"), Some(1)), (sum(twice.seeds[0], 0, b"b"), None)]);
        assert!(!twice.is_second(0, b"a") && !twice.is_second(0, b"b") && twice.is_second(0, b"b") && !twice.is_second(1, b"b"));
    }
}
