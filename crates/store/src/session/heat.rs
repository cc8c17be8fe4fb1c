//! Heat: how often a record was used of late, in three bits of its index entry.
//!
//! The entry is in the cache when it matters, it is there for records on a device too, and whoever looks for cold records reads
//! index lines in sequence and touches no record. Sessions warm an entry when its key is used; the background (or an evicting
//! session) cools it down. A lost update costs nothing but precision.

use super::{Key, Session};
use crate::evict::{AGE_MAX, JUST_USED};
use crate::index::Position;
use crate::index::entry::{Entry, HEAT_MAX};
use crate::store::Inner;
use crate::tier::stage::Lookup;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// How use is turned into heat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HeatRule {
    /// Not at all.
    #[default]
    Off = 0,
    /// A use makes a record as warm as it can be: heat is how recent that was.
    Recency = 1,
    /// Each use counts two steps: heat is how often it was used of late.
    Frequency = 2,
    /// Each use counts, from three on with a chance that halves with each step: what was used repeatedly is told from what was
    /// not, and often from seldom. For stores with a device.
    Uses = 3,
}

impl HeatRule {
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Recency,
            2 => Self::Frequency,
            3 => Self::Uses,
            _ => Self::Off,
        }
    }
}

/// Steps of heat per use by [`HeatRule::Frequency`].
const STEPS_PER_USE: u64 = 2;
/// Uses that [`HeatRule::Uses`] counts one by one.
const USES_EXACT: u64 = 3;

/// A session's way of warming, and its source of chance.
pub(crate) struct Warmer {
    random: Cell<u64>,
    /// Whether the present look is no use of the key.
    quiet: Cell<bool>,
}

impl Warmer {
    pub(crate) fn new(thread: usize) -> Self {
        Self { random: Cell::new((thread as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)), quiet: Cell::new(false) }
    }

    /// A key was used whose entry was seen at `position`.
    #[inline]
    pub(crate) fn warm(&self, store: &Inner, position: Position<'_>, seen: Entry) {
        let rule = store.heat_rule.load(Ordering::Relaxed);
        if rule != HeatRule::Off as u8 && seen.heat() != HEAT_MAX {
            self.warm_by(HeatRule::from_bits(rule), position, seen);
        }
    }

    fn warm_by(&self, rule: HeatRule, position: Position<'_>, seen: Entry) {
        if !self.quiet.get() {
            let heat = match rule {
                HeatRule::Off => return,
                HeatRule::Recency => JUST_USED,
                HeatRule::Frequency => HEAT_MAX.min(seen.heat() + STEPS_PER_USE),
                HeatRule::Uses if self.random() & ((1 << seen.heat().saturating_sub(USES_EXACT - 1)) - 1) != 0 => return,
                HeatRule::Uses => seen.heat() + 1,
            };
            position.set_heat(seen, heat);
        }
    }

    /// The heat at which a new record enters.
    #[inline]
    pub(crate) fn first(&self, store: &Inner, hash: u64) -> u64 {
        match HeatRule::from_bits(store.heat_rule.load(Ordering::Relaxed)) {
            HeatRule::Off | HeatRule::Uses => 0,
            rule => store.eviction.first_heat(rule, hash, self.random()),
        }
    }

    /// Any number.
    pub(crate) fn random(&self) -> u64 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }
}

impl Session {
    /// Does `look` without the keys that it reads getting warmer.
    pub fn quietly<R>(&self, look: impl FnOnce(&Self) -> R) -> R {
        self.local.heat.quiet.set(true);
        let result = look(self);
        self.local.heat.quiet.set(false);
        result
    }

    /// How warm a key is, 0 to 7 by the present [`HeatRule`]. None for a key whose record is neither in memory nor staged.
    #[must_use]
    pub fn heat(&self, key: Key<'_>) -> Option<u64> {
        let store = &*self.store;
        let held = self.held_bucket(key.hash);
        let number = held.unwrap_or_else(|| store.index.lock(key.hash, false));
        let found = store.index.find_latched(number, key.hash, |address| {
            if address >= self.local.head {
                return store.match_record(address, &key).map(|_| ());
            }
            match self.staged(address) {
                Lookup::Ready(record, header) => store.matches_key(record, header, &key).then_some(()),
                Lookup::Failed | Lookup::Absent => None,
            }
        });
        let heat = found.map(|(position, _)| position.entry().heat());
        if held.is_none() {
            store.index.bucket(number).unlock_shared();
        }
        heat
    }

    /// Milliseconds since the last use of a key, at least; as precise as the laps of the clock hand. Only while the rule is
    /// [`HeatRule::Recency`].
    #[must_use]
    pub fn idle_ms(&self, key: Key<'_>) -> Option<i64> {
        self.heat(key).map(|heat| self.store.eviction.idle.idle_ms(heat & AGE_MAX))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chance_differs_between_sessions_and_is_even() {
        let (one, other) = (Warmer::new(0), Warmer::new(1));
        let numbers: Vec<u64> = (0..1000).map(|_| one.random()).collect();
        assert!(numbers.iter().all(|_| !numbers.contains(&other.random())));
        let low = numbers.iter().filter(|&&number| number % 10 == 0).count();
        assert!((60..140).contains(&low), "{low}");
    }
}
