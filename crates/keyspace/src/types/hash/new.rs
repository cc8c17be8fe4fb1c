//! A hash made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::{Due, PackedHash};
use almandine_store::{Full, Put};

use super::write::{HashLimits, store};
use crate::{Key, Refusal, Writer};

/// A hash that no key has yet.
pub struct NewHash {
    packed: Vec<u8>,
    /// Once it is too large to be packed.
    object: Option<Box<HashObject>>,
    placement: Placement,
    limits: HashLimits,
}

impl Writer<'_> {
    /// An empty hash, to be filled and then put to a key.
    #[must_use]
    pub fn new_hash(&self, limits: HashLimits) -> NewHash {
        NewHash { packed: Vec::new(), object: None, placement: self.accessor.keyspace.types.placement, limits }
    }

    /// Sets a key to a hash with at least one field, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_hash(&mut self, key: Key<'_>, hash: NewHash, put: Put) -> Result<(), Full> {
        debug_assert!(!hash.is_empty(), "a hash without fields is no key");
        let key = self.current(key);
        let slot = self.accessor.session.entry_to_replace(key);
        store(slot, &hash.packed, hash.object, hash.placement, put)
    }
}

impl NewHash {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.object.as_ref().map_or_else(|| PackedHash::new(&self.packed).len(), |object| object.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a field. Says whether it is new.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        let due = due.map_or(Due::Never, Due::At);
        let is_new = self.set_any(field, value, due)?;
        let encoding = self.limits.encoding(field.len().max(value.len()), self.len(), due);
        match &mut self.object {
            Some(object) if encoding as u8 > object.encoding() as u8 => object.set_encoding(encoding),
            None if encoding as u8 > PackedHash::new(&self.packed).encoding() as u8 => {
                PackedHash::new(&self.packed).set_encoding(encoding).apply(&mut self.packed);
            }
            _ => {}
        }
        Ok(is_new)
    }

    fn set_any(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Refusal> {
        if self.object.is_none()
            && let Ok((edit, is_new)) = PackedHash::new(&self.packed).set(field, value, due)
        {
            edit.apply(&mut self.packed);
            return Ok(is_new);
        }
        let (packed, placement) = (PackedHash::new(&self.packed), self.placement);
        let object = self.object.get_or_insert_with(|| Box::new(HashObject::from_packed(&packed, placement)));
        Ok(object.set(field, value, due)?)
    }
}
