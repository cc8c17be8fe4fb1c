//! A list as it was at one time, to be read without a latch.

use super::{List, Lists};
use crate::types::collection::{Frozen, Snapshot};
use crate::{Key, Reader, Refusal};

/// A large list as it was at one time. It holds memory, and nobody up.
pub struct ListSnapshot {
    snapshot: Snapshot<Lists>,
    len: usize,
}

impl ListSnapshot {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Visits elements from a place on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the list is not in memory.
    pub fn visit_from(&self, from: usize, mut visit: impl FnMut(&[u8]) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.snapshot.object() else { return Ok(None) };
        for (place, element) in (from..).zip(object.iter_from(from)) {
            if !visit(&element?) {
                return Ok(Some(place + 1));
            }
        }
        Ok(None)
    }
}

impl Reader<'_> {
    /// A snapshot of a key that is a large list; None: it is not there, small or of another type.
    pub fn large_list(&mut self, key: Key<'_>) -> Option<ListSnapshot> {
        let snapshot = self.snapshot_of::<Lists>(key)?;
        let len = snapshot.object()?.len();
        Some(ListSnapshot { snapshot, len })
    }
}

impl Frozen {
    /// The list that was frozen. None: there was no key.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn list(&self) -> Result<Option<List<'_>>, Refusal> {
        Ok(self.collection::<Lists>()?.map(|body| List { body }))
    }
}
