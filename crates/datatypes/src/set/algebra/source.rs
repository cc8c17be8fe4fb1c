//! A set in either form, as set algebra reads it.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::packed::Member;
use crate::set::{PackedSet, packed};

use crate::set::object::{SetIter, SetObject};

/// A set to be read.
#[derive(Clone, Copy, Debug)]
pub enum Source<'s> {
    /// A packed one.
    Packed(PackedSet<'s>),
    /// A large one.
    Object(&'s SetObject),
}

impl<'s> Source<'s> {
    /// One without members.
    pub const EMPTY: Self = Self::Packed(PackedSet::EMPTY);

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.len(),
            Self::Object(object) => object.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has a member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> Result<bool, Missing> {
        match self {
            Self::Packed(packed) => Ok(packed.contains(member)),
            Self::Object(object) => object.contains(member),
        }
    }

    /// All members from the one of this rank on.
    #[must_use]
    pub fn iter_from(&self, rank: usize) -> SourceMembers<'s> {
        match self {
            Self::Packed(packed) => {
                let mut members = packed.iter();
                members.by_ref().take(rank).for_each(drop);
                SourceMembers::Packed(members)
            }
            Self::Object(object) => SourceMembers::Object(object.iter_from(rank)),
        }
    }
}

/// The members of a [`Source`]. Ends after an error.
#[derive(Clone, Debug)]
pub enum SourceMembers<'s> {
    /// Of a packed one.
    Packed(packed::PackedSetIter<'s>),
    /// Of a large one.
    Object(SetIter<'s>),
}

impl<'s> Iterator for SourceMembers<'s> {
    type Item = Result<Member<'s>, Missing>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        match self {
            Self::Packed(members) => members.next().map(Ok),
            Self::Object(members) => members.next().map(|member| member.map(Member::from)),
        }
    }
}
