//! A list under its latch, to be changed.

use std::ops::Range;

use almandine_datatypes::list::{End, ListEncoding, ListLimits, ListObject, PackedList};
use almandine_datatypes::packed;
use almandine_store::{HeapValue, SharedValue};

use super::edits::{self, Edit};
use super::{List, Lists};
use crate::types::collection::{Body, Draft, Editable};
use crate::{Key, Refusal, Writer};

/// A list to be changed, under its latch. A key that is absent is an empty one. Of a list that is packed nothing is stored before
/// [`ListMut::commit`]; an object changes at once, so whatever has changed must be committed.
pub struct ListMut<'w> {
    draft: Draft<'w, Lists>,
    /// None: encodings are told, as effects do.
    limits: Option<ListLimits>,
}

/// What was cut off a list, to be freed ([`Writer::discard`]).
#[derive(Default)]
#[must_use = "it may be large"]
pub struct Trimmed(Vec<ListObject>);

impl Writer<'_> {
    /// Opens a key as a list to be changed.
    ///
    /// # Errors
    /// When it is of another type, or must be read from the device first.
    pub fn write_list<'s>(&'s mut self, key: Key<'s>, limits: ListLimits) -> Result<ListMut<'s>, Refusal> {
        Ok(ListMut { draft: self.open(key)?, limits: Some(limits) })
    }

    /// As [`Writer::write_list`], for edits that name encodings.
    pub(in crate::types) fn replay_list<'s>(&'s mut self, key: Key<'s>) -> Result<ListMut<'s>, Refusal> {
        Ok(ListMut { draft: self.open(key)?, limits: None })
    }

    /// Frees what was cut off a list: at once if it is little, else in the background.
    pub fn discard(&mut self, trimmed: Trimmed) {
        for object in trimmed.0 {
            self.accessor.session.release(SharedValue::new(HeapValue::object(Box::new(object))));
        }
    }
}

