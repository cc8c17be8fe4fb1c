//! Entries: a key under its exclusive latch, present or absent, and everything that can be done with it.
//!
//! Upsert, modify and delete are uses of an entry. A change happens in place when the record is mutable and the new state
//! fits; else a new record is written and the index entry is pointed to it, in one store. The user of an entry does not know
//! which. Dropping an entry releases the latch, unless it belongs to a lock plan.

mod occupied;

use super::allocate::{allocate, drop_heap_key, drop_heap_value, release_heap_value, retire};
use super::batch::Session;
use super::local::Local;
use super::remove::{count_live, discard_tombstone};
use super::staged::ColdMatches;
use crate::counters::add;
use crate::expiry::feed::Notice;
use crate::full::Full;
use crate::heap::{self, HeapKey, HeapString, SharedString};
use crate::index::entry::Entry;
use crate::index::{Exclusive, Position};
use crate::key::Key;
use crate::record::{Header, INLINE_KEY_MAX, Kind, Record, Shape, UNITS_MAX, WORD, fits_inline};
use crate::shared::Inner;
use std::sync::Arc;

/// What goes with a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// When it expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<i64>,
    /// Its entity tag.
    pub etag: Option<u64>,
    /// Whether it was built or changed in part (APPEND, SETRANGE, BITOP) rather than set as a whole.
    pub edited: bool,
}

impl Put {
    /// For a value that is built in part, without expiry and entity tag.
    pub const EDITED: Self = Self { expiry_ms: None, etag: None, edited: true };
}

/// A key under its exclusive latch.
pub enum Slot<'s> {
    /// There is no live record.
    Vacant(Vacant<'s>),
    /// There is one.
    Occupied(Occupied<'s>),
}

/// The latch on a key's bucket.
struct Guard<'s> {
    store: &'s Inner,
    local: &'s mut Local,
    number: u64,
    /// None: it belongs to the session's lock plan.
    _latch: Option<Exclusive<'s>>,
    key: Key<'s>,
}

/// A key without a record.
pub struct Vacant<'s> {
    guard: Guard<'s>,
    /// The entry of the key's tombstone.
    tombstone: Option<Position<'s>>,
    /// An entry on the device that may be the key's and was not looked at; 0: none.
    open: u64,
    /// Whether that may be so.
    blind: bool,
}

/// A key with a record.
pub struct Occupied<'s> {
    guard: Guard<'s>,
    position: Position<'s>,
    record: Record,
    header: Header,
}

/// A value on its way into a record.
enum Payload<'v> {
    Inline(&'v [u8]),
    Heap(SharedString),
}

impl Session {
    /// Latches a key exclusively (or uses the lock plan's latch) and looks it up. An expired record is removed.
    #[inline]
    pub fn entry<'s>(&'s mut self, key: Key<'s>) -> Slot<'s> {
        self.look_up(key, false)
    }

    /// As [`Session::entry`]; a blind caller does not care what was there, so entries on the device are not looked at.
    #[inline]
    fn look_up<'s>(&'s mut self, key: Key<'s>, blind: bool) -> Slot<'s> {
        let held = self.held_bucket(key.hash);
        debug_assert!(held.is_some() || !self.holds_latches(), "a command changes a key that its lock plan does not hold");
        if held.is_none() {
            self.look_at_budget();
        }
        let Self { store, local } = self;
        let store: &'s Inner = store;
        let (number, latch) = match held {
            Some(number) => (number, None),
            None => {
                let latch = store.index.lock_exclusive(key.hash);
                (latch.number(), Some(latch))
            }
        };
        let guard = Guard { store, local, number, _latch: latch, key };
        let head = guard.local.head;
        let mut cold = ColdMatches::default();
        let found = store.index.find_latched(number, key.hash, |address| {
            if address < head {
                cold.note(store, &guard.local.cold, address, &key);
                return None;
            }
            store.match_record(address, &key)
        });
        match found {
            Some((position, (record, header))) => guard.slot(position, record, header),
            None if cold.is_empty() => Slot::Vacant(Vacant { guard, tombstone: None, open: 0, blind }),
            None => guard.cold_slot(&cold, blind),
        }
    }

    /// Sets a key whatever was there before. Nothing is read from a device for that, so that the count of keys may be too high
    /// until the resolver has compared the records ([`crate::TierStatistics::unresolved`]). A caller that can wait for reads does
    /// better to probe the key before, while [`Session::reads_before_write`].
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    #[inline]
    pub fn upsert(&mut self, key: Key<'_>, value: &[u8], put: Put) -> Result<(), Full> {
        match self.look_up(key, true) {
            Slot::Occupied(mut occupied) => occupied.replace(Kind::String, value, put),
            Slot::Vacant(vacant) => vacant.insert(Kind::String, value, put),
        }
    }

    /// Removes a key; whether it was there.
    #[inline]
    pub fn delete(&mut self, key: Key<'_>) -> bool {
        match self.entry(key) {
            Slot::Occupied(occupied) => {
                occupied.remove();
                true
            }
            Slot::Vacant(_) => false,
        }
    }
}

