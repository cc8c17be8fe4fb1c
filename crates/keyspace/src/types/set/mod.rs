//! Sets: a key read and changed as one.

mod edits;
mod new;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

pub use almandine_datatypes::set::SetLimits;
pub use new::NewSet;
pub use snapshot::SetSnapshot;
pub(in crate::types) use write::NO_LIMITS;
pub use write::{Moved, SetMut};

use almandine_base::object;
use almandine_datatypes::hash::Placement;
use almandine_datatypes::packed::Member;
use almandine_datatypes::set::{PackedSet, SetEncoding, SetObject, Source};
use almandine_store::Kind;

use super::collection::{Body, Collection, Extent};
use crate::{Key, Reader, Refusal};

/// The type of sets.
struct Sets;

impl Collection for Sets {
    const KIND: Kind = Kind::Set;
    type Object = SetObject;
    type Packed<'p> = PackedSet<'p>;

    fn packed(bytes: &[u8]) -> PackedSet<'_> {
        PackedSet::new(bytes)
    }

    fn packed_len(packed: PackedSet<'_>) -> usize {
        packed.len()
    }

    fn unpack(packed: PackedSet<'_>, placement: Placement) -> SetObject {
        SetObject::from_packed(&packed, placement)
    }

    fn pack(object: &SetObject, out: &mut Vec<u8>) -> Result<bool, object::Missing> {
        Ok(object.should_pack() && object.pack(out)?)
    }
}

/// A set to be read.
#[derive(Clone, Copy)]
pub struct Set<'s> {
    body: Body<'s, Sets>,
}

impl<'s> Set<'s> {
    /// The set as set algebra takes it.
    #[must_use]
    pub fn source(&self) -> Source<'s> {
        match self.body {
            Body::Packed(packed) => Source::Packed(packed),
            Body::Object(object) => Source::Object(object),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.source().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is so large that a reply with all of it should be made from a snapshot ([`Reader::large_set`]).
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.body.is_large()
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SetEncoding {
        match self.body {
            Body::Packed(packed) => packed.encoding(),
            Body::Object(object) => object.encoding(),
        }
    }

    /// Whether it has a member.
    ///
    /// # Errors
    /// When the member's place is not in memory.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> Result<bool, Refusal> {
        Ok(self.source().contains(member)?)
    }

    /// All members. What is not in memory ends them with an error.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<Member<'s>, Refusal>> {
        self.source().iter_from(0).map(|member| member.map_err(Refusal::from))
    }

    /// The member at a place, below [`Set::len`], of an order that only changes change.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<Member<'s>>, Refusal> {
        match self.body {
            Body::Packed(packed) => Ok(packed.nth(rank)),
            Body::Object(object) => Ok(object.nth(rank)?.map(Member::from)),
        }
    }

    /// Visits `count` different members at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// When a part of the set is not in memory; what was visited is no sample then.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(&[u8])) -> Result<(), Refusal> {
        match self.body {
            Body::Packed(packed) => {
                let (mut left, mut wanted) = (packed.len(), count.min(packed.len()));
                for member in packed.iter() {
                    if ((u128::from(random()) * left as u128) >> 64) < wanted as u128 {
                        visit(&member);
                        wanted -= 1;
                    }
                    left -= 1;
                }
                Ok(())
            }
            Body::Object(object) => Ok(object.sample(count, random, visit)?),
        }
    }

    /// Visits members from `cursor` on, about `count` of a large set, and returns the cursor to go on with; 0 begins and ends.
    ///
    /// # Errors
    /// When a part of the set is not in memory; what was visited is visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<u64, Refusal> {
        match self.body {
            Body::Packed(packed) => {
                packed.iter().for_each(|member| visit(&member));
                Ok(0)
            }
            Body::Object(object) => Ok(object.scan(cursor, count, visit)?),
        }
    }
}

impl Reader<'_> {
    /// Opens a key as a set for a look at some of its members. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    pub fn read_set<R>(&mut self, key: Key<'_>, look: impl FnOnce(&Set<'_>) -> Result<R, Refusal>) -> Result<Option<R>, Refusal> {
        self.look_at::<Sets, R>(key, Extent::Part, |body, _| look(&Set { body }))
    }

    /// As [`Reader::read_set`], for a look at all of it: of a large one, at a snapshot, so that writers need not wait.
    ///
    /// # Errors
    /// As there.
    pub fn read_whole_set<R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&Set<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at::<Sets, R>(key, Extent::Whole, |body, _| look(&Set { body }))
    }
}