impl ListMut<'_> {
    /// Whether the key was there.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.draft.existed()
    }

    /// The list as it is now.
    #[must_use]
    pub fn look(&self) -> List<'_> {
        List { body: self.draft.body() }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.draft.body().elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that elements of so many bytes come together, so that OBJECT ENCODING names what holds all of them.
    ///
    /// # Errors
    /// When a part of the list is not in memory, or the store is full; then nothing has changed.
    pub fn expect(&mut self, bytes: usize, count: usize) -> Result<(), Refusal> {
        let Some(limits) = self.limits else { return Ok(()) };
        match outgrows(&self.draft, limits, (bytes, count))? {
            Some(encoding) => self.name(encoding),
            None => Ok(()),
        }
    }

    /// Lets OBJECT ENCODING name a list that has become small a listpack again.
    ///
    /// # Errors
    /// As [`ListMut::expect`].
    pub fn settle(&mut self) -> Result<(), Refusal> {
        let Some(limits) = self.limits else { return Ok(()) };
        if self.look().encoding() == ListEncoding::QuickList && !exceeds(&self.draft, limits.half(), (0, 0))? {
            self.name(ListEncoding::ListPack)?;
        }
        Ok(())
    }

    fn name(&mut self, encoding: ListEncoding) -> Result<(), Refusal> {
        name(&mut self.draft, encoding)?;
        self.note(Edit::Name(encoding));
        self.draft.changed(0);
        Ok(())
    }

    #[inline]
    fn note(&mut self, edit: Edit<'_>) {
        if let Body::Object(_) = self.draft.body() {
            self.draft.note(|out| edit.push(out));
        }
    }

    /// Puts an element at an end.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    #[inline]
    pub fn push(&mut self, end: End, element: &[u8]) -> Result<(), Refusal> {
        push(&mut self.draft, end, element)?;
        self.note(Edit::Push { end, element });
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
            self.note(Edit::Pop { end, count });
            self.draft.changed(count as i64);
        }
        Ok(())
    }

    /// Replaces the element at a place. Says whether there is one.
    ///
    /// # Errors
    /// As [`ListMut::pop`].
    pub fn set(&mut self, index: usize, element: &[u8]) -> Result<bool, Refusal> {
        let is_there = self.edit(|packed| PackedList::set(packed, index, element), |object| object.set(index, element))?;
        if is_there {
            self.note(Edit::Set { index, element });
            self.draft.changed(1);
        }
        Ok(is_there)
    }

    /// Puts an element before the one at a place, or behind all.
    ///
    /// # Errors
    /// As [`ListMut::pop`].
    pub fn insert(&mut self, index: usize, element: &[u8]) -> Result<(), Refusal> {
        self.edit(|packed| PackedList::insert(packed, index, element), |object| object.insert(index, element))?;
        self.note(Edit::Insert { index, element });
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
    /// As [`ListMut::pop`].
    pub fn remove(&mut self, end: End, element: &[u8], limit: usize) -> Result<usize, Refusal> {
        let mut places = Vec::new();
        if let Body::Packed(_) = self.draft.body() {
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
            self.note(Edit::Remove { end, element, limit });
            self.draft.changed(removed as i64);
        }
        Ok(removed)
    }

    /// Removes all elements outside of a range of places.
    ///
    /// # Errors
    /// As [`ListMut::pop`].
    pub fn trim(&mut self, keep: Range<usize>) -> Result<Trimmed, Refusal> {
        let len = self.len();
        let end = keep.end.min(len);
        let start = keep.start.min(end);
        let gone = len - (end - start);
        let mut trimmed = Trimmed::default();
        if gone == 0 {
            return Ok(trimmed);
        }
        match self.draft.packed_mut() {
            Some(packed) => {
                PackedList::remove(packed, end, len - end);
                PackedList::remove(packed, 0, start);
            }
            None => self.draft.change(|object| object.trim(start..end, &mut |gone| trimmed.0.push(gone)))??,
        }
        self.note(Edit::Trim { start, end });
        self.draft.changed(gone as i64);
        Ok(trimmed)
    }

    /// Makes edits that were made to another list. Those that are none, and all behind them, are left out.
    ///
    /// # Errors
    /// As [`ListMut::pop`].
    pub(in crate::types) fn replay(&mut self, mut edits: &[u8]) -> Result<(), Refusal> {
        while let Some(edit) = edits::next(&mut edits) {
            match edit {
                Edit::Push { end, element } => self.push(end, element)?,
                Edit::Pop { end, count } => self.pop(end, count, |_| ())?,
                Edit::Set { index, element } => drop(self.set(index, element)?),
                Edit::Insert { index, element } => self.insert(index, element)?,
                Edit::Remove { end, element, limit } => drop(self.remove(end, element, limit)?),
                Edit::Trim { start, end } => drop(self.trim(start..end)?),
                Edit::Name(encoding) => self.name(encoding)?,
            }
        }
        Ok(())
    }

    /// Stores what has changed. A list without elements is no key.
    ///
    /// # Errors
    /// When the store is full; then a packed list is as it was.
    pub fn commit(self) -> Result<(), Refusal> {
        self.draft.commit()
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

/// Whether a list, with elements that come, is more than one node of a quicklist may have. `added` are their bytes and their number.
fn exceeds(list: &impl Editable<Lists>, limits: ListLimits, (bytes, count): (usize, usize)) -> Result<bool, Refusal> {
    match list.body() {
        Body::Packed(packed) => {
            let count = packed.len() + count;
            let bound = limits.is_exceeded(packed.listpack_bytes_bound() + bytes, count);
            Ok(bound && limits.is_exceeded(packed.listpack_bytes() + bytes, count))
        }
        Body::Object(object) => Ok(object.exceeds(limits, bytes, count)?),
    }
}

/// The encoding that a list gets when elements come, if it is another one.
#[inline]
pub(super) fn outgrows(
    list: &impl Editable<Lists>,
    limits: ListLimits,
    added: (usize, usize),
) -> Result<Option<ListEncoding>, Refusal> {
    let is_listpack = List { body: list.body() }.encoding() == ListEncoding::ListPack;
    Ok((is_listpack && exceeds(list, limits, added)?).then_some(ListEncoding::QuickList))
}

/// Lets OBJECT ENCODING name another encoding.
pub(super) fn name(list: &mut impl Editable<Lists>, encoding: ListEncoding) -> Result<(), Refusal> {
    match list.packed_mut() {
        Some(packed) => PackedList::set_encoding(packed, encoding),
        None => list.change(|object| object.set_encoding(encoding))?,
    }
    Ok(())
}
