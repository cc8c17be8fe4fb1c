//! What can be done with a key that has a record: its state, replacing it, changing it in place, removing it.

use super::{Occupied, Payload, Put, Told, Vacant, Written, zeroes};
use crate::counters::add;
use crate::full::Full;
use crate::record::heap::{self, HeapValue, SharedValue};
use crate::record::key::Key;
use crate::record::{Header, INLINE_KEY_MAX, Kind, WORD};
use crate::session::allocate::{drop_heap_value, retire, trim};
use crate::session::notes::Act;
use crate::session::remove::{discard, unlink};
use crate::session::view::View;

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

    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        debug_assert!(!self.header.has(Header::DEAD), "INV-LOG-1: an entry leads to a live record");
        // SAFETY: the exclusive latch is ours, and changes need `&mut self`.
        unsafe {
            if self.header.has(Header::HEAP_VALUE) {
                heap::value(self.record.value_handle(self.header)).as_ref()
            } else {
                self.record.value(self.header)
            }
        }
    }

    /// A reference to a heap value.
    #[must_use]
    pub fn shared(&self) -> Option<SharedValue> {
        View::latched(self.record, self.header).shared()
    }

    /// Everything that goes with the value.
    #[must_use]
    pub fn put(&self) -> Put {
        Put { expiry_ms: self.expiry_ms(), etag: self.etag(), edited: self.header.has(Header::EDITED) }
    }

    pub(super) fn address(&self) -> u64 {
        self.position.entry().address()
    }

    pub(super) fn is_mutable(&self) -> bool {
        debug_assert_ne!(self.address(), 0, "INV-LOG-1: no record is at address 0");
        self.guard.store.log.is_mutable(self.address()) && !self.header.has(Header::CACHED)
    }

    /// Whether a heap value may change where it is. Without a device that does not depend on where its record is: a record that
    /// moved may have got a place that others left, below the boundary.
    pub(super) fn is_heap_mutable(&self) -> bool {
        self.guard.store.tier.is_none() || self.is_mutable()
    }

    /// Replaces value, kind, expiry and entity tag. What is done to a string behind that, under the same latch of its own, is
    /// another unit of work.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    #[inline]
    pub fn replace(&mut self, kind: Kind, value: &[u8], put: Put) -> Result<(), Full> {
        if kind != Kind::String {
            return self.elements_mut().replace(kind, value, put, Told::Whole);
        }
        self.replace_bytes(kind, value, put)?;
        self.guard.say_last_change(Act::Replace(self.record, self.header, value));
        Ok(())
    }

    /// Makes bytes the value, in place if they fit. The change is still to be told.
    #[inline]
    pub(super) fn replace_bytes(&mut self, kind: Kind, value: &[u8], put: Put) -> Result<(), Full> {
        if let Some(words) = self.words_in_place(kind, value.len(), put) {
            self.write_in_place(value, put, words);
            return Ok(());
        }
        let payload = self.guard.payload(value);
        self.move_to_new(kind, payload, put, 0)
    }

    /// How many words the record has with another value in it. None when it cannot be changed so in place.
    #[inline]
    pub(super) fn words_in_place(&self, kind: Kind, value_len: usize, put: Put) -> Option<usize> {
        let header = self.header;
        let fits = self.guard.fits_inline(value_len);
        if header.has(Header::HEAP_VALUE) || !fits || kind != header.kind() || !self.is_mutable() {
            return None;
        }
        let (expiry, etag) = (put.expiry_ms.is_some(), put.etag.is_some());
        let words = header.value_word() + value_len.div_ceil(WORD) + usize::from(expiry) + usize::from(etag);
        (words <= header.units()).then_some(words)
    }

    /// Writes another value into a record that has been found to hold it ([`Occupied::words_in_place`]) in this epoch. The change
    /// is still to be told.
    #[inline]
    pub(super) fn write_in_place(&mut self, value: &[u8], put: Put, words: usize) {
        let header = self.header;
        debug_assert!(words <= header.units(), "INV-LOG-2: a value stays within its record");
        let before = self.expiry_ms();
        let changed = header
            .with_value_len(value.len())
            .with_flags(Header::EXPIRY, put.expiry_ms.is_some())
            .with_flags(Header::ETAG, put.etag.is_some())
            .with_flags(Header::EDITED, put.edited);
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: only a live record is updated");
        debug_assert!(
            changed.optional_words() + header.value_word() <= header.units(),
            "INV-LOG-2: a value stays within its record"
        );
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
    }

    fn note_expiry(&mut self, before: Option<i64>, after: Option<i64>) {
        debug_assert_eq!(
            self.header.has(Header::EXPIRY),
            after.is_some(),
            "INV-EXP-1: the record has the expiry that is announced"
        );
        if before != after {
            self.guard.count_live(0, i64::from(after.is_some()) - i64::from(before.is_some()));
            self.guard.announce(before, after);
        }
    }

    /// Writes a new record and points the entry to it.
    pub(super) fn move_to_new(&mut self, kind: Kind, payload: Payload<'_>, put: Put, slack: usize) -> Result<(), Full> {
        let written = self.prepare(kind, payload, put, slack)?;
        self.enter(written);
        Ok(())
    }

    /// Writes a new record, which takes the old one's place when it is entered. A key on the heap goes from one to the other.
    pub(super) fn prepare(&mut self, kind: Kind, payload: Payload<'_>, put: Put, slack: usize) -> Result<Written, Full> {
        if self.is_staged() {
            return self.guard.prepare(kind, payload, put, slack);
        }
        debug_assert_eq!(
            self.header.has(Header::HEAP_KEY),
            self.guard.key.bytes.len() > INLINE_KEY_MAX,
            "INV-LOG-2: a key that does not fit its record has a handle there"
        );
        let key_handle = if self.header.has(Header::HEAP_KEY) { self.record.key_handle() } else { 0 };
        self.guard.write(kind, payload, put, key_handle, slack)
    }

    /// Gives a prepared record up.
    pub(super) fn forget(&mut self, written: Written) {
        if self.is_staged() {
            return self.guard.forget(written);
        }
        debug_assert_ne!(self.address(), written.address, "INV-LOG-1: no entry leads to a record that dies");
        let Written { address, record, header } = written;
        drop_heap_value(self.guard.store, self.guard.local, record, header);
        retire(self.guard.store, self.guard.local, address, record, header);
    }

    /// Points the entry to a prepared record.
    pub(super) fn enter(&mut self, written: Written) {
        let Written { address, record, header } = written;
        let (before, after) = (self.expiry_ms(), record.expiry(header));
        let (old_address, old_record, old_header) = (self.address(), self.record, self.header);
        debug_assert_ne!(address, old_address, "INV-LOG-1: the copy is another record");
        let tag = self.guard.store.index.tag(self.guard.number, self.guard.key.hash);
        self.position.point_to(tag, address);
        debug_assert_eq!(self.address(), address, "INV-LOG-1: reachable before the original dies");
        (self.record, self.header) = (record, header);
        discard(self.guard.store, self.guard.local, old_address, old_record, old_header, true);
        add(&self.guard.store.thread(self.guard.local).updates_copied, 1);
        self.note_expiry(before, after);
    }

    /// Whether the record lies on the device and has been read for this batch.
    pub(super) fn is_staged(&self) -> bool {
        self.address() < self.guard.local.head
    }

    /// Replaces the value by a heap value without copying it.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn replace_shared(&mut self, kind: Kind, value: SharedValue, put: Put) -> Result<(), Full> {
        if kind == Kind::String && self.guard.fits_inline(value.as_ref().as_ref().len()) {
            return self.replace(kind, value.as_ref().as_ref(), put);
        }
        self.elements_mut().replace_shared(kind, value, put, Told::Whole)
    }

    /// Sets or removes the expiry.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set_expiry(&mut self, expiry_ms: Option<i64>) -> Result<(), Full> {
        self.set_put(Put { expiry_ms, ..self.put() })
    }

    /// Sets or removes expiry and entity tag.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn set_put(&mut self, put: Put) -> Result<(), Full> {
        let before = self.expiry_ms();
        if self.is_mutable()
            && let Some(header) = self.record.try_set_optional(self.header, put.expiry_ms, put.etag)
        {
            self.header = header;
            self.note_expiry(before, put.expiry_ms);
        } else if self.header.has(Header::HEAP_VALUE) {
            let value = self.take_heap_value();
            self.move_to_new(self.kind(), Payload::Heap(value), put, 0)?;
        } else {
            let value = self.value().to_vec();
            self.move_to_new(self.kind(), Payload::Inline(&value), put, 0)?;
        }
        debug_assert_eq!(
            (self.expiry_ms(), self.etag()),
            (put.expiry_ms, put.etag),
            "INV-EFFECT-1: the record has what its effect says"
        );
        self.guard.say_changed(Act::Put(self.record, self.header));
        Ok(())
    }

    /// Moves the heap value out of the old record into the caller's hands: a second reference, while the old one is dropped
    /// together with its record. The heap count stays balanced because dropping subtracts what is added here.
    pub(super) fn take_heap_value(&mut self) -> SharedValue {
        debug_assert!(self.header.has(Header::HEAP_VALUE), "only a large value has a handle");
        // SAFETY: the exclusive latch is ours and the record holds its reference.
        let value = unsafe { heap::share(self.record.value_handle(self.header)) };
        self.guard.count_heap(&value);
        value
    }

    /// Overwrites bytes from `offset` on; a gap behind the present end is filled with zeroes.
    ///
    /// # Errors
    /// When the store is full, or the budget has no room for what is added; then nothing has changed.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Full> {
        let len = self.value().len().max(offset + bytes.len());
        self.write_parts(len, offset, std::iter::once((offset, bytes)))
    }

    /// Overwrites several parts, each from its offset on, all or none; before that the value grows to `new_len`, which no part
    /// passes. What lies between the present end and `zero_to` is filled with zeroes, what lies behind is in the parts.
    ///
    /// # Errors
    /// As for [`Occupied::write_at`].
    pub fn write_parts<'p>(
        &mut self,
        new_len: usize,
        zero_to: usize,
        parts: impl Iterator<Item = (usize, &'p [u8])>,
    ) -> Result<(), Full> {
        // What is written from the first part to the last one, or to the end that is new.
        let (mut first, mut end) = (new_len, if new_len > self.value().len() { new_len } else { 0 });
        let noted = parts.inspect(|(offset, bytes)| {
            first = first.min(*offset);
            end = end.max(offset + bytes.len());
        });
        self.write_bytes(new_len, zero_to, noted)?;
        self.guard.say_changed(Act::Write(self.record, self.header, first, end.saturating_sub(first)));
        Ok(())
    }

    fn write_bytes<'p>(
        &mut self,
        new_len: usize,
        zero_to: usize,
        parts: impl Iterator<Item = (usize, &'p [u8])>,
    ) -> Result<(), Full> {
        let len = self.value().len();
        debug_assert!(new_len >= len, "a write never shortens a value");
        self.guard.require_room(new_len - len)?;
        if self.header.has(Header::HEAP_VALUE) && self.is_heap_mutable() {
            self.change_heap(|value| {
                if new_len > value.capacity() && zero_to > 2 * len {
                    // The gap is longer than what is there: fresh zeroes and a copy of the old are less work than filling it.
                    let old = std::mem::replace(value, zeroes(new_len, new_len + new_len / 4));
                    value[..len].copy_from_slice(&old);
                } else if new_len > value.capacity() {
                    // A quarter more here too: a vector left alone would double.
                    value.reserve_exact(new_len + new_len / 4 - value.len());
                }
                value.resize(new_len, 0);
                parts.for_each(|(offset, bytes)| value[offset..offset + bytes.len()].copy_from_slice(bytes));
            });
            return Ok(());
        }
        if self.is_mutable() && new_len <= self.header.value_capacity() && self.guard.fits_inline(new_len) {
            if zero_to > len {
                self.record.zero_value(self.header, len, zero_to - len);
            }
            parts.for_each(|(offset, bytes)| self.record.write_value(self.header, offset, bytes));
            self.header = self.record.set_value_len(self.header.with_flags(Header::EDITED, true), new_len);
            add(&self.guard.store.thread(self.guard.local).updates_in_place, 1);
            return Ok(());
        }
        // Growing values get a quarter more, so that appending byte by byte does not copy each time.
        let grows = new_len > len;
        let mut value = zeroes(new_len, new_len + if grows { new_len / 4 } else { 0 });
        value[..len].copy_from_slice(self.value());
        parts.for_each(|(offset, bytes)| value[offset..offset + bytes.len()].copy_from_slice(bytes));
        let (kind, put) = (self.kind(), Put { edited: true, ..self.put() });
        if !self.guard.fits_inline(new_len) {
            let payload = self.guard.heap_payload(value);
            return self.move_to_new(kind, payload, put, 0);
        }
        self.move_to_new(kind, Payload::Inline(&value), put, if grows { new_len / 4 } else { 0 })
    }

    /// Overwrites bytes of the value that follow from the rest of it, as a cached result does: no consumer is told of that.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn write_derived(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Full> {
        let range = offset..offset + bytes.len();
        debug_assert!(range.end <= self.value().len(), "what follows from a value makes it no longer");
        let heap = self.header.has(Header::HEAP_VALUE);
        if heap && self.is_heap_mutable() {
            self.change_heap(|value| value[range].copy_from_slice(bytes));
            return Ok(());
        }
        if !heap && self.is_mutable() {
            self.record.write_value(self.header, offset, bytes);
            return self.mark_edited();
        }
        let mut value = self.value().to_vec();
        value[range].copy_from_slice(bytes);
        let (kind, put) = (self.kind(), Put { edited: true, ..self.put() });
        if !heap {
            return self.move_to_new(kind, Payload::Inline(&value), put, 0);
        }
        let payload = self.guard.heap_payload(value);
        self.move_to_new(kind, payload, put, 0)
    }

    /// Marks the value as edited without a change, of which no consumer is told. A heap value is long, which tells as much.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn mark_edited(&mut self) -> Result<(), Full> {
        if self.header.has(Header::HEAP_VALUE) || self.header.has(Header::EDITED) {
            return Ok(());
        }
        if !self.is_mutable() {
            let (kind, value) = (self.kind(), self.value().to_vec());
            return self.move_to_new(kind, Payload::Inline(&value), Put { edited: true, ..self.put() }, 0);
        }
        self.header = self.header.with_flags(Header::EDITED, true);
        self.record.set_header(self.header);
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.write_at(self.value().len(), bytes)
    }

    /// Changes the bytes of a heap value in place if no reader holds it, else a copy.
    fn change_heap(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.change_heap_value(|value| value.as_bytes_mut().map(change));
    }

    /// Changes a heap value in place if it has no other holder, else a copy or a snapshot of it. Its record was found mutable
    /// in this epoch; that its page may have been closed since is why the flusher waits for epochs.
    pub(super) fn change_heap_value<R>(&mut self, change: impl FnOnce(&mut HeapValue) -> R) -> R {
        let before = self.record.value_handle(self.header);
        let mut handle = before;
        // SAFETY: the exclusive latch is ours, and the record gets the handle back below.
        let (bytes, value) = unsafe {
            let bytes = heap::value(before).memory_bytes() as i64;
            (bytes, heap::unique(&mut handle, self.guard.store.background.garbage.outliving()))
        };
        if handle != before {
            self.record.set_value_handle(self.header, handle);
        }
        let result = change(value);
        let grown = value.memory_bytes() as i64 - bytes;
        self.guard.local.allocated.words += grown.max(0) as usize / WORD;
        if grown != 0 {
            add(&self.guard.store.thread(self.guard.local).heap_bytes, grown);
        }
        result
    }

    /// Removes the key, giving its place back as vacant.
    pub(super) fn unlink(self) -> Vacant<'s> {
        let Self { guard, position, record, header } = self;
        unlink(guard.store, guard.local, guard.number, position, record, header);
        Vacant { guard, was_lost: false }
    }

    /// Removes the key.
    #[inline]
    pub fn remove(self) {
        self.unlink().guard.say_changed(Act::Remove);
    }
}
