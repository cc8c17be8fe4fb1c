//! A list under its latch, to be changed.

use std::ops::Range;

use almandine_datatypes::list::{End, ListEncoding, ListLimits, ListObject, PackedList};
use almandine_datatypes::packed;
use almandine_store::{HeapValue, SharedValue};

use super::edits::ListEdit;
use super::{List, ListMut, Lists};
use crate::types::collection::{Contents, Editable};
use crate::{Refusal, Writer};

/// What was cut off a list, to be freed ([`Writer::discard`]).
#[derive(Default)]
#[must_use = "it may be large"]
pub struct Trimmed(Vec<ListObject>);

impl Writer<'_> {
    /// Frees what was cut off a list: at once if it is little, else in the background.
    pub fn discard(&mut self, trimmed: Trimmed) {
        for object in trimmed.0 {
            self.accessor.keyspace.store.release(SharedValue::new(HeapValue::object(Box::new(object))));
        }
    }
}

impl ListMut<'_> {
    /// Prepares for `count` elements of `bytes` in all: OBJECT ENCODING answers with what holds all of them.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full; then nothing has changed.
    pub fn reserve(&mut self, bytes: usize, count: usize) -> Result<(), Refusal> {
        let Some(limits) = self.limits else { return Ok(()) };
        match outgrows(&self.draft, limits, (bytes, count))? {
            Some(encoding) => self.set_encoding(encoding),
            None => Ok(()),
        }
    }

    /// A list that has become small is a listpack to OBJECT ENCODING again.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full; then nothing has changed.
    pub fn settle(&mut self) -> Result<(), Refusal> {
        let Some(limits) = self.limits else { return Ok(()) };
        if self.look().encoding() == ListEncoding::QuickList && !exceeds(&self.draft, limits.half(), (0, 0))? {
            self.set_encoding(ListEncoding::ListPack)?;
        }
        Ok(())
    }

    pub(super) fn set_encoding(&mut self, encoding: ListEncoding) -> Result<(), Refusal> {
        set_encoding(&mut self.draft, encoding)?;
        self.note(ListEdit::SetEncoding(encoding));
        self.draft.changed(0);
        Ok(())
    }

    /// Puts an element at an end.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    #[inline]
    pub fn push(&mut self, end: End, element: &[u8]) -> Result<(), Refusal> {
        push(&mut self.draft, end, element)?;
        self.note(ListEdit::Push { end, element });
        self.draft.changed(1);
        Ok(())
    }

    /// Takes at most `count` elements away, those at an end, and tells each to `taken`, beginning with the one at that end.
    ///
    /// # Errors
    /// When an element is not in memory, or the store is full; then nothing has changed.
    #[inline]
    pub fn pop(&mut self, end: End, count: usize, mut taken: impl FnMut(&[u8])) -> Result<(), Refusal> {
        let len = self.len();
        let count = count.min(len);
        match self.draft.packed_mut() {
            Some(packed) => {
                let from = if end == End::Left { 0 } else { len - count };
                let list = PackedList::new(packed);
                match end {
                    End::Left => list.iter().take(count).for_each(|element| taken(&element)),
                    // A packed list has few elements.
                    End::Right => (from..len).rev().filter_map(|index| list.nth(index)).for_each(|element| taken(&element)),
                }
                PackedList::remove(packed, from, count);
            }
            None => self.draft.change(|object| (0..count).try_for_each(|_| object.pop(end, &mut taken).map(drop)))??,
        }
        if count > 0 {
            self.note(ListEdit::Pop { end, count });
            self.draft.changed(count as i64);
        }
        Ok(())
    }

    /// Replaces the element at a place. Says whether there is one.
    ///
    /// # Errors
    /// When an element is not in memory, or the store is full; then nothing has changed.
    pub fn set(&mut self, index: usize, element: &[u8]) -> Result<bool, Refusal> {
        let is_there = self.edit(|packed| PackedList::set(packed, index, element), |object| object.set(index, element))?;
        if is_there {
            self.note(ListEdit::Set { index, element });
            self.draft.changed(1);
        }
        Ok(is_there)
    }

    /// Puts an element before the one at a place, or behind all.
    ///
    /// # Errors
    /// When an element is not in memory, or the store is full; then nothing has changed.
    pub fn insert(&mut self, index: usize, element: &[u8]) -> Result<(), Refusal> {
        self.edit(|packed| PackedList::insert(packed, index, element), |object| object.insert(index, element))?;
        self.note(ListEdit::Insert { index, element });
        self.draft.changed(1);
        Ok(())
    }

    /// Edits the list in whichever form it has, or gets.
    fn edit<R>(
        &mut self,
        packed: impl FnOnce(&mut Vec<u8>) -> Result<R, packed::Full>,
        object: impl FnOnce(&mut ListObject) -> Result<R, almandine_base::object::Missing>,
    ) -> Result<R, Refusal> {
        if let Some(bytes) = self.draft.packed_mut() {
            match packed(bytes) {
                Ok(result) => return Ok(result),
                Err(packed::Full) => self.draft.unpack(),
            }
        }
        Ok(self.draft.change(object)??)
    }

    /// Removes at most `limit` elements that are equal to `element`, those next to an end. Says how many.
    ///
    /// # Errors
    /// When an element is not in memory, or the store is full; then nothing has changed.
    pub fn remove(&mut self, end: End, element: &[u8], limit: usize) -> Result<usize, Refusal> {
        let mut places = Vec::new();
        if let Contents::Packed(_) = self.draft.contents() {
            self.look().find(end, element, usize::MAX, &mut |place| {
                places.push(place);
                places.len() < limit
            })?;
        }
        let removed = match self.draft.packed_mut() {
            Some(packed) => {
                places.sort_unstable();
                places.iter().rev().map(|place| PackedList::remove(packed, *place, 1)).sum()
            }
            None => self.draft.change(|object| object.remove_equal(end, element, limit))??,
        };
        if removed > 0 {
            self.note(ListEdit::Remove { end, element, limit });
            self.draft.changed(removed as i64);
        }
        Ok(removed)
    }

    /// Removes all elements outside of a range of places.
    ///
    /// # Errors
    /// When an element is not in memory, or the store is full; then nothing has changed.
    pub fn trim(&mut self, keep: Range<usize>) -> Result<Trimmed, Refusal> {
        let len = self.len();
        let end = keep.end.min(len);
        let start = keep.start.min(end);
        let gone = len - (end - start);
        let mut trimmed = Trimmed::default();
        if gone == 0 {
            if self.existed() {
                // As in Redis, a list that stays as it is counts no change, and has changed for clients that watch it.
                self.note(ListEdit::Trim { start, end });
                self.draft.changed(0);
            }
            return Ok(trimmed);
        }
        match self.draft.packed_mut() {
            Some(packed) => {
                PackedList::remove(packed, end, len - end);
                PackedList::remove(packed, 0, start);
            }
            None => self.draft.change(|object| object.trim(start..end, &mut |gone| trimmed.0.push(gone)))??,
        }
        self.note(ListEdit::Trim { start, end });
        self.draft.changed(gone as i64);
        Ok(trimmed)
    }
}

