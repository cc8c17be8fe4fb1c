//! Lists: a key read and changed as one.

mod edits;
mod new;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

pub use almandine_datatypes::list::{End, ListLimits};
pub use new::NewList;
pub use snapshot::ListSnapshot;
pub use write::{ListMut, Trimmed};

use almandine_base::object;
use almandine_datatypes::hash::Placement;
use almandine_datatypes::list::{ListEncoding, ListObject, PackedList};
use almandine_datatypes::packed::Member;
use almandine_store::Kind;

use super::collection::{Body, Collection, Extent};
use crate::{Key, Reader, Refusal};

/// The type of lists.
struct Lists;

impl Collection for Lists {
    const KIND: Kind = Kind::List;
    type Object = ListObject;
    type Packed<'p> = PackedList<'p>;

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
        Ok(object.should_pack() && object.pack(out)?)
    }
}

/// A list to be read.
#[derive(Clone, Copy)]
pub struct List<'l> {
    body: Body<'l, Lists>,
}

impl<'l> List<'l> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.body.elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether so many of its elements are so much that a reply with them should be made from a snapshot ([`Reader::large_list`]).
    #[must_use]
    pub fn is_large(&self, count: usize) -> bool {
        self.body.is_large_part(count)
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> ListEncoding {
        match self.body {
            Body::Packed(packed) => packed.encoding(),
            Body::Object(object) => object.encoding(),
        }
    }

    /// The element at a place, from 0 on.
    ///
    /// # Errors
    /// When it is not in memory.
    #[inline]
    pub fn nth(&self, index: usize) -> Result<Option<Member<'l>>, Refusal> {
        match self.body {
            Body::Packed(packed) => Ok(packed.nth(index)),
            Body::Object(object) => Ok(object.nth(index)?),
        }
    }

    /// All elements in order. What is not in memory ends them with an error.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<Member<'l>, Refusal>> + use<'l> {
        self.try_iter_from(0)
    }

    /// As [`List::try_iter`], from a place on.
    pub fn try_iter_from(&self, index: usize) -> impl Iterator<Item = Result<Member<'l>, Refusal>> + use<'l> {
        let (packed, object) = match self.body {
            Body::Packed(packed) => (Some(packed.iter_from(index)), None),
            Body::Object(object) => (None, Some(object.iter_from(index))),
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
        match self.body {
            Body::Packed(packed) => packed.iter_from(index).take(count).for_each(|element| visit(&element)),
            Body::Object(object) => object.visit(index, count, visit)?,
        }
        Ok(())
    }

    /// Visits the places of elements that are equal to `element`, from an end on and of the `limit` elements there, until `visit` says that this is enough.
    ///
    /// # Errors
    /// When a part of the list is not in memory.
    pub fn find(&self, end: End, element: &[u8], limit: usize, visit: &mut dyn FnMut(usize) -> bool) -> Result<(), Refusal> {
        match self.body {
            Body::Packed(packed) => {
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
            Body::Object(object) => Ok(object.find(end, element, limit, visit)?),
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

impl Reader<'_> {
    /// Opens a key as a list for a look at some of its elements. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    pub fn read_list<R>(&mut self, key: Key<'_>, look: impl FnOnce(&List<'_>) -> Result<R, Refusal>) -> Result<Option<R>, Refusal> {
        self.look_at::<Lists, R>(key, Extent::Part, |body, _| look(&List { body }))
    }

    /// As [`Reader::read_list`], for a look at all of it: of a large one, at a snapshot, so that writers need not wait.
    ///
    /// # Errors
    /// As there.
    pub fn read_whole_list<R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&List<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at::<Lists, R>(key, Extent::Whole, |body, _| look(&List { body }))
    }
}
