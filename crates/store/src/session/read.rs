//! Read: without a latch for values in the record, by a validated copy; under a shared latch for heap values and long ones.

use super::cold::ColdMatches;
use super::{Key, Session};
use crate::counters::add;
use crate::heap::{self, SharedString};
use crate::record::{Header, Kind, Record, WORD};
use std::marker::PhantomData;

/// Longest inline value that is copied optimistically; for longer ones the latch is cheaper than word-wise copying.
const OPTIMISTIC_VALUE_MAX: usize = 1024;
/// Failed validations after which a reader takes the latch, so that writers cannot starve it.
const RETRIES_MAX: u32 = 8;

/// A record as a reader sees it.
///
/// An optimistic view may show a mixture of two states; the reader's closure only copies from it, and is run again if that
/// happened. A latched view is exact.
pub struct View<'v> {
    record: Record,
    header: Header,
    latched: bool,
    session: PhantomData<&'v ()>,
}

impl View<'_> {
    pub(crate) fn latched(record: Record, header: Header) -> Self {
        Self { record, header, latched: true, session: PhantomData }
    }

    /// What the value is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.header.kind()
    }

    /// When the record expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expiry_ms(&self) -> Option<i64> {
        self.record.expiry(self.header)
    }

    /// Whether the value was built or changed in part rather than set as a whole.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.header.has(Header::EDITED)
    }

    /// The entity tag.
    #[must_use]
    pub fn etag(&self) -> Option<u64> {
        self.record.etag(self.header)
    }

    /// Length of the value in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.header.has(Header::HEAP_VALUE) { self.bytes().map_or(0, <[u8]>::len) } else { self.header.value_len() }
    }

    /// Whether the value is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the record takes, heap included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let heap = self.shared().map_or(0, |value| value.memory_bytes());
        self.header.units() * WORD + heap
    }

    /// The value in place; only of a latched view.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        if !self.latched {
            return None;
        }
        // SAFETY: the bucket latch is held for as long as this view exists, so nobody writes.
        Some(unsafe {
            if self.header.has(Header::HEAP_VALUE) {
                heap::bytes(self.record.value_handle(self.header))
            } else {
                self.record.value(self.header)
            }
        })
    }

    /// A reference to a heap value, to be read without any latch.
    #[must_use]
    pub fn shared(&self) -> Option<SharedString> {
        // SAFETY: the bucket latch is held for as long as this view exists.
        (self.latched && self.header.has(Header::HEAP_VALUE)).then(|| unsafe { heap::share(self.record.value_handle(self.header)) })
    }

    /// Whether the value lies on the heap. Then the view is latched.
    #[inline]
    #[must_use]
    pub fn is_heap(&self) -> bool {
        self.header.has(Header::HEAP_VALUE)
    }

    /// Appends the value to `target`.
    #[inline(always)]
    pub fn append_to(&self, target: &mut Vec<u8>) {
        if self.latched { self.append_latched(target) } else { self.append_optimistic(target) }
    }

    #[cold]
    fn append_latched(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(self.bytes().unwrap_or_default());
    }

    #[inline(always)]
    fn append_optimistic(&self, target: &mut Vec<u8>) {
        let len = self.header.value_len();
        debug_assert!(len <= self.header.value_capacity(), "INV-READ-1: a header is one word, so its lengths belong together");
        target.reserve(len + WORD);
        let start = target.len();
        // SAFETY: the reserve made room for the length rounded up to a word, and the copy initialises `len` bytes.
        unsafe {
            self.record.copy_value(self.header, target.as_mut_ptr().add(start));
            target.set_len(start + len);
        }
    }
}

