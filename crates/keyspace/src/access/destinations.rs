//! What waiters need beside the key that they wait for: the destination of BLMOVE.
//!
//! A unit of work that makes a key ready serves its waiters under its own latches (INV-BLOCK-1), and no latch is held while
//! something is read from the device (INV-LATCH-2). Nor may it wait for a destination that a script holds whose further keys show
//! while it runs: that may come to the ready key, and would meet what is promised. So where records may be on a device, and once
//! there are scripts of this kind, a command that may make keys ready
//! secures what serving will need before its first change. Together with its own keys it latches the destinations of the waiters
//! that it will serve, the destinations of the waiters of these destinations, and so on; and it asks for those that are not in
//! memory. A wait never begins for a key that is latched, so the waiters found under the latches are all.
//!
//! Of a long queue, as many waiters are looked at as the command has elements, and a few more, since others may leave meanwhile.

use crate::access::accessor::Unit;
use crate::access::plan::KeyPlan;
use crate::blocking::wait::WaiterQueues;
use crate::{Accessor, Keyspace, Missing};
use almandine_store::Need;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// A key of a command that may get elements; each element can serve one waiter.
#[derive(Clone, Copy, Debug)]
pub struct Filled<'k> {
    /// Its database.
    pub db: u16,
    /// The key.
    pub key: &'k [u8],
    /// At most how many elements it gets.
    pub elements: usize,
}

/// Waiters of a queue that are looked at beside those that there are elements for.
const SPARE: usize = 16;
/// Keys that are latched together for waiters, at most. Keys beyond are read between two holds
/// ([`crate::WaiterService::read_between`]).
const KEYS_MAX: usize = 1 << 10;
/// Times that a command takes its latches anew, because a wait has begun meanwhile.
const PLANS_MAX: usize = 64;

/// A key that serving needs.
struct Needed {
    db: u16,
    key: Box<[u8]>,
    hash: u64,
}

impl Keyspace {
    /// Whether there are waiters.
    #[inline]
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.waiters.any.load(Ordering::Relaxed)
    }
}

impl Accessor {
    /// Whether what serving waiters takes is secured before a command makes a key ready.
    #[inline]
    pub(crate) fn secures_waiters(&mut self) -> bool {
        self.cold().is_possible() | self.meets_growing
    }
}

impl WaiterQueues<'_> {
    /// Whether what serving them takes is asked for, and latched, before a command makes a key ready: it may be on a device, or
    /// a unit of work that holds it may come to the ready key.
    #[inline]
    #[must_use]
    pub fn are_secured(&mut self) -> bool {
        self.accessor.secures_waiters()
    }

    /// Notes what must be read from the device before the waiters of a key can be served. A look ahead: without latches.
    pub fn probe_for(&mut self, filled: Filled<'_>) {
        let needed = self.accessor.needed_to_serve(&[filled]);
        let _ = self.accessor.require_all_of(&needed);
    }

    /// Makes a unit of work that has just begun hold all of its keys exclusively if it may fill a key that has waiters: serving
    /// them may change a key that its commands only read. It may release its latches for a moment.
    pub fn hold_for(&mut self, filled: &[Filled<'_>]) {
        let is_waited_for = |filled: &Filled<'_>| {
            filled.elements > 0 && self.accessor.keyspace.waiters.is_waited_for(&self.accessor.key(filled.db, filled.key))
        };
        if self.accessor.unit == Unit::Planned && self.accessor.modes.contains(&false) && filled.iter().any(is_waited_for) {
            self.accessor.modes.fill(true);
            self.accessor.session.plan().unlock_all();
            self.accessor.session.plan().lock_each(&self.accessor.hashes, &self.accessor.modes);
        }
    }

    /// Makes sure that a unit of work that has just begun will have all that it takes to serve the waiters of its keys. It may
    /// release its latches for a moment.
    ///
    /// # Errors
    /// When something has to be read from the device first.
    pub fn secure_for_unit(&mut self, filled: &[Filled<'_>]) -> Result<(), Missing> {
        debug_assert!(self.accessor.in_unit(), "INV-BLOCK-1: what serving needs is latched with the unit");
        if self.accessor.is_alone() || !self.accessor.keyspace().has_waiters() {
            return Ok(());
        }
        self.accessor.secure_waiters(filled, |accessor, needed| {
            accessor.hashes.extend(needed.iter().map(|key| key.hash));
            accessor.modes.extend(needed.iter().map(|_| true));
            accessor.session.plan().unlock_all();
            accessor.session.plan().lock_each(&accessor.hashes, &accessor.modes);
        })
    }
}

