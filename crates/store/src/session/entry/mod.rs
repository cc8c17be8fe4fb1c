//! Entries: a key under its exclusive latch, present or absent, and everything that can be done with it.
//!
//! Upsert, modify and delete are uses of an entry. A change happens in place when the record is mutable and the new state
//! fits; else a new record is written and the index entry is pointed to it, in one store. The user of an entry does not know
//! which. Dropping an entry releases the latch, unless it belongs to a lock plan.

mod elements;
mod occupied;
mod prepared;

pub use elements::{ElementsMut, Told};
pub use prepared::Pair;

use super::allocate::{allocate, release_heap_value};
use super::batch::Session;
use super::cold::Need;
use super::notes::Act;
use super::remove::{Damaged, count_live, drop_lost};
use crate::copying::COPY;
use crate::counters::add;
use crate::expiry::feed::Notice;
use crate::full::{Full, NotSet};
use crate::index::{ExclusiveLatch, Position};
use crate::record::heap::{self, HeapValue, SharedValue};
use crate::record::key::Key;
use crate::record::put::Put;
use crate::record::{Header, INLINE_KEY_MAX, Kind, Record, Shape, UNITS_MAX, WORD, fits_inline};
use crate::session::cold::staged::{Entered, Unknown, find_latched};
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use almandine_base::object::Missing;
use almandine_base::{step, steps};
use std::sync::Arc;

/// Bytes that a value may grow by without a look at the budget.
const LARGE_GROWTH: usize = 1 << 20;

/// A key under its exclusive latch.
pub enum Slot<'s> {
    /// There is no live record.
    Vacant(Vacant<'s>),
    /// There is one.
    Occupied(Occupied<'s>),
}

/// The latch on a key's bucket.
struct Guard<'s> {
    store: &'s Shared,
    local: &'s mut ThreadState,
    number: u64,
    /// None: it belongs to the session's lock plan.
    latch: Option<ExclusiveLatch<'s>>,
    key: Key<'s>,
}

impl Drop for Guard<'_> {
    /// A key that is latched for one verb is a unit of work by itself.
    #[inline]
    fn drop(&mut self) {
        if self.latch.is_some() {
            self.store.end_unit(self.local);
        }
    }
}

/// A key without a record.
pub struct Vacant<'s> {
    guard: Guard<'s>,
    /// It had a record, most probably, which could not be read any more and was given up.
    was_lost: bool,
}

/// A key with a record.
pub struct Occupied<'s> {
    guard: Guard<'s>,
    position: Position<'s>,
    record: Record,
    header: Header,
}

/// A record that has been written and that no entry leads to yet.
#[derive(Clone, Copy)]
struct Written {
    address: u64,
    record: Record,
    header: Header,
}

/// A value on its way into a record.
enum Payload<'v> {
    Inline(&'v [u8]),
    Heap(SharedValue),
}

/// Zeroes, as the system hands them out: they take no time, and no memory until they are read or written.
fn zeroes(len: usize, capacity: usize) -> Vec<u8> {
    debug_assert!(len <= capacity, "zeroes are cut to their length, never added to");
    let mut value = vec![0; capacity];
    value.truncate(len);
    value
}

impl Session {
    /// Latches a key exclusively (or uses the lock plan's latch) and looks it up. An expired record is removed.
    ///
    /// # Errors
    /// [`Missing`]: the key may have a record that is not in memory, a lock plan is held that does not have the key exclusively, or
    /// a long unit has it and the session passes by.
    #[inline]
    pub fn entry<'s>(&'s mut self, key: Key<'s>) -> Result<Slot<'s>, Missing> {
        self.look_up(key, Need::Read)
    }

