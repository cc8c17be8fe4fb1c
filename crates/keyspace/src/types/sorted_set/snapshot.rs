//! A sorted set as it was at one time, to be read without a latch.

use super::{Scored, SortedSet, SortedSets};
use crate::types::collection::{Body, Frozen, Snapshot};
use crate::{Key, Reader, Refusal};

/// A large sorted set as it was at one time. It holds memory, and nobody up.
pub struct SortedSetSnapshot {
    snapshot: Snapshot<SortedSets>,
}

impl SortedSetSnapshot {
    /// The sorted set.
    #[must_use]
    pub fn look(&self) -> Option<SortedSet<'_>> {
        let object = self.snapshot.object()?;
        Some(SortedSet::new(Body::Object(object), self.snapshot.now()))
    }

    /// Visits the members of these ranks, descending if `backwards`, as long as `visit` says so. Returns the ranks that are left; None at the end.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory.
    pub fn visit(
        &self,
        ranks: std::ops::Range<usize>,
        backwards: bool,
        mut visit: impl FnMut(Scored<'_>) -> bool,
    ) -> Result<Option<std::ops::Range<usize>>, Refusal> {
        let Some(set) = self.look() else { return Ok(None) };
        let members = if backwards { set.range_back(ranks.clone()) } else { set.range(ranks.clone()) };
        for (seen, entry) in (1..).zip(members) {
            if !visit(entry?) {
                let left = if backwards { ranks.start..ranks.end - seen } else { ranks.start + seen..ranks.end };
                return Ok(Some(left).filter(|left| !left.is_empty()));
            }
        }
        Ok(None)
    }
}

impl Frozen {
    /// The sorted set that was frozen. None: there was no key.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn sorted_set(&self) -> Result<Option<SortedSet<'_>>, Refusal> {
        Ok(self.collection::<SortedSets>()?.map(|body| SortedSet::new(body, self.now())))
    }
}

impl Reader<'_> {
    /// A snapshot of a key that is a large sorted set; None: it is not there, small or of another type.
    pub fn large_sorted_set(&mut self, key: Key<'_>) -> Option<SortedSetSnapshot> {
        Some(SortedSetSnapshot { snapshot: self.snapshot_of::<SortedSets>(key)? })
    }
}