impl Session {
    /// Reads a key. `visit` may run more than once; only its last result counts, so it must overwrite what it wrote before.
    #[inline]
    pub fn read<R>(&self, key: Key<'_>, mut visit: impl FnMut(&View<'_>) -> R) -> Option<R> {
        if self.holds_latches() { self.read_held(key, &mut visit) } else { self.read_free(key, &mut visit) }
    }

    /// Removes `key` if a read since the last call has met an expired record, so that counts follow what readers see. Under a
    /// lock plan it is left to the background.
    #[inline]
    pub fn remove_met_expired(&mut self, key: Key<'_>) {
        if self.local.met_expired.take() {
            self.remove_if_expired(key);
        }
    }

    /// Removes `key` if its record is past its time and no lock plan is held.
    pub(crate) fn remove_if_expired(&mut self, key: Key<'_>) {
        if !self.holds_latches() {
            // Looking the key up for a change removes it if it is due.
            drop(self.entry(key));
        }
    }

    #[inline]
    fn read_free<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        let store = &*self.store;
        let head = self.local.head;
        for _ in 0..RETRIES_MAX {
            let entered = store.index.begin_read(key.hash);
            let mut cold = ColdMatches::default();
            let found = store.index.find_optimistic(entered, |position, entry| {
                if entry.address() < head {
                    cold.note(store, &self.local, entry.address(), &key);
                    return None;
                }
                store.match_record(entry.address(), &key).map(|(record, header)| (position, entry, record, header))
            });
            match found {
                Ok(Some((position, entry, record, header))) => {
                    if header.has(Header::HEAP_VALUE) || header.value_len() > OPTIMISTIC_VALUE_MAX {
                        return self.read_latched(key, visit);
                    }
                    let expired = record.is_expired(header, self.local.now_ms);
                    if expired {
                        self.local.met_expired.set(true);
                    }
                    let view = View { record, header, latched: false, session: PhantomData };
                    let result = (!expired).then(|| visit(&view));
                    if store.index.bucket(entered.number).validate(entered.seen) {
                        if header.has(Header::CACHED) {
                            add(&store.thread(&self.local).cache_hits, 1);
                        }
                        self.local.heat.warm(store, position, entry);
                        return result;
                    }
                }
                Ok(None) if store.index.bucket(entered.number).validate(entered.seen) => {
                    return if cold.is_empty() { None } else { self.read_cold(entered.number, &cold, visit) };
                }
                Ok(None) | Err(()) => {}
            }
            add(&store.thread(&self.local).read_retries, 1);
        }
        self.read_latched(key, visit)
    }

    /// Reads the staged record of a key that has none in memory.
    #[cold]
    fn read_cold<R>(&self, number: u64, cold: &ColdMatches, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        let (address, record, header) = cold.settle(&self.local)?;
        let store = &*self.store;
        if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
            self.local.heat.warm(store, position, position.entry());
        }
        if record.is_expired(header, self.local.now_ms) {
            self.local.met_expired.set(!header.is_tombstone());
            return None;
        }
        // A staged record never changes, so it is as exact as one under a latch.
        Some(visit(&View::latched(record, header)))
    }

    #[cold]
    fn read_latched<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        let number = self.store.index.lock(key.hash, false);
        let result = self.visit_latched(number, key, visit);
        self.store.index.bucket(number).unlock_shared();
        result
    }

    fn read_held<R>(&self, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        match self.held_bucket(key.hash) {
            Some(number) => self.visit_latched(number, key, visit),
            None => {
                debug_assert!(false, "a command reads a key that its lock plan does not hold");
                self.read_free(key, visit)
            }
        }
    }

    fn visit_latched<R>(&self, number: u64, key: Key<'_>, visit: &mut impl FnMut(&View<'_>) -> R) -> Option<R> {
        let store = &*self.store;
        let head = self.local.head;
        let mut cold = ColdMatches::default();
        let found = store.index.find_latched(number, key.hash, |address| {
            if address < head {
                cold.note(store, &self.local, address, &key);
                return None;
            }
            store.match_record(address, &key)
        });
        let Some((position, (record, header))) = found else {
            return if cold.is_empty() { None } else { self.read_cold(number, &cold, visit) };
        };
        self.local.heat.warm(store, position, position.entry());
        if record.is_expired(header, self.local.now_ms) {
            self.local.met_expired.set(true);
            return None;
        }
        Some(visit(&View::latched(record, header)))
    }
}
