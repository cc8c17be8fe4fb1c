//! Warming: a session gives the entries that it uses their heat.

use crate::evict::JUST_USED;
use crate::evict::heat::HeatRule;
use crate::index::Position;
use crate::index::entry::{Entry, HEAT_MAX};
use crate::shared::Shared;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Steps of heat per use by [`HeatRule::Frequency`].
const STEPS_PER_USE: u64 = 2;
/// Uses that [`HeatRule::Uses`] counts one by one.
const USES_EXACT: u64 = 3;

/// A session's way of warming, and its source of chance.
pub(crate) struct Warmer {
    random: Cell<u64>,
    /// Whether the present look is no use of the key.
    pub(in crate::session) quiet: Cell<bool>,
}

impl Warmer {
    pub(crate) fn new(thread: usize) -> Self {
        Self { random: Cell::new((thread as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)), quiet: Cell::new(false) }
    }

    /// A key was used whose entry was seen at a position.
    #[inline]
    pub(crate) fn warm<'i>(&self, store: &Shared, position: impl FnOnce() -> Position<'i>, seen: Entry) {
        let rule = store.eviction.heat_rule.load(Ordering::Relaxed);
        if rule != HeatRule::Off as u8 && seen.heat() != HEAT_MAX {
            self.warm_by(HeatRule::from_bits(rule), position(), seen);
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
            debug_assert!(heat <= HEAT_MAX, "heat stays in its bits");
            position.set_heat(seen, heat);
        }
    }

    /// The heat at which a new record enters.
    #[inline]
    pub(crate) fn first(&self, store: &Shared, hash: u64) -> u64 {
        match HeatRule::from_bits(store.eviction.heat_rule.load(Ordering::Relaxed)) {
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
        debug_assert_ne!(random, 0, "from nothing there would be no chance any more");
        self.random.set(random);
        random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
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
