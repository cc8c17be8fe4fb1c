//! From a packed set to an object, and back.

use almandine_base::object::Missing;

use crate::hashed::Placement;
use crate::packed::{ELEMENTS_MAX, PACKED_MAX_BYTES};
use crate::set::PackedSet;

use super::SetObject;

/// Bytes that a set may have to become packed: half of what it may have to stay so, lest it goes to and fro.
const REPACKED_MAX_BYTES: usize = PACKED_MAX_BYTES / 2;

/// Members that a set may have to become packed.
const REPACKED_MAX: usize = ELEMENTS_MAX / 2;

impl SetObject {
    /// An object with the members of a packed set. Bytes that are no packed set give as many members as can be read.
    #[must_use]
    pub fn from_packed(packed: &PackedSet, placement: Placement) -> Self {
        let mut object = Self::new(placement);
        object.set_encoding(packed.encoding());
        for member in packed.iter() {
            let added = object.add(&member);
            debug_assert!(added.is_ok(), "what was just made is in memory");
        }
        object
    }

    /// Whether the set has become so small that it should be packed again.
    #[must_use]
    pub fn should_pack(&self) -> bool {
        self.len() <= REPACKED_MAX && self.members.memory() <= REPACKED_MAX_BYTES
    }

    /// Appends the set as a packed one to `out`, if it can be one. Says whether it did.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        if self.len() > ELEMENTS_MAX {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        for member in self.iter() {
            if PackedSet::add(&mut bytes, member?).is_err() {
                return Ok(false);
            }
        }
        PackedSet::set_encoding(&mut bytes, self.encoding());
        out.append(&mut bytes);
        Ok(true)
    }
}