/// Puts an element at an end of a list in either form.
#[inline]
pub(super) fn push(list: &mut impl Editable<Lists>, end: End, element: &[u8]) -> Result<(), Refusal> {
    if let Some(packed) = list.packed_mut() {
        match PackedList::push(packed, end, element) {
            Ok(()) => return Ok(()),
            Err(packed::Full) => list.unpack(),
        }
    }
    list.change(|object| object.push(end, element))
}

/// Whether a list, with elements that come, is more than one node of a quicklist may have. `added` are their bytes and their
/// number.
fn exceeds(list: &impl Editable<Lists>, limits: ListLimits, (bytes, count): (usize, usize)) -> Result<bool, Refusal> {
    match list.contents() {
        Contents::Packed(packed) => {
            let count = packed.len() + count;
            let bound = limits.is_exceeded(packed.listpack_bytes_bound() + bytes, count);
            Ok(bound && limits.is_exceeded(packed.listpack_bytes() + bytes, count))
        }
        Contents::Object(object) => Ok(object.exceeds(limits, bytes, count)?),
    }
}

/// The encoding that a list gets when elements come, if it is another one.
#[inline]
pub(super) fn outgrows(
    list: &impl Editable<Lists>,
    limits: ListLimits,
    added: (usize, usize),
) -> Result<Option<ListEncoding>, Refusal> {
    let is_listpack = List { contents: list.contents() }.encoding() == ListEncoding::ListPack;
    Ok((is_listpack && exceeds(list, limits, added)?).then_some(ListEncoding::QuickList))
}

/// Sets what OBJECT ENCODING answers.
pub(super) fn set_encoding(list: &mut impl Editable<Lists>, encoding: ListEncoding) -> Result<(), Refusal> {
    match list.packed_mut() {
        Some(packed) => PackedList::set_encoding(packed, encoding),
        None => list.change(|object| object.set_encoding(encoding))?,
    }
    Ok(())
}
