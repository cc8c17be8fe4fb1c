//! From a packed sorted set to an object, and back.

use almandine_base::object::Missing;

use crate::hashed::Placement;
use crate::packed::{ELEMENTS_MAX, PACKED_MAX_BYTES};
use crate::sorted_set::PackedSortedSet;

use super::SortedSetObject;

/// Bytes that a sorted set may have to become packed: half of what it may have to stay so, lest it goes to and fro.
const REPACKED_MAX_BYTES: usize = PACKED_MAX_BYTES / 2;

/// Members that a sorted set may have to become packed.
const REPACKED_MAX: usize = ELEMENTS_MAX / 2;

impl SortedSetObject {
    /// An object with the members of a packed sorted set. Bytes that are none give none.
    #[must_use]
    pub fn from_packed(packed: &PackedSortedSet, placement: Placement) -> Self {
        let is_sound = packed.iter().is_sorted_by(|one, next| one.key() < next.key());
        debug_assert!(is_sound, "members ascend");
        let mut object = Self::from_ascending(packed.iter().filter(|_| is_sound), placement);
        object.encoding = packed.encoding();
        object
    }

    /// Whether the sorted set has become so small that it should be packed again.
    #[must_use]
    pub fn should_pack(&self) -> bool {
        self.len() <= REPACKED_MAX && self.order.memory() <= REPACKED_MAX_BYTES
    }

    /// Appends the sorted set as a packed one to `out`, if it can be one. Says whether it did.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        if self.len() > ELEMENTS_MAX {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        PackedSortedSet::set_encoding(&mut bytes, self.encoding);
        for entry in self.iter() {
            let entry = entry?;
            let is_in = PackedSortedSet::set(&mut bytes, entry.member, entry.score).is_ok();
            if !is_in || (entry.due.is_some() && PackedSortedSet::set_due(&mut bytes, entry.member, entry.due).is_err()) {
                return Ok(false);
            }
        }
        out.append(&mut bytes);
        Ok(true)
    }
}