impl<'s> Guard<'s> {
    /// What a key with this record in memory or staged is.
    #[inline]
    fn slot(self, position: Position<'s>, record: Record, header: Header) -> Slot<'s> {
        if record.is_expired(header, self.local.now_ms) {
            return self.expired_slot(position, record, header);
        }
        self.local.heat.warm(self.store, position, position.entry());
        Slot::Occupied(Occupied { guard: self, position, record, header })
    }

    #[cold]
    fn expired_slot(self, position: Position<'s>, record: Record, header: Header) -> Slot<'s> {
        if header.is_tombstone() {
            return Slot::Vacant(Vacant { guard: self, tombstone: Some(position), open: 0, blind: false });
        }
        self.store.note_expired(self.local, record, header);
        Slot::Vacant(Occupied { guard: self, position, record, header }.unlink())
    }

    #[cold]
    fn cold_slot(self, cold: &ColdMatches, blind: bool) -> Slot<'s> {
        if blind && cold.is_open() {
            return Slot::Vacant(Vacant { guard: self, tombstone: None, open: cold.open_address(), blind });
        }
        let store = self.store;
        let found = cold
            .settle(&self.local.cold)
            .and_then(|(address, record, header)| Some((store.index.find_any(self.number, |at| at == address)?, record, header)));
        match found {
            Some((position, record, header)) => self.slot(position, record, header),
            None => Slot::Vacant(Vacant { guard: self, tombstone: None, open: cold.open_address(), blind }),
        }
    }
}

impl Guard<'_> {
    fn count_live(&self, live: i64, volatile: i64) {
        count_live(self.store, self.local, self.key.namespace, live, volatile);
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
    fn write(
        &mut self,
        kind: Kind,
        payload: Payload<'_>,
        put: Put,
        key_handle: u64,
        slack: usize,
    ) -> Result<(u64, Record, Header), Full> {
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
                handle_bytes = heap::into_handle(value).to_ne_bytes();
                &handle_bytes[..]
            }
        };
        record.initialise(header, key_field, value, put.expiry_ms, put.etag);
        Ok((address, record, header))
    }

    fn count_heap(&mut self, value: &HeapString) {
        self.local.allocated_words += value.memory_bytes() / WORD;
        add(&self.store.thread(self.local).heap_bytes, value.memory_bytes() as i64);
    }

    /// Whether a value of so many bytes lies in the key's record.
    #[inline]
    fn fits_inline(&self, value_len: usize) -> bool {
        fits_inline(self.key.bytes.len(), value_len)
    }

    fn payload<'v>(&mut self, value: &'v [u8]) -> Payload<'v> {
        if self.fits_inline(value.len()) { Payload::Inline(value) } else { self.heap_payload(value.to_vec()) }
    }

    fn heap_payload<'v>(&mut self, value: Vec<u8>) -> Payload<'v> {
        let value = HeapString::new(value);
        self.count_heap(&value);
        Payload::Heap(Arc::new(value))
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
        let payload = self.guard.payload(value);
        self.insert_payload(kind, payload, put)
    }

    /// Inserts a heap value without copying it.
    ///
    /// # Errors
    /// When the store is full.
    pub fn insert_shared(mut self, kind: Kind, value: SharedString, put: Put) -> Result<(), Full> {
        if self.guard.fits_inline(value.bytes.len()) {
            return self.insert(kind, &value.bytes, put);
        }
        self.guard.count_heap(&value);
        self.insert_payload(kind, Payload::Heap(value), put)
    }

    fn insert_payload(mut self, kind: Kind, payload: Payload<'_>, put: Put) -> Result<(), Full> {
        if self.open != 0 && !self.blind {
            // Who wants to know what was there cannot write before that is known: the caller's answer is void anyway.
            if let Payload::Heap(value) = payload {
                release_heap_value(self.guard.store, self.guard.local, value);
            }
            return Err(Full);
        }
        let guard = &mut self.guard;
        let mut key_handle = 0;
        if guard.key.bytes.len() > INLINE_KEY_MAX {
            key_handle = HeapKey::into_handle(guard.key.bytes);
            add(&guard.store.thread(guard.local).heap_bytes, guard.key.bytes.len() as i64);
        }
        let written = guard.write(kind, payload, put, key_handle, 0);
        if written.is_err() && key_handle != 0 {
            add(&guard.store.thread(guard.local).heap_bytes, -(guard.key.bytes.len() as i64));
            // SAFETY: the key was boxed above and no record that holds it exists.
            unsafe { HeapKey::free(key_handle) };
        }
        let (address, record, header) = written?;
        let tag = guard.store.index.tag(guard.number, guard.key.hash);
        let entry = Entry::new(tag, address).with_heat(guard.local.heat.first(guard.store, guard.key.hash));
        if let Some(position) = self.tombstone {
            let old_address = position.entry().address();
            position.point_to(tag, address);
            discard_tombstone(guard.store, guard.local, old_address);
        } else if guard.store.index.insert(guard.number, entry).is_err() {
            drop_heap_value(guard.store, guard.local, record, header);
            drop_heap_key(guard.store, guard.local, record, header);
            retire(guard.store, guard.local, address, record, header);
            return Err(Full);
        }
        guard.count_live(1, i64::from(put.expiry_ms.is_some()));
        guard.announce(None, put.expiry_ms);
        if self.open != 0
            && let Some(tier) = &guard.store.tier
        {
            tier.overwritten_blindly(guard.key.namespace, guard.key.hash, self.open);
        }
        Ok(())
    }
}
