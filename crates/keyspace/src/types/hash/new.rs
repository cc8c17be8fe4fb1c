//! A hash made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::packed::Due;
use almandine_store::{Full, Put};

use super::Hashes;
use super::write::{HashLimits, name, set};
use crate::types::collection::{Editable, New};
use crate::{Key, Refusal, Writer};

/// A hash that no key has yet.
pub struct NewHash {
    new: New<Hashes>,
    limits: HashLimits,
}

impl Writer<'_> {
    /// An empty hash, to be filled and then put to a key.
    #[must_use]
    pub fn new_hash(&self, limits: HashLimits) -> NewHash {
        NewHash { new: self.new_collection(), limits }
    }

    /// Sets a key to a hash with at least one field, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_hash(&mut self, key: Key<'_>, hash: NewHash, put: Put) -> Result<(), Full> {
        self.put_new(key, hash.new, put)
    }
}

impl NewHash {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.new.body().elements()
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
        let is_new = set(&mut self.new, field, value, due)?;
        let encoding = self.limits.encoding(field.len().max(value.len()), self.len(), due);
        name(&mut self.new, encoding)?;
        Ok(is_new)
    }
}
