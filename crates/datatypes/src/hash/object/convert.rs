//! From a packed hash to an object, and back.

use almandine_base::object::Missing;

use crate::hash::PackedHash;
use crate::hashed::Placement;
use crate::packed::{Due, ELEMENTS_MAX, PACKED_MAX_BYTES};

use super::HashObject;

/// Bytes that a hash may have to become packed: half of what it may have to stay so, lest it goes to and fro.
const REPACKED_MAX_BYTES: usize = PACKED_MAX_BYTES / 2;

/// Fields that a hash may have to become packed.
const REPACKED_MAX: usize = ELEMENTS_MAX / 2;

impl HashObject {
    /// An object with the fields of a packed hash. Bytes that are no packed hash give as many fields as can be read.
    #[must_use]
    pub fn from_packed(packed: &PackedHash, placement: Placement) -> Self {
        let mut object = Self::new(placement);
        object.encoding = packed.encoding();
        for entry in packed.iter() {
            let due = entry.due.map_or(Due::Never, Due::At);
            let set = object.set(entry.field, entry.value, due);
            debug_assert!(set.is_ok(), "what was just made is in memory");
        }
        object
    }

    /// Whether the hash has become so small that it should be packed again.
    #[must_use]
    pub fn should_pack(&self) -> bool {
        self.len() <= REPACKED_MAX && self.fields.memory() <= REPACKED_MAX_BYTES
    }

    /// Appends the hash as a packed one to `out`, if it can be one. Says whether it did.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        if self.len() > ELEMENTS_MAX {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        PackedHash::new(&[]).set_encoding(self.encoding).apply(&mut bytes);
        for entry in self.iter() {
            let entry = entry?;
            let due = entry.due.map_or(Due::Never, Due::At);
            let Ok((edit, _)) = PackedHash::new(&bytes).set(entry.field, entry.value, due) else { return Ok(false) };
            edit.apply(&mut bytes);
        }
        out.append(&mut bytes);
        Ok(true)
    }
}
