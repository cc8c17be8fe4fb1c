//! A set as it was at one time, to be read without a latch.

use super::{Set, Sets};
use crate::types::collection::{Frozen, Snapshot};
use crate::{Key, Reader, Refusal};

/// A large set as it was at one time. It holds memory, and nobody up.
pub struct SetSnapshot {
    snapshot: Snapshot<Sets>,
}

impl SetSnapshot {
    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot.object().map_or(0, almandine_datatypes::set::SetObject::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Visits members from the place `from` on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the set is not in memory.
    pub fn visit_from(&self, from: usize, mut visit: impl FnMut(&[u8]) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.snapshot.object() else { return Ok(None) };
        for (place, member) in (from..).zip(object.iter_from(from)) {
            if !visit(member?) {
                return Ok(Some(place + 1));
            }
        }
        Ok(None)
    }
}

impl Reader<'_> {
    /// A snapshot of a key that is a large set; None: it is not there, small or of another type.
    pub fn large_set(&mut self, key: Key<'_>) -> Option<SetSnapshot> {
        Some(SetSnapshot { snapshot: self.snapshot_of::<Sets>(key)? })
    }
}

impl Frozen {
    /// The set that was frozen. None: there was no key.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn set(&self) -> Result<Option<Set<'_>>, Refusal> {
        Ok(self.collection::<Sets>()?.map(|body| Set { body }))
    }
}
