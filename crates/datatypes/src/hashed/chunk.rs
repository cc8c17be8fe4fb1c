//! A chunk: up to 64 elements in one allocation. `layout` says where they lie in it.

use almandine_base::steps;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::packed::entry::{EntryShape, FieldEntry};
use crate::packed::{Due, ELEMENTS_MAX};
use crate::tree::{NEVER, zeroes};

use super::layout::{Header, capacity, least, lines, remove_slot, resize, set_slot, start, tag_of, tagged};
use super::place::tag;

/// Bytes of a chunk's allocation at most, unless it has one field only.
pub(super) const CHUNK_MAX_BYTES: usize = 8 * 1024;

/// A chunk of elements.
#[derive(Clone, Debug)]
pub(super) struct Chunk<S> {
    pub(super) bytes: Arc<[u8]>,
    pub(super) shape: PhantomData<S>,
}

/// Where a field lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) size: usize,
    pub(super) due: u64,
    pub(super) tag: u8,
}

/// A field that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    index: usize,
    start: usize,
    size: usize,
    pub(super) entry: FieldEntry<'a>,
}

/// Where a field that was found lies.
#[derive(Clone, Copy)]
struct Spot {
    index: usize,
    start: usize,
    size: usize,
    /// Of the value.
    len: usize,
}

impl Found<'_> {
    /// What stays true of it when the chunk is to be changed, and its expiry.
    #[inline]
    fn apart(self) -> (Option<Spot>, Option<u64>) {
        let Self { index, start, size, entry } = self;
        (Some(Spot { index, start, size, len: entry.value.len() }), entry.due)
    }
}

impl<S: EntryShape> Chunk<S> {
    /// How many fields there are.
    pub(super) fn len(&self) -> usize {
        Header::read(&self.bytes).count
    }

    /// The bytes of all entries.
    pub(super) fn entries(&self) -> &[u8] {
        &self.bytes[..Header::read(&self.bytes).used]
    }

