//! The heat of a key: asking a session for it, and setting it.

pub(crate) mod evict;
pub(crate) mod warmer;

use super::batch::Session;
use crate::evict::AGE_MAX;
use crate::evict::heat::HeatRule;
use crate::index::Position;
use crate::index::entry::HEAT_MAX;
use crate::record::key::Key;
use crate::session::cold::staged::find_latched;
use almandine_base::object::Missing;
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

    /// How warm a key is, 0 to 7 by the present [`HeatRule`].
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn of(self, key: Key<'_>) -> Result<Option<u64>, Missing> {
        self.with_entry(key, |position| position.entry().heat())
    }

    fn with_entry<R>(self, key: Key<'_>, look: impl FnOnce(Position<'s>) -> R) -> Result<Option<R>, Missing> {
        let Session { store, local } = self.session;
        let (number, _latch) = match self.session.held_bucket(key.hash) {
            Some(number) => (number, None),
            None if self.session.holds_latches() => return Err(local.held.why_not()),
            None => {
                let latch = self.session.lock_shared(key.hash).ok_or(Missing::Held)?;
                (latch.number(), Some(latch))
            }
        };
        let (found, unknown) = find_latched(store, local, number, &key);
        debug_assert!(found.is_none() || unknown.is_empty() || local.head != 0, "INV-TIER-1: cold is what lies below the head");
        match found {
            Some((position, _)) => Ok(Some(look(position))),
            None => local.cold.absence(&unknown).map(|()| None),
        }
    }

    /// Milliseconds since the last use of a key, at least; as precise as the laps of the clock hand. Only while the rule is
    /// [`HeatRule::Recency`].
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn idle_ms(self, key: Key<'_>) -> Result<Option<i64>, Missing> {
        Ok(self.of(key)?.map(|heat| self.session.store.eviction.idle.idle_ms(heat & AGE_MAX)))
    }

    /// What [`Heat::idle_ms`] would say of keys by how warm they are.
    #[must_use]
    pub fn idle_ms_by_heat(self) -> [u64; HEAT_MAX as usize + 1] {
        let idle = &self.session.store.eviction.idle;
        debug_assert!(idle.idle_ms(0) >= idle.idle_ms(AGE_MAX), "what is colder was idle for longer");
        std::array::from_fn(|heat| idle.idle_ms(heat as u64 & AGE_MAX).max(0).unsigned_abs())
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
            let _ = self.with_entry(key, |position| position.set_heat(position.entry(), heat));
        }
    }
}
