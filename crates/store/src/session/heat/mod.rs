//! The heat of a key: asking a session for it, and setting it.

pub(crate) mod evict;
pub(crate) mod warmer;

use super::batch::Session;
use crate::evict::AGE_MAX;
use crate::evict::heat::HeatRule;
use crate::index::Position;
use crate::index::entry::HEAT_MAX;
use crate::record::key::Key;
use crate::tier::read::stage::Lookup;
use std::sync::atomic::Ordering;

impl Session {
    /// How warm keys are, and what makes them warmer.
    #[inline]
    #[must_use]
    pub fn heat(&self) -> Heat<'_> {
        Heat { session: self }
    }
}

/// How warm keys are, and what makes them warmer.
#[derive(Clone, Copy)]
pub struct Heat<'s> {
    session: &'s Session,
}

impl<'s> Heat<'s> {
    /// Does `look` without the keys that it reads getting warmer.
    pub fn quietly<R>(self, look: impl FnOnce(&Session) -> R) -> R {
        self.with_quiet(true, look)
    }

    /// Does `look` with the keys that it reads getting warmer, also for a session that uses keys quietly.
    pub fn loudly<R>(self, look: impl FnOnce(&Session) -> R) -> R {
        self.with_quiet(false, look)
    }

    fn with_quiet<R>(self, quiet: bool, look: impl FnOnce(&Session) -> R) -> R {
        let before = self.session.local.heat.quiet.replace(quiet);
        let result = look(self.session);
        self.session.local.heat.quiet.set(before);
        result
    }

    /// Says whether keys get no warmer by being used from now on.
    #[inline]
    pub fn set_quiet(self, quiet: bool) {
        self.session.local.heat.quiet.set(quiet);
    }

    /// How warm a key is, 0 to 7 by the present [`HeatRule`]. None for a key whose record is neither in memory nor staged.
    #[must_use]
    pub fn of(self, key: Key<'_>) -> Option<u64> {
        self.with_entry(key, |position| position.entry().heat())
    }

    fn with_entry<R>(self, key: Key<'_>, look: impl FnOnce(Position<'s>) -> R) -> Option<R> {
        match self.session.held_bucket(key.hash) {
            Some(number) => self.entry_latched(number, key).map(look),
            None => {
                let latch = self.session.store.index.lock_shared(key.hash);
                self.entry_latched(latch.number(), key).map(look)
            }
        }
    }

    fn entry_latched(self, number: u64, key: Key<'_>) -> Option<Position<'s>> {
        let store = &*self.session.store;
        debug_assert!(store.index.bucket(number).is_latched(), "INV-LATCH-1: an entry is looked up under its latch");
        let found = store.index.find_latched(number, key.hash, |address| {
            if address >= self.session.local.head {
                return store.match_record(address, &key).map(|_| ());
            }
            match self.session.staged(address) {
                Lookup::Ready(record, header) => store.matches_key(record, header, &key).then_some(()),
                Lookup::Failed | Lookup::Damaged | Lookup::Absent => None,
            }
        });
        found.map(|(position, ())| position)
    }

    /// Milliseconds since the last use of a key, at least; as precise as the laps of the clock hand. Only while the rule is
    /// [`HeatRule::Recency`].
    #[must_use]
    pub fn idle_ms(self, key: Key<'_>) -> Option<i64> {
        self.of(key).map(|heat| self.session.store.eviction.idle.idle_ms(heat & AGE_MAX))
    }

    /// Makes a key as old as if it had not been used for `idle_ms`, or younger where ages are not told apart. Only while the
    /// rule is [`HeatRule::Recency`]; else nothing happens.
    pub fn set_idle_ms(self, key: Key<'_>, idle_ms: i64) {
        self.set_heat(key, HeatRule::Recency, self.session.store.eviction.idle.age(idle_ms));
    }

    /// Makes a key as warm as often used ones are, 0 to 7. Only while the rule is [`HeatRule::Frequency`]; else nothing happens.
    pub fn set_frequency(self, key: Key<'_>, heat: u64) {
        self.set_heat(key, HeatRule::Frequency, heat.min(HEAT_MAX));
    }

    fn set_heat(self, key: Key<'_>, rule: HeatRule, heat: u64) {
        debug_assert!(heat <= HEAT_MAX, "heat stays in its bits");
        if self.session.store.eviction.heat_rule.load(Ordering::Relaxed) == rule as u8 {
            self.with_entry(key, |position| position.set_heat(position.entry(), heat));
        }
    }
}
