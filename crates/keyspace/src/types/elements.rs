//! The elements of a list, a set or a sorted set, whichever it is.

use std::ops::Range;

use super::Frozen;
use super::list::{List, Lists};
use super::set::{Set, Sets};
use super::sorted_set::{SortedSet, SortedSets};
use crate::Refusal;

/// A value whose elements are texts, at places from 0 on.
pub enum Elements<'f> {
    /// In the order of the list.
    List(List<'f>),
    /// In no particular order.
    Set(Set<'f>),
    /// By score.
    SortedSet(SortedSet<'f>),
}

impl Elements<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether their places mean nothing.
    #[must_use]
    pub fn is_unordered(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// Visits those at some places, which there are.
    ///
    /// # Errors
    /// When one is not in memory; those before it have been visited.
    pub fn visit(&self, places: Range<usize>, mut visit: impl FnMut(&[u8])) -> Result<(), Refusal> {
        match self {
            Self::List(list) => return list.visit(places.start, places.len(), visit),
            Self::Set(set) => {
                for member in set.source().iter_from(places.start).take(places.len()) {
                    visit(&member?);
                }
            }
            Self::SortedSet(set) => {
                for entry in set.range(places) {
                    visit(entry?.member);
                }
            }
        }
        Ok(())
    }
}

impl Frozen {
    /// The elements of what was frozen. None: there was no key.
    ///
    /// # Errors
    /// When it has no elements that are texts.
    pub fn elements(&self) -> Result<Option<Elements<'_>>, Refusal> {
        if let Ok(list) = self.collection::<Lists>() {
            return Ok(list.map(Elements::List));
        }
        if let Ok(set) = self.collection::<Sets>() {
            return Ok(set.map(Elements::Set));
        }
        Ok(self.collection::<SortedSets>()?.map(Elements::SortedSet))
    }
}