    /// Looks a key up under its exclusive latch: each entry that may be the key's is compared with it, in memory or staged
    /// (INV-TIER-2). So a key for which there is no entry can get one, and a replacement since the record was read is seen.
    #[inline]
    fn look_up<'s>(&'s mut self, key: Key<'s>, need: Need) -> Result<Slot<'s>, Missing> {
        let held = self.held_bucket(key.hash);
        debug_assert!(self.local.participant.is_inside(), "INV-FREE-1: a record is used in the epoch in which it was found");
        match held {
            Some(number) if !self.store.index.bucket(number).is_latched_exclusively() => return Err(Missing::Unplanned),
            Some(_) => {}
            None if self.holds_latches() => return Err(self.local.held.why_not()),
            None => self.look_at_budget(),
        }
        let Self { store, local } = self;
        let store: &'s Shared = store;
        let (number, latch) = match held {
            Some(number) => (number, None),
            None => {
                let (index, passes) = (&store.index, local.held.passes);
                let expected = local.glances.of(&key).map(|glance| glance.number);
                let latch = index.lock_exclusive_unless(key.hash, expected, |number| passes && index.long_unit.holds(number));
                let Some(latch) = latch else { return Err(Missing::Held) };
                (latch.number(), Some(latch))
            }
        };
        debug_assert!(store.index.bucket(number).is_latched_exclusively(), "INV-LATCH-1: an entry is looked up under its latch");
        debug_assert_eq!(key.hash, store.hash(key.namespace, key.bytes), "INV-INDEX-1: a key's hash leads to its bucket");
        local.touched.note(key.hash);
        let (found, unknown) = find(store, local, number, &key);
        if store.consumers.wanted() & COPY != 0 && (found.is_some() || unknown.is_empty()) {
            store.save_before(
                local.thread,
                &key,
                found.map(|(position, (record, header))| (record, header, position.entry().heat())),
            );
        }
        let latch = step!(LookUnderLatch, latch, else latch.map(drop).map(|()| store.index.lock_exclusive(key.hash)));
        let guard = Guard { store, local, number, latch, key };
        match found {
            Some((position, (record, header))) => Ok(guard.slot(position, record, header)),
            None if step!(CompareWithAll, unknown.is_empty(), else true) => Ok(Slot::Vacant(Vacant { guard, was_lost: false })),
            None => guard.unknown_slot(&unknown, need),
        }
    }

    /// Sets a key whatever was there before.
    ///
    /// # Errors
    /// When the store is full, or what the key had is not at hand; then nothing has changed.
    #[inline]
    pub fn upsert(&mut self, key: Key<'_>, value: &[u8], put: Put) -> Result<(), NotSet> {
        if !fits_inline(key.bytes.len(), value.len()) {
            // Copied before the key is latched: under the latch a pointer changes. Callers that hold it already should have copied.
            if self.holds_latches() {
                steps::take(value.len());
            }
            return self.upsert_shared(key, Arc::new(HeapValue::string(value.to_vec())), put);
        }
        // The slot is used where it lies: taken out, it is copied twice.
        Ok(match &mut self.look_up(key, Need::Overwrite) {
            Ok(Slot::Occupied(occupied)) => occupied.replace(Kind::String, value, put),
            Ok(Slot::Vacant(vacant)) => vacant.fill(Kind::String, value, put),
            Err(missing) => return Err((*missing).into()),
        }?)
    }

    /// As [`Session::upsert`], of a heap value, which is not copied.
    ///
    /// # Errors
    /// As for [`Session::upsert`].
    #[inline(never)]
    pub fn upsert_shared(&mut self, key: Key<'_>, value: SharedValue, put: Put) -> Result<(), NotSet> {
        Ok(match self.look_up(key, Need::Overwrite)? {
            Slot::Occupied(mut occupied) => occupied.replace_shared(Kind::String, value, put),
            Slot::Vacant(vacant) => vacant.insert_shared(Kind::String, value, put),
        }?)
    }

