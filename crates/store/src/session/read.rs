//! Read: without a latch for values in the record, by a validated copy; under a shared latch for heap values and long ones.

use super::batch::Session;
use super::view::View;
use crate::counters::add;
use crate::index::Glance;
use crate::index::latch::SharedLatch;
use crate::record::key::Key;
use crate::record::{Header, Kind};
use crate::session::cold::staged::{Unknown, find_latched};
use almandine_base::object::Missing;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// Longest inline value that is copied optimistically; for longer ones the latch is cheaper than word-wise copying.
const OPTIMISTIC_VALUE_MAX: usize = View::COPIED_MAX;
/// Failed validations after which a reader takes the latch, so that writers cannot starve it.
const RETRIES_MAX: u32 = 8;

/// Whether a value is read under the latch.
#[inline]
fn is_long(header: Header) -> bool {
    header.has(Header::HEAP_VALUE) || header.value_len() > OPTIMISTIC_VALUE_MAX
}

impl Session {
    /// Reads a key. `visit` may run more than once; only its last result counts, so it must overwrite what it wrote before. On
    /// a value of another kind than a string that is an object or longer than [`View::COPIED_MAX`] it runs once.
    ///
    /// # Errors
    /// [`Missing`]: the key may have a record that is not in memory, or a lock plan is held that does not have the key.
    #[inline]
    pub fn read<R>(&self, key: Key<'_>, mut visit: impl FnMut(&View<'_>) -> R) -> Result<Option<R>, Missing> {
        debug_assert!(!self.local.touched.is_visiting(), "INV-LATCH-4: a visitor reads no other key");
        if self.holds_latches() { self.read_held(key, &mut visit) } else { self.read_free(key, &mut visit) }
    }

    /// Whether a key can be changed: no latches are held, or its own exclusively.
    pub(in crate::session) fn may_change(&self, hash: u64) -> bool {
        let is_exclusive = |number| self.store.index.bucket(number).is_latched_exclusively();
        !self.holds_latches() || self.held_bucket(hash).is_some_and(is_exclusive)
    }

    /// Whether what has expired is to stay for now.
    #[must_use]
    pub(crate) fn holds_expiry(&self) -> bool {
        self.store.expiry.held.load(Ordering::Relaxed) || self.store.consumers.copying.is_full()
    }

    /// Removes `key` if its record is past its time and no lock plan is held.
    pub(crate) fn remove_if_expired(&mut self, key: Key<'_>) {
        if !self.holds_latches() && !self.holds_expiry() {
            // Looking the key up for a change removes it if it is due.
            let _ = self.entry(key);
        }
    }

    // Out of line: inlined, the key is copied within the handler's frame, and the copy waits for the stores before it.
    #[inline(never)]
    fn read_free<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Result<Option<R>, Missing> {
        if let Some(glance) = self.local.glances.of(&key) {
            if let Some(result) = self.read_glanced(&key, glance, visit) {
                return Ok(Some(result));
            }
            if let Some(result) = self.read_glanced_latched(&key, glance, visit) {
                return Ok(Some(result));
            }
        }
        self.read_anew(key, visit)
    }

    /// [`Session::read_glanced`] for a value that is read under the latch. Other values take none: reading them writes no
    /// shared memory.
    #[inline(never)]
    fn read_glanced_latched<R>(&self, key: &Key<'_>, glance: &Glance, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        let store = &*self.store;
        debug_assert!(!self.holds_latches(), "INV-LATCH-3: who has a lock plan latches nothing beside it");
        let address = glance.entry.address();
        if address < self.local.head || glance.seen.is_exclusive() {
            return None;
        }
        store.match_record(address, key).filter(|(_, header)| is_long(*header))?;
        let latch = store.index.latch_glanced(glance)?;
        let (record, header) = store.match_record(address, key)?;
        if record.is_expired(header, self.local.now_ms) {
            return None;
        }
        if header.has(Header::CACHED) {
            add(&store.thread(&self.local).cache_hits, 1);
        }
        self.local.heat.warm(store, || store.index.position(glance), glance.entry);
        let result = self.local.touched.visit(|| visit(&View::latched(record, header)));
        drop(latch);
        Some(result)
    }

    /// Reads the record of an entry that was seen before. None when that was not the key's, has changed since, or is anything
    /// unusual.
    #[inline(always)]
    fn read_glanced<R>(&self, key: &Key<'_>, glance: &Glance, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        let store = &*self.store;
        let address = glance.entry.address();
        if address < self.local.head {
            return None;
        }
        let (record, header) = store.match_record(address, key)?;
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: a key is never that of dead space");
        if is_long(header) || record.is_expired(header, self.local.now_ms) {
            return None;
        }
        let result = visit(&View { record, header, latched: false, session: PhantomData });
        if !store.index.bucket(glance.number).validate(glance.seen) {
            return None;
        }
        if header.has(Header::CACHED) {
            add(&store.thread(&self.local).cache_hits, 1);
        }
        self.local.heat.warm(store, || store.index.position(glance), glance.entry);
        Some(result)
    }

    /// Looks the key up from the beginning.
    #[inline(never)]
    fn read_anew<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Result<Option<R>, Missing> {
        let store = &*self.store;
        let head = self.local.head;
        debug_assert!(self.local.participant.is_inside(), "INV-FREE-1: a record is read in the epoch in which it was found");
        for _ in 0..RETRIES_MAX {
            let passes = self.local.held.passes;
            let Some(entered) = store.index.begin_read_unless(key.hash, |number| passes && store.index.long_unit.holds(number))
            else {
                return Err(Missing::Held);
            };
            let mut unknown = Unknown::default();
            let found = store.index.find_optimistic(entered, |position, entry| {
                let found = if entry.address() < head {
                    self.local.cold.match_staged(store, entry.address(), &key, &mut unknown)
                } else {
                    store.match_record(entry.address(), &key)
                };
                found.map(|(record, header)| (position, entry, record, header))
            });
            match found {
                Ok(Some((position, entry, record, header))) => {
                    // A staged record never changes, so it is as exact as one under a latch.
                    let staged = entry.address() < head;
                    // A collection that is read in place is visited once: what is read of it is not undone.
                    if is_long(header) && (!staged || header.kind() != Kind::String) {
                        return self.read_latched(key, visit);
                    }
                    let expired = record.is_expired(header, self.local.now_ms);
                    if expired {
                        self.local.notes.met_expired.set(true);
                    }
                    let view = View { record, header, latched: staged, session: PhantomData };
                    let result = (!expired).then(|| visit(&view));
                    if store.index.bucket(entered.number).validate(entered.seen) {
                        if header.has(Header::CACHED) {
                            add(&store.thread(&self.local).cache_hits, 1);
                        }
                        self.local.heat.warm(store, || position, entry);
                        return Ok(result);
                    }
                }
                Ok(None) if store.index.bucket(entered.number).validate(entered.seen) => {
                    return self.local.cold.absence(&unknown).map(|()| None);
                }
                Ok(None) | Err(()) => {}
            }
            add(&store.thread(&self.local).read_retries, 1);
        }
        self.read_latched(key, visit)
    }

    #[cold]
    fn read_latched<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Result<Option<R>, Missing> {
        debug_assert!(!self.holds_latches(), "INV-LATCH-3: who has a lock plan latches nothing beside it");
        let latch = self.lock_shared(key.hash).ok_or(Missing::Held)?;
        let number = latch.number();
        let result = self.local.touched.visit(|| self.visit_latched(number, key, visit));
        drop(latch);
        result
    }

    /// Takes a shared hold of a key's bucket, unless a long unit has it and the session passes by.
    pub(in crate::session) fn lock_shared(&self, hash: u64) -> Option<SharedLatch<'_>> {
        debug_assert!(!self.holds_latches(), "INV-LATCH-3: who has a lock plan latches nothing beside it");
        let (index, passes) = (&self.store.index, self.local.held.passes);
        index.lock_shared_unless(hash, |number| passes && index.long_unit.holds(number))
    }

    fn read_held<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Result<Option<R>, Missing> {
        debug_assert!(self.holds_latches(), "INV-LATCH-3: a read without a lock plan latches by itself");
        let number = self.held_bucket(key.hash).ok_or_else(|| self.local.held.why_not())?;
        self.visit_latched(number, key, visit)
    }

    fn visit_latched<R>(&self, number: u64, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Result<Option<R>, Missing> {
        let store = &*self.store;
        let (found, unknown) = find_latched(store, &self.local, number, &key);
        let Some((position, (record, header))) = found else {
            return self.local.cold.absence(&unknown).map(|()| None);
        };
        self.local.heat.warm(store, || position, position.entry());
        if record.is_expired(header, self.local.now_ms) {
            self.local.notes.met_expired.set(true);
            return Ok(None);
        }
        if header.has(Header::CACHED) {
            add(&store.thread(&self.local).cache_hits, 1);
        }
        Ok(Some(visit(&View::latched(record, header))))
    }
}
