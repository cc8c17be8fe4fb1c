//! A set made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::packed::SetLimits;
use almandine_datatypes::set::{Algebra, Builder};
use almandine_store::{Full, Put};

use super::Sets;
use crate::types::collection::New;
use crate::{Key, Refusal, Writer};

/// A set that no key has yet.
pub struct NewSet {
    builder: Builder,
}

impl Writer<'_> {
    /// An empty set, to be filled and then put to a key.
    #[must_use]
    pub fn new_set(&self, limits: SetLimits) -> NewSet {
        NewSet { builder: Builder::new(self.accessor.keyspace.types.placement, limits) }
    }

    /// Sets a key to a set with at least one member, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_set(&mut self, key: Key<'_>, set: NewSet, put: Put) -> Result<(), Full> {
        let (packed, object) = set.builder.finish();
        let placement = self.accessor.keyspace.types.placement;
        self.put_new(key, New::<Sets>::of(packed, object, placement), put)
    }
}

impl NewSet {
    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.builder.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.builder.is_empty()
    }

    /// Adds a member. Says whether it is new.
    ///
    /// # Errors
    /// When a part of a set that it shares is not in memory.
    pub fn add(&mut self, member: &[u8]) -> Result<bool, Refusal> {
        Ok(self.builder.add(member)?)
    }

    /// Adds the result of an operation to a set that is empty.
    ///
    /// # Errors
    /// When a part of a set is not in memory.
    pub fn add_result(&mut self, algebra: &Algebra<'_>) -> Result<(), Refusal> {
        Ok(algebra.build(&mut self.builder)?)
    }
}
