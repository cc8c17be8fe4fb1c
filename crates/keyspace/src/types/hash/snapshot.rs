//! A hash as it was at one time, to be read without a latch.

use almandine_base::object::Object;
use almandine_datatypes::packed::Entry;

use super::{Hash, Hashes, is_live};
use crate::types::collection::{Frozen, Snapshot};
use crate::{Key, Reader, Refusal};

/// A large hash as it was at one time. It holds memory, and nobody up.
pub struct HashSnapshot {
    snapshot: Snapshot<Hashes>,
    len: usize,
}

impl HashSnapshot {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Visits fields from the place `from` on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the hash is not in memory.
    pub fn visit_from(&self, from: usize, mut visit: impl FnMut(Entry<'_>) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.snapshot.object() else { return Ok(None) };
        for (place, entry) in (from..).zip(object.iter_from(from)) {
            let entry = entry?;
            if is_live(&entry, self.snapshot.now()) && !visit(entry) {
                return Ok(Some(place + 1));
            }
        }
        Ok(None)
    }
}

impl Reader<'_> {
    /// A snapshot of a key that is a large hash; None: it is not there, small or of another type.
    pub fn large_hash(&mut self, key: Key<'_>) -> Option<HashSnapshot> {
        let snapshot = self.snapshot_of::<Hashes>(key)?;
        let (object, now) = (snapshot.object()?, snapshot.now());
        // What is past its time and still there is rare; then the promised number takes a walk.
        let len = if object.next_due().is_some_and(|due| due <= now) {
            object.iter().filter(|entry| entry.as_ref().is_ok_and(|entry| is_live(entry, now))).count()
        } else {
            object.len()
        };
        Some(HashSnapshot { snapshot, len })
    }
}

impl Frozen {
    /// The hash that was frozen. None: there was no key.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn hash(&self) -> Result<Option<Hash<'_>>, Refusal> {
        Ok(self.collection::<Hashes>()?.map(|body| Hash { body, now: self.now() }))
    }
}