    /// As [`Session::entry`], for a caller that replaces the record whatever it was: one that can never be read again is given up.
    ///
    /// # Errors
    /// As for [`Session::entry`].
    pub fn entry_to_replace<'s>(&'s mut self, key: Key<'s>) -> Result<Slot<'s>, Missing> {
        self.look_up(key, Need::Overwrite)
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// As for [`Session::entry`]; then nothing has changed.
    #[inline]
    pub fn delete(&mut self, key: Key<'_>) -> Result<bool, Missing> {
        match self.look_up(key, Need::Overwrite)? {
            Slot::Occupied(occupied) => {
                occupied.remove();
                Ok(true)
            }
            Slot::Vacant(mut vacant) => {
                if vacant.was_lost {
                    vacant.guard.say_changed(Act::Remove);
                }
                Ok(vacant.was_lost)
            }
        }
    }
}

/// The record of a key in its latched bucket, in memory or staged, and the entries that could not be compared with the key.
#[inline]
fn find<'s>(store: &'s Shared, local: &ThreadState, number: u64, key: &Key<'_>) -> (Option<Entered<'s>>, Unknown) {
    match find_glanced(store, local, number, key) {
        Some(found) => (Some(found), Unknown::default()),
        None => find_latched(store, local, number, key),
    }
}

/// As [`find`], where a glance saw the entry. None when that was not the key's, or the entry has changed since.
#[inline]
fn find_glanced<'s>(store: &'s Shared, local: &ThreadState, number: u64, key: &Key<'_>) -> Option<Entered<'s>> {
    let glance = local.glances.of(key).filter(|glance| glance.number == number)?;
    if !store.index.bucket(number).is_version_of(glance.seen) {
        return None;
    }
    let position = store.index.position(glance);
    let address = glance.entry.address();
    // Another address is one that this holder of the latch has entered itself.
    if address < local.head || position.entry().address() != address {
        return None;
    }
    Some((position, store.match_record(address, key)?))
}

impl<'s> Guard<'s> {
    /// What a key with this record in memory or staged is.
    #[inline]
    fn slot(self, position: Position<'s>, record: Record, header: Header) -> Slot<'s> {
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: an entry leads to a live record");
        debug_assert_eq!(header.namespace(), self.key.namespace, "INV-NS-1: a key is found in its own namespace");
        if record.is_expired(header, self.local.now_ms) {
            return self.expired_slot(position, record, header);
        }
        self.local.heat.warm(self.store, || position, position.entry());
        Slot::Occupied(Occupied { guard: self, position, record, header })
    }

    #[cold]
    fn expired_slot(self, position: Position<'s>, record: Record, header: Header) -> Slot<'s> {
        self.store.note_expired(self.local, record, header);
        Slot::Vacant(Occupied { guard: self, position, record, header }.unlink())
    }

    /// What a key is with entries that may be its own and could not be compared. One that is lost for good is no reason to refuse
    /// what replaces it.
    #[cold]
    fn unknown_slot(mut self, unknown: &Unknown, need: Need) -> Result<Slot<'s>, Missing> {
        debug_assert!(!unknown.is_empty(), "INV-TIER-2: a key without an entry that may be its own is absent");
        if need != Need::Overwrite || !unknown.is_lost() {
            return Err(self.local.cold.miss(unknown));
        }
        self.drop_damaged();
        Ok(Slot::Vacant(Vacant { guard: self, was_lost: true }))
    }

    /// Gives the key's damaged records up. One of another key, whose hash has the same tag, goes with them: it is as lost.
    fn drop_damaged(&mut self) {
        let (store, head) = (self.store, self.local.head);
        loop {
            let cold = &self.local.cold;
            let damaged = |address: u64| (address < head && cold.is_damaged(address)).then_some(());
            let Some((position, ())) = store.index.find_latched(self.number, self.key.hash, damaged) else { return };
            drop_lost(store, self.local, self.number, position, Damaged::Met(self.key.namespace));
        }
    }
}

impl Guard<'_> {
    /// Says what was done to the key.
    #[inline]
    fn say_changed(&mut self, act: Act<'_>) {
        debug_assert!(
            self.store.index.bucket(self.number).is_latched_exclusively(),
            "INV-CHANGE-1: a change is said before anybody else can look at the key"
        );
        self.store.note_change(self.local, &self.key, act);
    }

    /// As [`Guard::say_changed`], where nothing else is done to the key under this latch.
    #[inline]
    fn say_last_change(&mut self, act: Act<'_>) {
        if self.latch.is_none() {
            return self.say_changed(act);
        }
        self.store.note_last_change(self.local, &self.key, act);
    }

