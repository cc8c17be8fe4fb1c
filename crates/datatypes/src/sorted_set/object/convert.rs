//! From a packed sorted set to an object, and back.

use almandine_base::object::Missing;

use crate::hashed::Placement;
use crate::packed::{REPACKED_MAX, REPACKED_MAX_BYTES};
use crate::sorted_set::PackedSortedSet;

use super::SortedSetObject;

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

    /// Appends the sorted set as a packed one to `out`, if it has become so small that it should be one. Says whether it has.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        if self.len() > REPACKED_MAX || self.order.memory() > REPACKED_MAX_BYTES {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        PackedSortedSet::set_encoding(&mut bytes, self.encoding);
        for entry in self.order().iter() {
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