    /// A field by name and hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, field: &[u8]) -> Option<Found<'_>> {
        let (bytes, tag) = (&*self.bytes, tag(hash));
        let header = Header::read(bytes);
        // A chunk with more fields than one word has bits is looked through in words.
        for first in (0..header.count).step_by(ELEMENTS_MAX) {
            let mut found = tagged(bytes, header, first, tag);
            while found != 0 {
                let index = first + found.trailing_zeros() as usize;
                found &= found - 1;
                let start = start::<S>(bytes, header, index);
                let (entry, size) = S::parse(&bytes[..header.used], start)?;
                if entry.field == field {
                    return Some(Found { index, start, size, entry });
                }
            }
        }
        None
    }

    /// Tells the cache lines that a look-up reads: at first those that say where the entry is, then the entry's.
    pub(super) fn prefetch(&self, is_entry: bool, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        let bytes = &*self.bytes;
        if !is_entry {
            return lines(bytes).for_each(fetch);
        }
        let header = Header::read(bytes);
        let found = tagged(bytes, header, 0, tag(hash));
        if found != 0 {
            let at = start::<S>(bytes, header, found.trailing_zeros() as usize);
            fetch(bytes[at..].as_ptr());
        }
    }

    /// The entry of this place in the chunk.
    pub(super) fn nth(&self, index: usize) -> Option<FieldEntry<'_>> {
        let header = Header::read(&self.bytes);
        if index >= header.count {
            return None;
        }
        S::parse(self.entries(), start::<S>(&self.bytes, header, index)).map(|(entry, _)| entry)
    }

    /// Sets a field. Says whether it is new.
    pub(super) fn set(&mut self, hash: u64, field: &[u8], value: &[u8], due: Due) -> bool {
        let (found, before) = self.find(hash, field).map_or((None, None), Found::apart);
        self.put(hash, (field, value), due, (found, before))
    }

    /// Sets a field to what `make` makes of the entry that it has. Returns that, and whether the field is new.
    ///
    /// # Errors
    /// Those of `make`; then nothing has changed.
    pub(super) fn edit<V: AsRef<[u8]>, E>(
        &mut self,
        (hash, field): (u64, &[u8]),
        due: Due,
        make: impl FnOnce(Option<FieldEntry<'_>>) -> Result<V, E>,
    ) -> Result<(bool, V), E> {
        let found = self.find(hash, field);
        let value = make(found.map(|found| found.entry))?;
        let found = found.map_or((None, None), Found::apart);
        Ok((self.put(hash, (field, value.as_ref()), due, found), value))
    }

    /// Sets a field that lies at a spot, or is new, and has this expiry. Says whether it is new.
    #[inline]
    fn put(&mut self, hash: u64, (field, value): (&[u8], &[u8]), due: Due, (found, before): (Option<Spot>, Option<u64>)) -> bool {
        let header = Header::read(&self.bytes);
        let after = due.resolve(before);
        let (index, start, old_size) = match found {
            Some(Spot { start, size, len, .. }) if before == after && len == value.len() => {
                let at = start + size - len;
                Arc::make_mut(&mut self.bytes)[at..at + len].copy_from_slice(value);
                return false;
            }
            Some(Spot { index, start, size, .. }) => (index, start, size),
            None => (header.count, header.used, 0),
        };
        let head = S::head(field.len(), value.len(), after);
        let size = head.bytes().len() + field.len() + value.len();
        let count = header.count + usize::from(found.is_none());
        let bytes = self.writable(header.used - old_size + size, count);
        let header = resize::<S>(bytes, index, start, (old_size, size));
        let mut at = start;
        for piece in [head.bytes(), field, value] {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        if found.is_none() {
            set_slot(bytes, index, tag(hash), start);
        }
        Header { count, ..header }.write(bytes);
        self.note_due(before, after);
        if size < old_size {
            self.tighten();
        }
        found.is_none()
    }

    /// Gives a field another expiry. Says whether there is such a field.
    pub(super) fn set_due(&mut self, hash: u64, field: &[u8], after: Option<u64>) -> bool {
        let Some(Found { index, start, size, entry }) = self.find(hash, field) else { return false };
        let before = entry.due;
        let (old, head) = (
            S::head(entry.field.len(), entry.value.len(), entry.due).bytes().len(),
            S::head(entry.field.len(), entry.value.len(), after),
        );
        let new_size = size - old + head.bytes().len();
        let header = Header::read(&self.bytes);
        let bytes = self.writable(header.used - size + new_size, header.count);
        // The head is replaced by another, what follows it stays behind it.
        let header = resize::<S>(bytes, index, start, (old, head.bytes().len()));
        header.write(bytes);
        bytes[start..start + head.bytes().len()].copy_from_slice(head.bytes());
        self.note_due(before, after);
        true
    }

    /// Removes a field. Says whether there was one.
    pub(super) fn remove(&mut self, hash: u64, field: &[u8]) -> bool {
        let Some(Found { index, start, size, entry }) = self.find(hash, field) else { return false };
        let before = entry.due;
        let header = Header::read(&self.bytes);
        let bytes = self.writable(header.used, header.count);
        let header = resize::<S>(bytes, index, start, (size, 0));
        remove_slot(bytes, header, index);
        Header { count: header.count - 1, ..header }.write(bytes);
        self.note_due(before, None);
        self.tighten();
        true
    }

    /// Removes at most `limit` fields that are due at `now`, tells each of them, and says how many they were.
    pub(super) fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> usize {
        let (mut kept, mut count) = (self.places(), 0);
        kept.retain(|place| {
            let goes = place.due <= now && count < limit;
            if goes {
                count += 1;
                S::parse(&self.bytes, place.at).into_iter().for_each(|(entry, _)| removed(entry.field));
            }
            !goes
        });
        *self = Self::gather(self.entries(), kept.iter());
        count
    }

    /// Where each field lies.
    pub(super) fn places(&self) -> Vec<Place> {
        let entries = self.entries();
        let mut at = 0;
        let next = |index| {
            let (entry, size) = S::parse(entries, at)?;
            let place = Place { at, size, due: entry.due.unwrap_or(NEVER), tag: tag_of(&self.bytes, index) };
            at += size;
            Some(place)
        };
        (0..self.len()).map_while(next).collect()
    }

    /// A chunk of some of the fields of these entries, in their order.
    pub(super) fn gather<'p>(entries: &[u8], places: impl Iterator<Item = &'p Place> + Clone) -> Self {
        let mut header = Header { used: 0, count: 0, due: NEVER };
        for place in places.clone() {
            header = Header { used: header.used + place.size, count: header.count + 1, due: header.due.min(place.due) };
        }
        let mut chunk = Self { bytes: zeroes(capacity(header.used, header.count)), shape: PhantomData };
        let bytes = Arc::make_mut(&mut chunk.bytes);
        header.write(bytes);
        let mut at = 0;
        for (index, place) in places.enumerate() {
            bytes[at..at + place.size].copy_from_slice(&entries[place.at..place.at + place.size]);
            set_slot(bytes, index, place.tag, at);
            at += place.size;
        }
        chunk
    }

    /// The entries in their order.
    pub(super) fn iter(&self) -> Entries<'_, S> {
        Entries { entries: self.entries(), at: 0, shape: PhantomData }
    }

    /// The chunk's own bytes, with room for `used` bytes of entries and `count` fields.
    pub(super) fn writable(&mut self, used: usize, count: usize) -> &mut [u8] {
        if least(used, count) > self.bytes.len() {
            self.resize_to(used, count);
        }
        Arc::make_mut(&mut self.bytes)
    }

    /// Copies the chunk into an allocation that is right for `used` bytes of entries and `count` fields.
    fn resize_to(&mut self, used: usize, count: usize) {
        let header = Header::read(&self.bytes);
        let mut all = zeroes(capacity(used, count));
        let bytes = Arc::make_mut(&mut all);
        bytes[..header.used].copy_from_slice(&self.bytes[..header.used]);
        let index = least(0, header.count);
        let end = bytes.len();
        bytes[end - index..].copy_from_slice(&self.bytes[self.bytes.len() - index..]);
        self.bytes = all;
    }

    /// Moves the chunk to a smaller allocation, if it has become more than a size class too large.
    fn tighten(&mut self) {
        let header = Header::read(&self.bytes);
        let ample = capacity(header.used + header.used / 8, header.count + 4);
        if ample < self.bytes.len() {
            self.resize_to(header.used, header.count);
        }
    }

    /// Keeps the earliest expiry true after a field's has changed.
    fn note_due(&mut self, before: Option<u64>, after: Option<u64>) {
        let header = Header::read(&self.bytes);
        let (before, after) = (before.unwrap_or(NEVER), after.unwrap_or(NEVER));
        if before == after || (before != header.due && after > header.due) {
            return;
        }
        let due = if before == header.due && after > before {
            self.iter().map(|entry| entry.due.unwrap_or(NEVER)).min().unwrap_or(NEVER)
        } else {
            header.due.min(after)
        };
        Header { due, ..header }.write(Arc::make_mut(&mut self.bytes));
    }
}

/// The entries of a chunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries<'a, S> {
    entries: &'a [u8],
    at: usize,
    shape: PhantomData<S>,
}

impl<'a, S: EntryShape> Iterator for Entries<'a, S> {
    type Item = FieldEntry<'a>;

    fn next(&mut self) -> Option<FieldEntry<'a>> {
        steps::take(1);
        let (entry, size) = S::parse(self.entries, self.at)?;
        self.at += size;
        Some(entry)
    }
}

impl<S: EntryShape> Default for Chunk<S> {
    fn default() -> Self {
        let mut chunk = Self { bytes: zeroes(capacity(0, 0)), shape: PhantomData };
        Header { used: 0, count: 0, due: NEVER }.write(Arc::make_mut(&mut chunk.bytes));
        chunk
    }
}
