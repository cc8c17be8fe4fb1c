//! Asking a session for the heat of a key.

use super::batch::Session;
use crate::evict::AGE_MAX;
use crate::key::Key;
use crate::tier::stage::Lookup;

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
        match self.held_bucket(key.hash) {
            Some(number) => self.heat_latched(number, key),
            None => {
                let latch = self.store.index.lock_shared(key.hash);
                self.heat_latched(latch.number(), key)
            }
        }
    }

    fn heat_latched(&self, number: u64, key: Key<'_>) -> Option<u64> {
        let store = &*self.store;
        let found = store.index.find_latched(number, key.hash, |address| {
            if address >= self.local.head {
                return store.match_record(address, &key).map(|_| ());
            }
            match self.staged(address) {
                Lookup::Ready(record, header) => store.matches_key(record, header, &key).then_some(()),
                Lookup::Failed | Lookup::Damaged | Lookup::Absent => None,
            }
        });
        found.map(|(position, _)| position.entry().heat())
    }

    /// Milliseconds since the last use of a key, at least; as precise as the laps of the clock hand. Only while the rule is
    /// [`HeatRule::Recency`].
    #[must_use]
    pub fn idle_ms(&self, key: Key<'_>) -> Option<i64> {
        self.heat(key).map(|heat| self.store.eviction.idle.idle_ms(heat & AGE_MAX))
    }
}