    /// Says that the last change, or the next one, counts as this many further ones.
    fn count_changes(&self, more: i64) {
        add(&self.store.thread(self.local).changes, more);
    }

    fn count_live(&self, live: i64, volatile: i64) {
        count_live(self.store, self.local, self.key.namespace, live, volatile);
    }

    /// Entries of the key, as far as this session can tell.
    fn entries(&self) -> usize {
        let (store, local, mut entries) = (self.store, &*self.local, 0);
        let _ = store.index.find_latched(self.number, self.key.hash, |address| {
            let found = if address >= local.head {
                store.match_record(address, &self.key)
            } else {
                local.cold.match_staged(store, address, &self.key, &mut Unknown::default())
            };
            entries += usize::from(found.is_some());
            None::<()>
        });
        entries
    }

    /// Tells the background about an expiry that no earlier notice covers.
    fn announce(&mut self, before: Option<i64>, after: Option<i64>) {
        if let Some(at_ms) = after
            && before.is_none_or(|before| at_ms < before)
            && self.store.expiry.feed.push(self.local.thread, Notice { hash: self.key.hash, at_ms })
        {
            self.store.background.waker.wake();
        }
    }

    /// Writes a new record for the guard's key; `slack` more bytes of value capacity than needed.
    fn write(&mut self, kind: Kind, payload: Payload<'_>, put: Put, key_handle: u64, slack: usize) -> Result<Written, Full> {
        debug_assert_eq!(
            self.key.bytes.len() > INLINE_KEY_MAX,
            key_handle != 0,
            "INV-LOG-2: a key that does not fit its record has a handle there"
        );
        let mut flags = 0;
        let handle_bytes;
        let heap_key;
        let key_field = if self.key.bytes.len() > INLINE_KEY_MAX {
            flags |= Header::HEAP_KEY;
            heap_key = key_handle.to_ne_bytes();
            &heap_key[..]
        } else {
            self.key.bytes
        };
        if put.expiry_ms.is_some() {
            flags |= Header::EXPIRY;
        }
        if put.etag.is_some() {
            flags |= Header::ETAG;
        }
        if put.edited {
            flags |= Header::EDITED;
        }
        let value_len = match &payload {
            Payload::Inline(bytes) => bytes.len(),
            Payload::Heap(_) => {
                flags |= Header::HEAP_VALUE;
                WORD
            }
        };
        debug_assert!(self.store.index.bucket(self.number).is_latched_exclusively(), "INV-LATCH-1: who writes holds the latch");
        let shape = Shape { namespace: self.key.namespace, key_len: key_field.len(), value_len, flags, kind };
        let units = (shape.units() + slack / WORD).min(UNITS_MAX);
        let (address, got) = match allocate(self.store, self.local, units) {
            Ok(space) => space,
            Err(Full) => {
                if let Payload::Heap(value) = payload {
                    release_heap_value(self.store, self.local, value);
                }
                return Err(Full);
            }
        };
        // SAFETY: freshly allocated space of `got` words that only this session knows.
        let record = unsafe { self.store.log.record(address) };
        let header = shape.header(got);
        let value = match payload {
            Payload::Inline(bytes) => bytes,
            Payload::Heap(value) => {
                handle_bytes = heap::into_handle(value, self.store.background.garbage.outliving()).to_ne_bytes();
                &handle_bytes[..]
            }
        };
        record.initialise(header, key_field, value, put.expiry_ms, put.etag);
        Ok(Written { address, record, header })
    }

    fn count_heap(&mut self, value: &HeapValue) {
        self.local.allocated.words += value.memory_bytes() / WORD;
        add(&self.store.thread(self.local).heap_bytes, value.memory_bytes() as i64);
    }

    /// Whether a value of this many bytes lies in the key's record.
    #[inline]
    fn fits_inline(&self, value_len: usize) -> bool {
        fits_inline(self.key.bytes.len(), value_len)
    }

