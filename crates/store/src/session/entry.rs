//! Entries: a key under its exclusive latch, present or absent, and everything that can be done with it.
//!
//! Upsert, modify and delete are uses of an entry. A change happens in place when the record is mutable and the new state
//! fits; else a new record is written and the index entry is pointed to it, in one store. The user of an entry does not know
//! which. Dropping an entry releases the latch, unless it belongs to a lock plan.

use super::allocate::{allocate, drop_heap_key, drop_heap_value, release_heap_value, retire, trim};
use super::cold::ColdMatches;
use super::remove::{discard, unlink};
use super::{Full, Key, Local, Session};
use crate::counters::add;
use crate::expiry::feed::Notice;
use crate::heap::{self, HeapKey, HeapString, SharedString};
use crate::index::Position;
use crate::index::entry::Entry;
use crate::record::{Header, INLINE_KEY_MAX, Kind, Record, Shape, UNITS_MAX, WORD, fits_inline};
use crate::store::Inner;
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
    owned: bool,
    key: Key<'s>,
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.owned {
            self.store.index.bucket(self.number).unlock_exclusive();
        }
    }
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
        let (number, owned) = match held {
            Some(number) => (number, false),
            None => (store.index.lock(key.hash, true), true),
        };
        let guard = Guard { store, local, number, owned, key };
        let head = guard.local.head;
        let mut cold = ColdMatches::default();
        let found = store.index.find_latched(number, key.hash, |address| {
            if address < head {
                cold.note(store, guard.local, address, &key);
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
    /// until the steward has compared the records ([`crate::TierStatistics::unresolved`]). A caller that can wait for reads does
    /// better to probe the key before, while [`Session::looks_first`].
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

pub(super) fn count_live(store: &Inner, local: &Local, namespace: u16, live: i64, volatile: i64) {
    let counters = store.thread(local);
    let [records, with_expiry] = store.counters.namespace(local.thread, namespace);
    if live != 0 {
        add(&counters.live, live);
        add(records, live);
    }
    if volatile != 0 {
        add(&counters.volatile, volatile);
        add(with_expiry, volatile);
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
            .settle(self.local)
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
            && self.store.expiry_feed.push(self.local.thread, Notice { hash: self.key.hash, at_ms })
        {
            self.store.waker.wake();
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
        let value = HeapString(value);
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
        if self.guard.fits_inline(value.0.len()) {
            return self.insert(kind, &value.0, put);
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
            super::remove::discard_tombstone(guard.store, guard.local, old_address);
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

impl<'s> Occupied<'s> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> Key<'s> {
        self.guard.key
    }

    /// What the value is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.header.kind()
    }

    /// When it expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expiry_ms(&self) -> Option<i64> {
        self.record.expiry(self.header)
    }

    /// Its entity tag.
    #[must_use]
    pub fn etag(&self) -> Option<u64> {
        self.record.etag(self.header)
    }

    /// Bytes of memory that the record takes, heap included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        super::View::latched(self.record, self.header).memory_bytes()
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        // SAFETY: the exclusive latch is ours, and changes need `&mut self`.
        unsafe {
            if self.header.has(Header::HEAP_VALUE) {
                heap::bytes(self.record.value_handle(self.header))
            } else {
                self.record.value(self.header)
            }
        }
    }

    /// A reference to a heap value.
    #[must_use]
    pub fn shared(&self) -> Option<SharedString> {
        super::View::latched(self.record, self.header).shared()
    }

    /// Everything that goes with the value.
    #[must_use]
    pub fn put(&self) -> Put {
        Put { expiry_ms: self.expiry_ms(), etag: self.etag(), edited: self.header.has(Header::EDITED) }
    }

    fn address(&self) -> u64 {
        self.position.entry().address()
    }

    fn is_mutable(&self) -> bool {
        self.guard.store.log.is_mutable(self.address()) && !self.header.has(Header::CACHED)
    }

    /// Replaces value, kind, expiry and entity tag.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    #[inline]
    pub fn replace(&mut self, kind: Kind, value: &[u8], put: Put) -> Result<(), Full> {
        if self.replace_in_place(kind, value, put) {
            return Ok(());
        }
        let payload = self.guard.payload(value);
        self.replace_payload(kind, payload, put, 0)
    }

    #[inline]
    fn replace_in_place(&mut self, kind: Kind, value: &[u8], put: Put) -> bool {
        let header = self.header;
        let fits = self.guard.fits_inline(value.len());
        if header.has(Header::HEAP_VALUE) || !fits || kind != header.kind() || !self.is_mutable() {
            return false;
        }
        let (expiry, etag) = (put.expiry_ms.is_some(), put.etag.is_some());
        let words = header.value_word() + value.len().div_ceil(WORD) + usize::from(expiry) + usize::from(etag);
        if words > header.units() {
            return false;
        }
        let before = self.expiry_ms();
        let changed = header
            .with_value_len(value.len())
            .with_flags(Header::EXPIRY, expiry)
            .with_flags(Header::ETAG, etag)
            .with_flags(Header::EDITED, put.edited);
        self.record.write_value(changed, 0, value);
        if changed.optional_words() != 0 {
            self.record.write_optional(changed, put.expiry_ms, put.etag);
        }
        if changed != header {
            self.record.set_header(changed);
        }
        self.header = trim(self.guard.store, self.guard.local, self.address(), self.record, changed, words.max(2));
        add(&self.guard.store.thread(self.guard.local).updates_in_place, 1);
        self.note_expiry(before, put.expiry_ms);
        true
    }

    fn note_expiry(&mut self, before: Option<i64>, after: Option<i64>) {
        if before != after {
            self.guard.count_live(0, i64::from(after.is_some()) - i64::from(before.is_some()));
            self.guard.announce(before, after);
        }
    }

    /// Writes a new record and points the entry to it.
    fn replace_payload(&mut self, kind: Kind, payload: Payload<'_>, put: Put, slack: usize) -> Result<(), Full> {
        let before = self.expiry_ms();
        let (old_address, old_record, old_header) = (self.address(), self.record, self.header);
        let staged = old_address < self.guard.local.head;
        let key_handle = match (old_header.has(Header::HEAP_KEY), staged) {
            (false, _) => 0,
            (true, false) => old_record.key_handle(),
            (true, true) => {
                add(&self.guard.store.thread(self.guard.local).heap_bytes, self.guard.key.bytes.len() as i64);
                HeapKey::into_handle(self.guard.key.bytes)
            }
        };
        let written = self.guard.write(kind, payload, put, key_handle, slack);
        if written.is_err() && staged && key_handle != 0 {
            add(&self.guard.store.thread(self.guard.local).heap_bytes, -(self.guard.key.bytes.len() as i64));
            // SAFETY: the key was boxed above and no record that holds it exists.
            unsafe { HeapKey::free(key_handle) };
        }
        let (address, record, header) = written?;
        let tag = self.guard.store.index.tag(self.guard.number, self.guard.key.hash);
        self.position.point_to(tag, address);
        (self.record, self.header) = (record, header);
        discard(self.guard.store, self.guard.local, old_address, old_record, old_header, true);
        add(&self.guard.store.thread(self.guard.local).updates_copied, 1);
        self.note_expiry(before, put.expiry_ms);
        Ok(())
    }

    /// Replaces the value by a heap value without copying it.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn replace_shared(&mut self, kind: Kind, value: SharedString, put: Put) -> Result<(), Full> {
        if self.guard.fits_inline(value.0.len()) {
            return self.replace(kind, &value.0, put);
        }
        self.guard.count_heap(&value);
        self.replace_payload(kind, Payload::Heap(value), put, 0)
    }

    /// Sets or removes the expiry.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set_expiry(&mut self, expiry_ms: Option<i64>) -> Result<(), Full> {
        self.set_optional(Put { expiry_ms, ..self.put() })
    }

    /// Sets or removes the entity tag.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set_etag(&mut self, etag: Option<u64>) -> Result<(), Full> {
        self.set_optional(Put { etag, ..self.put() })
    }

    fn set_optional(&mut self, put: Put) -> Result<(), Full> {
        let before = self.expiry_ms();
        if self.is_mutable()
            && let Some(header) = self.record.try_set_optional(self.header, put.expiry_ms, put.etag)
        {
            self.header = header;
            self.note_expiry(before, put.expiry_ms);
            return Ok(());
        }
        let kind = self.kind();
        if self.header.has(Header::HEAP_VALUE) {
            let value = self.take_heap_value();
            return self.replace_payload(kind, Payload::Heap(value), put, 0);
        }
        let value = self.value().to_vec();
        self.replace_payload(kind, Payload::Inline(&value), put, 0)
    }

    /// Moves the heap value out of the old record into the caller's hands: a second reference, while the old one is dropped
    /// together with its record. The heap count stays balanced because dropping subtracts what is added here.
    fn take_heap_value(&mut self) -> SharedString {
        // SAFETY: the exclusive latch is ours and the record holds its reference.
        let value = unsafe { heap::share(self.record.value_handle(self.header)) };
        self.guard.count_heap(&value);
        value
    }

    /// Overwrites bytes from `offset` on; a gap behind the present end is filled with zeroes.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Full> {
        let len = self.value().len();
        let new_len = len.max(offset + bytes.len());
        if self.header.has(Header::HEAP_VALUE) && self.is_mutable() {
            self.change_heap(|value| {
                if new_len > value.capacity() {
                    // A quarter more here too: a vector left alone would double.
                    value.reserve_exact(new_len + new_len / 4 - value.len());
                }
                value.resize(new_len, 0);
                value[offset..offset + bytes.len()].copy_from_slice(bytes);
            });
            return Ok(());
        }
        if self.is_mutable() && new_len <= self.header.value_capacity() && self.guard.fits_inline(new_len) {
            if offset > len {
                self.record.zero_value(self.header, len, offset - len);
            }
            self.record.write_value(self.header, offset, bytes);
            self.header = self.record.set_value_len(self.header.with_flags(Header::EDITED, true), new_len);
            add(&self.guard.store.thread(self.guard.local).updates_in_place, 1);
            return Ok(());
        }
        // Growing values get a quarter more, so that appending byte by byte does not copy each time.
        let grows = new_len > len;
        let mut value = Vec::with_capacity(new_len + if grows { new_len / 4 } else { 0 });
        value.extend_from_slice(self.value());
        value.resize(new_len, 0);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        let (kind, put) = (self.kind(), Put { edited: true, ..self.put() });
        if !self.guard.fits_inline(new_len) {
            let payload = self.guard.heap_payload(value);
            return self.replace_payload(kind, payload, put, 0);
        }
        self.replace_payload(kind, Payload::Inline(&value), put, if grows { new_len / 4 } else { 0 })
    }

    /// Marks the value as edited without a change. A heap value is long, which tells as much.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn mark_edited(&mut self) -> Result<(), Full> {
        if self.header.has(Header::HEAP_VALUE) || self.header.has(Header::EDITED) { Ok(()) } else { self.append(&[]) }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.write_at(self.value().len(), bytes)
    }

    /// Changes a heap value in place if no reader holds it, else a copy.
    fn change_heap(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let handle = self.record.value_handle(self.header);
        // SAFETY: the exclusive latch is ours; the record's reference is taken out and a reference is put back below.
        let mut value = unsafe { heap::from_handle(handle) };
        let before = value.memory_bytes() as i64;
        if Arc::get_mut(&mut value).is_none() {
            let copy = HeapString(value.0.clone());
            value = Arc::new(copy);
        }
        if let Some(unique) = Arc::get_mut(&mut value) {
            change(&mut unique.0);
        }
        let after = value.memory_bytes() as i64;
        self.guard.local.allocated_words += (after - before).max(0) as usize / WORD;
        self.record.set_value_handle(self.header, heap::into_handle(value));
        add(&self.guard.store.thread(self.guard.local).heap_bytes, after - before);
    }

    /// Removes the key, giving its place back as vacant.
    fn unlink(self) -> Vacant<'s> {
        let Self { guard, position, record, header } = self;
        let tombstone = unlink(guard.store, guard.local, guard.number, position, record, header);
        Vacant { guard, tombstone, open: 0, blind: false }
    }

    /// Removes the key.
    #[inline]
    pub fn remove(self) {
        self.unlink();
    }
}
