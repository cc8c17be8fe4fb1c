//! From a packed list to an object, and back.

use almandine_base::object::Missing;

use crate::list::{End, LIST_MAX_BYTES, PackedList};
use crate::packed::REPACKED_MAX;
use crate::tree::Tree;

use super::ListObject;

/// Bytes that a list may have to become packed: half of what it may have to stay so, lest it goes to and fro.
const REPACKED_MAX_BYTES: usize = LIST_MAX_BYTES / 2;

impl ListObject {
    /// An object with the elements of a packed list. Bytes that are none give as many elements as can be read.
    #[must_use]
    pub fn from_packed(packed: &PackedList) -> Self {
        let mut object = Self::new();
        object.encoding = packed.encoding();
        packed.iter().for_each(|element| object.push(End::Right, &element));
        object
    }

    /// Appends the list as a packed one to `out`, if it has become so small that it should be one. Says whether it has.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        let ends = self.head.entries().len() + self.tail.entries().len();
        if self.len() > REPACKED_MAX || ends + self.middle.as_ref().map_or(0, Tree::memory) > REPACKED_MAX_BYTES {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        PackedList::set_encoding(&mut bytes, self.encoding);
        for element in self.iter() {
            if PackedList::push(&mut bytes, End::Right, &element?).is_err() {
                return Ok(false);
            }
        }
        out.append(&mut bytes);
        Ok(true)
    }
}
