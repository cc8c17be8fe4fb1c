//! Lists: a key read and changed as one.

mod edits;
mod new;
#[cfg(test)]
mod tests;
mod write;

pub use almandine_datatypes::list::{End, ListLimits};
pub use write::Trimmed;

use almandine_base::object;
use almandine_datatypes::hash::Placement;
use almandine_datatypes::list::{ListEncoding, ListObject, PackedList};
use almandine_datatypes::packed::Member;
use almandine_store::Kind;

use self::edits::ListEdit;
use super::collection::{Collection, Contents, New, Snapshot, ValueMut, visit_while};
use crate::Refusal;

/// The type of lists.
pub struct Lists;

/// A list that no key has yet.
pub type NewList = New<Lists>;

/// A large list as it was at one time.
pub type ListSnapshot = Snapshot<Lists>;

/// A list to be changed, under its latch.
pub type ListMut<'w> = ValueMut<'w, Lists>;

impl Collection for Lists {
    const KIND: Kind = Kind::List;
    type Object = ListObject;
    type Packed<'p> = PackedList<'p>;
    type View<'v> = List<'v>;
    /// None: encodings are told, as effects do.
    type Limits = Option<ListLimits>;
    type Edit<'e> = ListEdit<'e>;

    const UNLIMITED: Option<ListLimits> = None;

    fn packed(bytes: &[u8]) -> PackedList<'_> {
        PackedList::new(bytes)
    }

    fn packed_len(packed: PackedList<'_>) -> usize {
        packed.len()
    }

    fn unpack(packed: PackedList<'_>, _placement: Placement) -> ListObject {
        ListObject::from_packed(&packed)
    }

    fn pack(object: &ListObject, out: &mut Vec<u8>) -> Result<bool, object::Missing> {
        object.pack(out)
    }

    #[inline]
    fn view(contents: Contents<'_, Self>, _now: u64) -> List<'_> {
        List { contents }
    }

    fn replay(list: &mut ListMut<'_>, edit: ListEdit<'_>) -> Result<(), Refusal> {
        match edit {
            ListEdit::Push { end, element } => list.push(end, element)?,
            ListEdit::Pop { end, count } => list.pop(end, count, |_| ())?,
            ListEdit::Set { index, element } => drop(list.set(index, element)?),
            ListEdit::Insert { index, element } => list.insert(index, element)?,
            ListEdit::Remove { end, element, limit } => drop(list.remove(end, element, limit)?),
            ListEdit::Trim { start, end } => drop(list.trim(start..end)?),
            ListEdit::SetEncoding(encoding) => list.set_encoding(encoding)?,
        }
        Ok(())
    }
}

/// A list to be read.
#[derive(Clone, Copy)]
pub struct List<'l> {
    contents: Contents<'l, Lists>,
}

impl<'l> List<'l> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `count` of its elements take so much that a reply with them should be made from a snapshot ([`ListSnapshot`]).
    #[must_use]
    pub fn is_large(&self, count: usize) -> bool {
        self.contents.is_large_part(count)
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> ListEncoding {
        match self.contents {
            Contents::Packed(packed) => packed.encoding(),
            Contents::Object(object) => object.encoding(),
        }
    }

    /// The element at a place, from 0 on.
    ///
    /// # Errors
    /// When it is not in memory.
    #[inline]
    pub fn nth(&self, index: usize) -> Result<Option<Member<'l>>, Refusal> {
        match self.contents {
            Contents::Packed(packed) => Ok(packed.nth(index)),
            Contents::Object(object) => Ok(object.nth(index)?),
        }
    }

    /// All elements in order. What is not in memory ends them with an error.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<Member<'l>, Refusal>> + use<'l> {
        self.try_iter_from(0)
    }

    /// As [`List::try_iter`], from a place on.
    pub fn try_iter_from(&self, index: usize) -> impl Iterator<Item = Result<Member<'l>, Refusal>> + use<'l> {
        let (packed, object) = match self.contents {
            Contents::Packed(packed) => (Some(packed.iter_from(index)), None),
            Contents::Object(object) => (None, Some(object.iter_from(index))),
        };
        let packed = packed.into_iter().flatten().map(Ok);
        packed.chain(object.into_iter().flatten().map(|element| element.map_err(Refusal::from)))
    }

    /// Visits `count` elements from a place on, or those that there are.
    ///
    /// # Errors
    /// When one is not in memory; those before it have been visited.
    #[inline]
    pub fn visit(&self, index: usize, count: usize, mut visit: impl FnMut(&[u8])) -> Result<(), Refusal> {
        match self.contents {
            Contents::Packed(packed) => packed.iter_from(index).take(count).for_each(|element| visit(&element)),
            Contents::Object(object) => object.visit(index, count, visit)?,
        }
        Ok(())
    }

    /// Visits the places of elements that are equal to `element`, from an end on and of the `limit` elements there, until `visit`
    /// says that this is enough.
    ///
    /// # Errors
    /// When a part of the list is not in memory.
    pub fn find(&self, end: End, element: &[u8], limit: usize, visit: &mut dyn FnMut(usize) -> bool) -> Result<(), Refusal> {
        match self.contents {
            Contents::Packed(packed) => {
                let len = packed.len();
                let mut places = Vec::new();
                packed.find(element, &mut |place| {
                    places.push(place);
                    true
                });
                match end {
                    End::Left => drop(places.into_iter().take_while(|place| *place < limit).all(visit)),
                    End::Right => drop(places.into_iter().rev().take_while(|place| len - *place <= limit).all(visit)),
                }
                Ok(())
            }
            Contents::Object(object) => Ok(object.find(end, element, limit, visit)?),
        }
    }

    /// The place of the first element that is equal to `element`.
    ///
    /// # Errors
    /// When a part of the list is not in memory.
    pub fn position(&self, element: &[u8]) -> Result<Option<usize>, Refusal> {
        let mut found = None;
        self.find(End::Left, element, usize::MAX, &mut |place| {
            found = Some(place);
            false
        })?;
        Ok(found)
    }
}

impl ListSnapshot {
    /// Visits elements from a place on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the list is not in memory.
    pub fn visit_from(&self, from: usize, mut visit: impl FnMut(&[u8]) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.object() else { return Ok(None) };
        visit_while(from, object.iter_from(from), |element| visit(&element))
    }
}