    /// Refuses a value that grows by so much that the budget has no room for it. What is small is not looked at: it is evicted for.
    fn require_room(&self, bytes: usize) -> Result<(), Full> {
        if bytes < LARGE_GROWTH || self.store.has_room_for(bytes as u64) { Ok(()) } else { Err(Full) }
    }

    fn payload<'v>(&mut self, value: &'v [u8]) -> Payload<'v> {
        if self.fits_inline(value.len()) {
            return Payload::Inline(value);
        }
        steps::take(value.len());
        self.heap_payload(value.to_vec())
    }

    fn heap_payload<'v>(&mut self, value: Vec<u8>) -> Payload<'v> {
        self.shared_payload(Arc::new(HeapValue::string(value)))
    }

    fn shared_payload<'v>(&mut self, value: SharedValue) -> Payload<'v> {
        debug_assert!(!self.fits_inline((*value).as_ref().len()), "a value that fits is in its record, which can be moved");
        self.count_heap(&value);
        Payload::Heap(value)
    }
}

impl Slot<'_> {
    /// Says that the change that follows counts as this many further ones.
    pub fn count_changes(&mut self, more: i64) {
        let guard = match self {
            Self::Vacant(vacant) => &vacant.guard,
            Self::Occupied(occupied) => &occupied.guard,
        };
        guard.count_changes(more);
    }
}

impl<'s> Vacant<'s> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> Key<'s> {
        self.guard.key
    }

    /// Inserts a value.
    ///
    /// # Errors
    /// When the store is full.
    #[inline]
    pub fn insert(mut self, kind: Kind, value: &[u8], put: Put) -> Result<(), Full> {
        self.fill(kind, value, put)
    }

    /// As [`Vacant::insert`], for a caller that uses the key no further.
    #[inline]
    fn fill(&mut self, kind: Kind, value: &[u8], put: Put) -> Result<(), Full> {
        let payload = self.guard.payload(value);
        self.insert_payload(kind, payload, put)
    }

    /// Inserts a value of zeroes up to `offset`, and `bytes` behind them.
    ///
    /// # Errors
    /// When the store is full, or the budget has no room for it.
    pub fn insert_at(self, kind: Kind, offset: usize, bytes: &[u8], put: Put) -> Result<(), Full> {
        self.insert_parts(kind, offset + bytes.len(), std::iter::once((offset, bytes)), put)
    }

    /// Inserts a value of zeroes of this length, with some parts in it, each at its offset.
    ///
    /// # Errors
    /// As for [`Vacant::insert_at`].
    pub fn insert_parts<'p>(
        mut self,
        kind: Kind,
        len: usize,
        parts: impl Iterator<Item = (usize, &'p [u8])>,
        put: Put,
    ) -> Result<(), Full> {
        self.guard.require_room(len)?;
        let mut value = zeroes(len, len);
        parts.for_each(|(offset, bytes)| value[offset..offset + bytes.len()].copy_from_slice(bytes));
        if self.guard.fits_inline(len) {
            return self.insert(kind, &value, put);
        }
        let payload = self.guard.heap_payload(value);
        self.insert_payload(kind, payload, put)
    }

    /// Inserts a heap value without copying it.
    ///
    /// # Errors
    /// As for [`Vacant::insert`].
    pub fn insert_shared(mut self, kind: Kind, value: SharedValue, put: Put) -> Result<(), Full> {
        if kind == Kind::String && self.guard.fits_inline((*value).as_ref().len()) {
            return self.insert(kind, value.as_ref().as_ref(), put);
        }
        self.guard.count_heap(&value);
        self.insert_payload(kind, Payload::Heap(value), put)
    }

    fn insert_payload(&mut self, kind: Kind, payload: Payload<'_>, put: Put) -> Result<(), Full> {
        let guard = &mut self.guard;
        let written = guard.prepare(kind, payload, put, 0)?;
        if guard.link(&written, 0).is_err() {
            guard.forget(written);
            return Err(Full);
        }
        guard.count_new(kind, &written, put);
        Ok(())
    }
}
