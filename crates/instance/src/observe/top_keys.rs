//! The keys with the most weight in a stream of weighted keys, in bounded memory: the space-saving sketch of Metwally, Agrawal and
//! El Abbadi ("Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), with weights.
//!
//! A key that is not among those kept takes the place of the lightest one and inherits its count, which is noted as what the new
//! one's may be wrong by. With m places and a total weight of W no count is wrong by more than W / m, so every key of more than
//! that weight is kept.

use std::collections::{BTreeSet, HashMap};

/// Longer keys are not kept, so that the memory is bounded.
pub const KEY_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug)]
struct Place {
    key: Box<[u8]>,
    /// At least the key's weight.
    count: u64,
    /// The most by which it is too high.
    error: u64,
}

/// The sketch.
#[derive(Clone, Debug, Default)]
pub struct TopKeys {
    places_max: usize,
    places: Vec<Place>,
    by_key: HashMap<Box<[u8]>, usize>,
    /// Count and number of the place, the lightest first.
    by_count: BTreeSet<(u64, usize)>,
}

impl TopKeys {
    /// An empty sketch with this number of places.
    #[must_use]
    pub fn new(places_max: usize) -> Self {
        Self { places_max, ..Self::default() }
    }

    /// Adds a weight to a key.
    pub fn add(&mut self, key: &[u8], weight: u64) {
        if key.len() > KEY_BYTES_MAX || weight == 0 || self.places_max == 0 {
            return;
        }
        let number = match self.by_key.get(key) {
            Some(number) => {
                self.by_count.remove(&(self.places[*number].count, *number));
                *number
            }
            None if self.places.len() < self.places_max => {
                self.places.push(Place { key: key.into(), count: 0, error: 0 });
                self.by_key.insert(key.into(), self.places.len() - 1);
                self.places.len() - 1
            }
            None => self.replace_lightest(key),
        };
        let place = &mut self.places[number];
        place.count += weight;
        self.by_count.insert((place.count, number));
    }

    fn replace_lightest(&mut self, key: &[u8]) -> usize {
        let (count, number) = self.by_count.pop_first().unwrap_or_default();
        self.by_key.remove(&self.places[number].key);
        self.by_key.insert(key.into(), number);
        self.places[number] = Place { key: key.into(), count, error: count };
        number
    }

    /// The keys that are kept, each with a weight that it has at least.
    pub fn weights(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.places.iter().map(|place| (&*place.key, place.count - place.error))
    }
}

/// The heaviest keys of several sketches, up to a number: a key's weights are added up.
#[must_use]
pub fn heaviest<'t>(sketches: impl Iterator<Item = &'t TopKeys>, keys_max: usize) -> Vec<(Box<[u8]>, u64)> {
    let mut sums: HashMap<&[u8], u64> = HashMap::new();
    for (key, weight) in sketches.flat_map(TopKeys::weights) {
        *sums.entry(key).or_default() += weight;
    }
    let mut heaviest: Vec<(&[u8], u64)> = sums.into_iter().filter(|(_, weight)| *weight > 0).collect();
    heaviest.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    heaviest.truncate(keys_max);
    heaviest.into_iter().map(|(key, weight)| (key.into(), weight)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator that is the same in each run.
    struct Lehmer(u64);

    impl Lehmer {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0 * 48_271 % 0x7fff_ffff;
            self.0 % end
        }
    }

    /// Keys by a distribution in which the key numbered n comes half as often as the one before it, among as many that come once.
    fn stream(numbers: &mut Lehmer) -> Vec<(String, u64)> {
        let hot = (0..200_000).map(|_| (format!("hot{}", numbers.below(1 << 20).trailing_zeros()), 3)).collect::<Vec<_>>();
        hot.into_iter().enumerate().flat_map(|(n, hot)| [hot, (format!("cold{n}"), 2)]).collect()
    }

    #[test]
    fn heavy_keys_are_found_among_many_light_ones() {
        let (mut numbers, places) = (Lehmer(7), 320);
        let stream = stream(&mut numbers);
        let mut truth: HashMap<&str, u64> = HashMap::new();
        let mut parts = [TopKeys::new(places), TopKeys::new(places)];
        for (n, (key, weight)) in stream.iter().enumerate() {
            *truth.entry(key).or_default() += weight;
            parts[n / 2 % 2].add(key.as_bytes(), *weight);
        }
        let total: u64 = truth.values().sum();
        let found = heaviest(parts.iter(), 6);
        let names: Vec<String> = found.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect();
        assert_eq!(names, ["hot0", "hot1", "hot2", "hot3", "hot4", "hot5"]);
        for (key, weight) in &found {
            let is = truth[&*String::from_utf8_lossy(key)];
            assert!(*weight <= is && is - weight <= total / places as u64, "{key:?} has {is}, not {weight}");
        }
        assert!(
            parts.iter().all(|part| part.places.len() == places && part.by_key.len() == places && part.by_count.len() == places)
        );
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut keys = TopKeys::new(3);
        for (key, weight) in [("a", 5), ("b", 1), ("a", 2), ("c", 4), ("none", 0)] {
            keys.add(key.as_bytes(), weight);
        }
        keys.add(&[b'x'; KEY_BYTES_MAX + 1], 1000);
        let found = heaviest([&keys].into_iter(), 2);
        assert_eq!(found, [(b"a".as_slice().into(), 7), (b"c".as_slice().into(), 4)]);
        keys.add(b"d", 1);
        let found = heaviest([&keys].into_iter(), 9);
        assert_eq!(found.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(), [7, 4, 1], "what d has inherited is not its own");
    }
}
