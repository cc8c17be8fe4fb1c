//! The lock plan of a command: the latches that it takes beside those of its verbs, and what it makes sure of under them.
//!
//! Within a unit of work these methods take and release nothing: the unit holds all latches.

use crate::{Key, Missing, Reader};
use almandine_store::Need;

impl<'w> Reader<'w> {
    /// The lock plan of the command.
    #[inline]
    pub fn plan(&mut self) -> KeyPlan<'_, 'w> {
        KeyPlan { keys: self }
    }
}

/// The lock plan of a command, of any databases.
pub struct KeyPlan<'a, 'w> {
    pub(crate) keys: &'a mut Reader<'w>,
}

impl KeyPlan<'_, '_> {
    /// Whether the command is one of a unit of several.
    #[must_use]
    pub fn in_unit(&self) -> bool {
        self.keys.accessor.in_unit()
    }

    /// Whether records may be on a device, in this batch.
    #[must_use]
    pub fn has_cold(&self) -> bool {
        self.keys.accessor.cold().is_possible()
    }

    /// Whether what the waiters of its keys need is secured before a command changes anything.
    #[inline]
    #[must_use]
    pub fn secures_waiters(&mut self) -> bool {
        self.keys.accessor.secures_waiters()
    }

    /// Whether the unit of work may look at a key, and change it, without another latch.
    #[must_use]
    pub fn holds(&mut self, key: Key<'_>) -> bool {
        self.keys.accessor.is_alone() || self.keys.accessor.session.plan().holds_exclusively(key.hash)
    }

    /// Latches the keys shared, so that they are read as of one moment. Once, until [`KeyPlan::unlock`].
    pub fn lock_shared(&mut self, keys: &[(u16, &[u8])]) {
        self.keys.lock_keys(keys.iter().copied(), false);
    }

    /// As [`KeyPlan::lock_shared`], for keys of this database from an iterator.
    pub fn lock_shared_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let db = self.keys.db;
        self.keys.lock_keys(keys.map(|key| (db, key)), false);
    }

    /// Latches keys of this database exclusively. Once, until [`KeyPlan::unlock`]. A command that only reads does so while events
    /// are told: what has expired is removed where it is met, and no event of these keys comes between.
    pub fn lock_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let db = self.keys.db;
        self.keys.lock_keys(keys.map(|key| (db, key)), true);
    }

    /// Latches one key of this database exclusively.
    #[inline]
    pub fn lock_one(&mut self, key: Key<'_>) {
        // While events are told, commands of one verb are latched before they begin, too.
        if !self.keys.accessor.in_unit() && !self.keys.accessor.session.plan().holds_any() {
            let key = self.keys.current(key);
            self.keys.accessor.session.plan().lock_all(&[key.hash], true);
        }
    }

    /// Releases all latches, so that another set of keys can be locked.
    pub fn unlock(&mut self) {
        if !self.keys.accessor.in_unit() {
            self.keys.accessor.session.plan().unlock_all();
        }
    }

    /// Takes hold of keys of any databases that the command does not declare: they change together, and all that is known of
    /// them is at hand. Before the first change, and once per writer.
    ///
    /// # Errors
    /// When something has to be read from the device first; then the command must not have changed anything.
    pub fn hold<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])> + Clone) -> Result<(), Missing> {
        self.hold_for(keys.map(|(db, key)| (db, key, Need::Read)))
    }

    /// As [`KeyPlan::hold`], for what the command needs each key for. It may remove one that it overwrites and look it up again.
    ///
    /// # Errors
    /// When something has to be read from the device first; then the command must not have changed anything.
    pub fn hold_for<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8], Need)> + Clone) -> Result<(), Missing> {
        let names = || keys.clone().map(|(db, key, _)| (db, key));
        self.keys.lock_keys(names(), true);
        let mut outcome = self.secure_all_waiters(names());
        for (db, key, need) in keys {
            // All of them, so that all are read together.
            outcome = outcome.and(self.require_in(db, key, need));
        }
        outcome
    }

    /// As [`KeyPlan::hold`], for one key of this database.
    ///
    /// # Errors
    /// When something has to be read from the device first; then the command must not have changed anything.
    pub fn hold_one(&mut self, key: Key<'_>) -> Result<(), Missing> {
        self.lock_one(key);
        self.require_for(key, Need::Read, false)
    }

    /// Makes sure that what the command needs of a locked key is at hand. Before it reads what it is about to change. `again`: it
    /// may remove the key and look it up again.
    ///
    /// # Errors
    /// When something has to be read from the device first; then the command must not have changed anything.
    pub fn require_for(&mut self, key: Key<'_>, need: Need, again: bool) -> Result<(), Missing> {
        if !self.keys.accessor.cold().is_possible() {
            return Ok(());
        }
        let key = self.keys.current(key);
        if again { self.keys.accessor.cold().probe_all(key, need) } else { self.keys.accessor.cold().probe(key, need) }
    }

    /// As [`KeyPlan::require_for`], for a key of any database.
    fn require_in(&mut self, db: u16, key: &[u8], need: Need) -> Result<(), Missing> {
        if !self.keys.accessor.cold().is_possible() {
            return Ok(());
        }
        let namespace = self.keys.namespace_of(db);
        let key = self.keys.accessor.session.key(namespace, key);
        match need {
            Need::Read => self.keys.accessor.cold().probe(key, need),
            Need::Overwrite => self.keys.accessor.cold().probe_all(key, need),
        }
    }

    /// The sequence of the last effect on a key that is latched: the value that is read under this latch has it and all before
    /// it, and none that comes later.
    #[must_use]
    pub fn last_sequence(&mut self, key: Key<'_>) -> u64 {
        let key = self.keys.current(key);
        self.keys.accessor.session.notes().last_sequence(key)
    }
}
