//! What a simulation leaves open is chosen here: one stream of numbers per subsystem, drawn from a seed, recorded and replayed.
//!
//! A stream per subsystem, so that one more choice of the network does not change those of the scheduler. In every stream 0 means
//! that nothing bad happens; a replay that comes to the end of its record goes on with zeroes, so a record may be cut anywhere.

/// A part of the simulation that draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// Which thread runs next, and which is stalled.
    Schedule,
    /// Boundaries, delays and resets of streams.
    Net,
    /// Faults of disks, and what a crash leaves on them.
    Disk,
    /// What clients do.
    Clients,
    /// Random bytes of the product.
    Entropy,
    /// What running costs, and clocks that go wrong.
    Clock,
}

const SUBSYSTEMS: usize = 6;

/// All choices of a run, in the order in which each subsystem made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceRecord {
    /// Indexed by [`Subsystem`].
    pub streams: [Vec<u64>; SUBSYSTEMS],
}

/// See the module.
#[derive(Debug)]
pub struct Choices {
    sources: [Source; SUBSYSTEMS],
    made: ChoiceRecord,
}

#[derive(Debug)]
enum Source {
    Seed(u64),
    Record(std::vec::IntoIter<u64>),
}

impl Choices {
    /// Choices that follow from a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let source = |subsystem: usize| Source::Seed(mix(seed ^ mix(subsystem as u64 + 1)));
        Self { sources: std::array::from_fn(source), made: ChoiceRecord::default() }
    }

    /// The choices of an earlier run again.
    #[must_use]
    pub fn from_record(record: ChoiceRecord) -> Self {
        Self { sources: record.streams.map(|stream| Source::Record(stream.into_iter())), made: ChoiceRecord::default() }
    }

    /// The choices so far.
    #[must_use]
    pub fn record(&self) -> &ChoiceRecord {
        &self.made
    }

    /// A number below `limit`; 0 when the limit is 0 or 1, and then nothing is recorded.
    pub fn below(&mut self, subsystem: Subsystem, limit: u64) -> u64 {
        if limit <= 1 {
            return 0;
        }
        let chosen = match &mut self.sources[subsystem as usize] {
            Source::Seed(state) => next(state) % limit,
            Source::Record(numbers) => numbers.next().unwrap_or(0) % limit,
        };
        self.made.streams[subsystem as usize].push(chosen);
        chosen
    }

    /// A random number for the product. Those of a run differ even when all choices are 0.
    pub fn number(&mut self) -> u64 {
        let drawn = self.below(Subsystem::Entropy, u64::MAX);
        drawn ^ mix(self.made.streams[Subsystem::Entropy as usize].len() as u64)
    }

    /// Whether something happens that happens in `per_million` of a million cases; recorded as 0 or 1.
    pub fn hits(&mut self, subsystem: Subsystem, per_million: u32) -> bool {
        if per_million == 0 {
            return false;
        }
        let chosen = match &mut self.sources[subsystem as usize] {
            Source::Seed(state) => u64::from(next(state) % 1_000_000 < u64::from(per_million)),
            Source::Record(numbers) => numbers.next().unwrap_or(0).min(1),
        };
        self.made.streams[subsystem as usize].push(chosen);
        chosen == 1
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*state)
}

/// The finalizer of SplitMix64.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(choices: &mut Choices, number: usize) -> Vec<(u64, bool)> {
        (0..number).map(|_| (choices.below(Subsystem::Net, 1000), choices.hits(Subsystem::Disk, 300_000))).collect()
    }

    #[test]
    fn a_record_repeats_a_run_and_goes_on_with_zeroes() {
        let mut first = Choices::from_seed(7);
        let drawn = draw(&mut first, 100);
        assert_eq!(draw(&mut Choices::from_seed(7), 100), drawn);
        assert_ne!(draw(&mut Choices::from_seed(8), 100), drawn);
        let mut again = Choices::from_record(first.record().clone());
        assert_eq!(draw(&mut again, 100), drawn);
        assert_eq!(again.record(), first.record());
        assert_eq!(draw(&mut again, 3), [(0, false); 3]);
    }

    #[test]
    fn a_subsystem_does_not_change_the_choices_of_another() {
        let mut disturbed = Choices::from_seed(7);
        for _ in 0..10 {
            disturbed.below(Subsystem::Schedule, 5);
        }
        assert_eq!(draw(&mut disturbed, 50), draw(&mut Choices::from_seed(7), 50));
    }

    #[test]
    fn rates_are_kept() {
        let mut choices = Choices::from_seed(1);
        let hits = (0..100_000).filter(|_| choices.hits(Subsystem::Disk, 50_000)).count();
        assert!((4_500..5_500).contains(&hits), "{hits}");
        assert!(
            (0..1000).all(|_| !choices.hits(Subsystem::Net, 0)) && choices.record().streams[Subsystem::Net as usize].is_empty()
        );
    }
}
