//! Units of work: several commands that everybody else sees as one step.
//!
//! A unit whose keys are known is *planned*: the buckets of all of its keys are latched together, shared or exclusive as each
//! key needs it, before the first command runs, and released behind the last one. A unit that may touch any key (KEYS, FLUSHALL,
//! SWAPDB inside a transaction) runs
//! *alone*: all other workers are outside their batches meanwhile. Within a unit, readers and writers take and release no
//! latches of a plan of their own, and databases keep their namespaces.

use crate::access::accessor::Unit;
use crate::{Accessor, Key, Missing};
use almandine_store::{Fetcher, Need};

impl Accessor {
    /// Whether a unit of several commands has begun.
    #[inline]
    #[must_use]
    pub fn in_unit(&self) -> bool {
        self.unit != Unit::Command
    }

    /// Whether all others are kept out.
    pub(crate) fn is_alone(&self) -> bool {
        self.unit == Unit::Alone
    }

    /// Begins to plan a unit: it has no keys yet.
    pub fn plan_unit(&mut self) {
        debug_assert!(!self.in_unit(), "a unit has no other one in it");
        self.hashes.clear();
        self.modes.clear();
    }

    /// Adds a key of a database to the plan of the unit, with whether it may be written.
    #[inline]
    pub fn plan_key<'k>(&mut self, db: u16, key: &'k [u8], write: bool) -> Key<'k> {
        let key = self.key(db, key);
        self.session.ahead().prefetch(key.hash);
        self.hashes.push(key.hash);
        self.modes.push(write);
        key
    }

    /// Begins the unit that was planned: all of its keys are latched.
    pub fn begin_unit(&mut self) {
        debug_assert!(!self.in_unit(), "a unit has no other one in it");
        if !self.hashes.is_empty() {
            self.session.plan().lock_each(&self.hashes, &self.modes);
        }
        self.unit = Unit::Planned;
    }

    /// Makes sure that a key of the unit is at hand, for what it is needed for. Call it for all of them before the first
    /// command, so that all are read together.
    ///
    /// # Errors
    /// When a record must be read first, or cannot be.
    pub fn require_in_unit(&mut self, db: u16, key: &[u8], need: Need) -> Result<(), Missing> {
        debug_assert!(self.in_unit(), "a unit asks for what it needs once it has its latches");
        if !self.has_cold() {
            return Ok(());
        }
        // A command of the unit may remove it before another one looks it up.
        self.require_all(self.key(db, key), need)
    }

    /// Begins a unit that may touch anything: waits until all other workers have ended their batches.
    pub fn begin_alone(&mut self) {
        debug_assert!(!self.in_unit(), "a unit has no other one in it");
        self.session.plan().begin_alone();
        self.unit = Unit::Alone;
    }

    /// Ends a unit.
    pub fn end_unit(&mut self) {
        self.tell_left();
        match std::mem::take(&mut self.unit) {
            Unit::Command => debug_assert!(false, "a unit ends once"),
            Unit::Planned => self.session.plan().unlock_all(),
            Unit::Alone => self.session.plan().end_alone(),
        }
        self.session.notes().end_group();
        self.namespaces.clear();
    }

    /// After reads under latches: removes those of their keys that were found past their time, as a read by itself does. Within
    /// a unit that is left to its end.
    pub fn remove_expired<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])>) {
        if self.in_unit() || !self.session.notes().has_met_expired() || self.session.notes().holds_expiry() {
            return;
        }
        for (db, key) in keys {
            let key = self.key(db, key);
            // Looking at it removes it.
            let _ = self.writer(db).modify(key);
        }
        self.session.notes().forget_met_expired();
    }

    /// Does something alone, within a unit that is alone already or in one of its own.
    pub(crate) fn alone<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        if self.is_alone() {
            return work(self);
        }
        self.begin_alone();
        let result = work(self);
        // Whoever waits for a key that is ready now is served before anybody else comes.
        if !self.has_ready() {
            self.end_unit();
        }
        result
    }

    /// Reads from the device, at once, what the command that has just run has missed. For a unit that is alone and cannot begin
    /// anew, because it has changed something; the others wait meanwhile. False in a unit that holds latches: it has all that it
    /// may use.
    pub fn read_missing(&mut self) -> bool {
        debug_assert!(self.is_alone(), "INV-LATCH-2: a latch is never held across I/O");
        if !self.is_alone() {
            return false;
        }
        let mut stage = self.session.detach();
        self.session.cold().stage_blocking(&mut self.session.cold().take_wanted(), &mut stage, &mut Fetcher::default());
        self.session.attach(stage);
        true
    }

    /// Whether a key of the unit is known to exist. Looking is no use of it.
    pub fn exists_in_unit(&mut self, db: u16, key: &[u8]) -> bool {
        let mut reader = self.reader(db);
        let key = reader.key(key);
        reader.peek(key) == Ok(true)
    }
}