impl Accessor {
    fn secure_waiters(&mut self, filled: &[Filled<'_>], latch: impl Fn(&mut Self, &[Needed])) -> Result<(), Missing> {
        for _ in 0..PLANS_MAX {
            let needed = self.needed_to_serve(filled);
            if needed.iter().all(|key| self.session.plan().holds_exclusively(key.hash)) {
                return self.require_all_of(&needed);
            }
            latch(self, &needed);
        }
        // Waiters that came meanwhile are served as in memory: see `WaiterService::secure`.
        Ok(())
    }

    /// A key that cannot be read is no error here, but one of the command that needs it.
    fn require_all_of(&mut self, needed: &[Needed]) -> Result<(), Missing> {
        let mut outcome = Ok(());
        for Needed { db, key, .. } in needed {
            if self.session.cold().probe_all(self.key(*db, key), Need::Read) == Err(Missing::Cold) {
                outcome = Err(Missing::Cold);
            }
        }
        outcome
    }

    /// Those of these keys that have waiters, the keys that serving these may change beside, and so on.
    fn needed_to_serve(&self, filled: &[Filled<'_>]) -> Vec<Needed> {
        let (mut needed, mut known, mut elements) = (Vec::new(), HashSet::new(), Vec::new());
        for filled in filled.iter().filter(|filled| filled.elements > 0) {
            let key = self.key(filled.db, filled.key);
            if self.keyspace.waiters.is_waited_for(&key) && known.insert(key.hash) {
                needed.push(Needed { db: filled.db, key: filled.key.into(), hash: key.hash });
                elements.push(filled.elements);
            }
        }
        let mut next = 0;
        while next < needed.len() && needed.len() < KEYS_MAX {
            let count = elements[next];
            let key = self.key(needed[next].db, &needed[next].key);
            for waiter in self.keyspace.waiters.first(&key, count.saturating_add(SPARE).min(KEYS_MAX)) {
                let Some(other) = waiter.other() else { continue };
                let hash = self.key(waiter.db(), other).hash;
                if known.insert(hash) {
                    needed.push(Needed { db: waiter.db(), key: other.into(), hash });
                    elements.push(count);
                }
            }
            next += 1;
        }
        needed
    }
}

impl KeyPlan<'_, '_> {
    /// As [`KeyPlan::secure_waiters`], for keys each of which may get any number of elements.
    ///
    /// # Errors
    /// When something has to be read from the device first; then the command must not have changed anything.
    pub(crate) fn secure_all_waiters<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])>) -> Result<(), Missing> {
        if !self.keys.accessor.secures_waiters() || !self.keys.accessor.keyspace.has_waiters() {
            return Ok(());
        }
        let filled: Vec<Filled<'_>> = keys.map(|(db, key)| Filled { db, key, elements: usize::MAX }).collect();
        self.secure_waiters(&filled)
    }

    /// As [`WaiterQueues::secure_for_unit`], for a command that has just latched its keys exclusively: all of them are named.
    ///
    /// # Errors
    /// When something has to be read from the device first; then the command must not have changed anything.
    pub fn secure_waiters(&mut self, filled: &[Filled<'_>]) -> Result<(), Missing> {
        if !self.keys.accessor.secures_waiters()
            || !self.keys.accessor.keyspace.has_waiters()
            || self.keys.accessor.unit != Unit::Command
        {
            return Ok(());
        }
        self.keys.accessor.secure_waiters(filled, |accessor, needed| {
            let own = filled.iter().map(|filled| accessor.key(filled.db, filled.key).hash);
            let hashes: Vec<u64> = own.chain(needed.iter().map(|key| key.hash)).collect();
            accessor.session.plan().unlock_all();
            accessor.session.plan().lock_all(&hashes, true);
        })
    }
}
