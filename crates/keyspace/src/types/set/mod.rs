//! Sets: a key read and changed as one.

mod edits;
mod new;
#[cfg(test)]
mod tests;
mod write;

pub use almandine_datatypes::set::SetLimits;
pub use new::NewSet;
pub use write::Moved;

use almandine_base::object;
use almandine_datatypes::hash::Placement;
use almandine_datatypes::packed::Member;
use almandine_datatypes::set::{PackedSet, SetEncoding, SetObject, Source};
use almandine_store::Kind;

use self::edits::SetEdit;
use super::collection::{Collection, Contents, Snapshot, ValueMut, sample, visit_while};
use crate::Refusal;

/// The type of sets.
pub struct Sets;

/// A large set as it was at one time.
pub type SetSnapshot = Snapshot<Sets>;

/// A set to be changed, under its latch.
pub type SetMut<'w> = ValueMut<'w, Sets>;

impl Collection for Sets {
    const KIND: Kind = Kind::Set;
    type Object = SetObject;
    type Packed<'p> = PackedSet<'p>;
    type View<'v> = Set<'v>;
    type Limits = SetLimits;
    type Edit<'e> = SetEdit<'e>;

    const UNLIMITED: SetLimits = SetLimits { integers: usize::MAX, entries: usize::MAX, value: usize::MAX };

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
        object.pack(out)
    }

    #[inline]
    fn view(contents: Contents<'_, Self>, _now: u64) -> Set<'_> {
        Set { contents }
    }

    fn replay(set: &mut SetMut<'_>, edit: SetEdit<'_>) -> Result<(), Refusal> {
        match edit {
            SetEdit::Add(member) => drop(set.add(member)?),
            SetEdit::Remove(member) => drop(set.remove(member)?),
            SetEdit::SetEncoding(encoding) => set.set_encoding(encoding)?,
        }
        Ok(())
    }
}

/// A set to be read.
#[derive(Clone, Copy)]
pub struct Set<'s> {
    contents: Contents<'s, Sets>,
}

impl<'s> Set<'s> {
    /// The set as set algebra takes it.
    #[must_use]
    pub fn source(&self) -> Source<'s> {
        match self.contents {
            Contents::Packed(packed) => Source::Packed(packed),
            Contents::Object(object) => Source::Object(object),
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

    /// Whether it is so large that a reply with all of it should be made from a snapshot ([`SetSnapshot`]).
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.contents.is_large()
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SetEncoding {
        match self.contents {
            Contents::Packed(packed) => packed.encoding(),
            Contents::Object(object) => object.encoding(),
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
        match self.contents {
            Contents::Packed(packed) => Ok(packed.nth(rank)),
            Contents::Object(object) => Ok(object.nth(rank)?.map(Member::from)),
        }
    }

    /// Visits `count` different members at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// When a part of the set is not in memory; what was visited is no sample then.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(&[u8])) -> Result<(), Refusal> {
        match self.contents {
            Contents::Packed(packed) => sample(packed.iter().map(Ok), packed.len(), count, random, |member| visit(&member)),
            Contents::Object(object) => Ok(object.sample(count, random, visit)?),
        }
    }

    /// Visits members from `cursor` on, about `count` of a large set, and returns the cursor to go on with; 0 begins and ends.
    ///
    /// # Errors
    /// When a part of the set is not in memory; what was visited is visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<u64, Refusal> {
        match self.contents {
            Contents::Packed(packed) => {
                packed.iter().for_each(|member| visit(&member));
                Ok(0)
            }
            Contents::Object(object) => Ok(object.scan(cursor, count, visit)?),
        }
    }
}

impl SetSnapshot {
    /// Visits members from the place `from` on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the set is not in memory.
    pub fn visit_from(&self, from: usize, visit: impl FnMut(&[u8]) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.object() else { return Ok(None) };
        visit_while(from, object.iter_from(from), visit)
    }
}
