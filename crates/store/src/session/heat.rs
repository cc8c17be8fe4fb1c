//! Heat: how often a record was used of late, in three bits of its index entry.
//!
//! The entry is in the cache when it matters, it is there for records on a device too, and whoever looks for cold records reads
//! index lines in sequence and touches no record. Sessions warm an entry when its key is used; the background (or an evicting
//! session) cools it down. A lost update costs nothing but precision.

use crate::index::Position;
use crate::index::entry::Entry;
use crate::store::Inner;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// How use is turned into heat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HeatRule {
    /// Not at all: nothing is ever evicted.
    #[default]
    Off = 0,
    /// Each use counts, up to three: recency matters most.
    Recency = 1,
    /// Each further step is half as likely: heat is the logarithm of the frequency.
    Frequency = 2,
}

impl HeatRule {
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Recency,
            2 => Self::Frequency,
            _ => Self::Off,
        }
    }
}

/// Largest heat by [`HeatRule::Recency`].
const RECENT_MAX: u64 = 3;

/// A session's source of chance for warming.
pub(crate) struct Warmer {
    random: Cell<u64>,
}

impl Warmer {
    pub(crate) fn new() -> Self {
        Self { random: Cell::new(0x9E37_79B9_7F4A_7C15) }
    }

    /// A key was used whose entry was seen at `position`.
    #[inline]
    pub(crate) fn warm(&self, store: &Inner, position: Position<'_>, seen: Entry) {
        let rule = store.heat_rule.load(Ordering::Relaxed);
        if rule != HeatRule::Off as u8 {
            self.warm_by(HeatRule::from_bits(rule), position, seen);
        }
    }

    fn warm_by(&self, rule: HeatRule, position: Position<'_>, seen: Entry) {
        let warmer = match rule {
            HeatRule::Off => false,
            HeatRule::Recency => seen.heat() < RECENT_MAX,
            HeatRule::Frequency => self.chance(seen.heat()),
        };
        if warmer {
            position.warm(seen);
        }
    }

    /// True once in `2^heat` times.
    fn chance(&self, heat: u64) -> bool {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        random >> (64 - heat.max(1)) == 0 || heat == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_frequency_is_half_as_likely_as_the_one_before() {
        let warmer = Warmer::new();
        for heat in 0..7u32 {
            let hits = (0..100_000).filter(|_| warmer.chance(u64::from(heat))).count();
            let expected = 100_000 >> heat;
            assert!(hits.abs_diff(expected) < expected / 5 + 50, "{heat}: {hits}");
        }
    }
}
