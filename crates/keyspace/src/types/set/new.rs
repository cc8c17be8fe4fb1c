//! A set made by itself, which becomes the value of a key whatever that was.

use std::sync::Arc;

use almandine_datatypes::set::{Algebra, Builder, Position, SetLimits, Source};
use almandine_store::{HeapValue, Put, SharedValue};

use super::Sets;
use crate::types::collection::Collection;
use crate::{Key, Keyspace, Reader, Refusal, Writer};

/// A set that no key has yet.
pub struct NewSet {
    builder: Builder,
    keyspace: Arc<Keyspace>,
}

impl Reader<'_> {
    /// An empty set, to be filled.
    #[must_use]
    pub fn new_set(&self, limits: SetLimits) -> NewSet {
        let keyspace = Arc::clone(&self.accessor.keyspace);
        NewSet { builder: Builder::new(keyspace.types.placement, limits), keyspace }
    }
}

impl Writer<'_> {
    /// Sets a key to a set with at least one member, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_set(&mut self, key: Key<'_>, mut set: NewSet, put: Put) -> Result<(), Refusal> {
        let (packed, object) = set.builder.take();
        let mut new = self.new_value::<Sets>(Sets::UNLIMITED);
        new.replace(packed, object);
        self.put_value(key, new, put)
    }
}

impl NewSet {
    /// The set as set algebra takes it.
    #[must_use]
    pub fn source(&self) -> Source<'_> {
        self.builder.as_source()
    }

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

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.builder.memory()
    }

    /// Adds a member. Says whether it is new.
    ///
    /// # Errors
    /// When a part of a set that it shares is not in memory.
    pub fn add(&mut self, member: &[u8]) -> Result<bool, Refusal> {
        Ok(self.builder.add(member)?)
    }

    /// Members that [`NewSet::add_result`] meets at most.
    #[must_use]
    pub fn work(&self, algebra: &Algebra<'_>) -> usize {
        algebra.build_work(&self.builder)
    }

    /// Adds the result of an operation to a set that was empty before the first step: see [`Algebra::build`].
    ///
    /// # Errors
    /// When a part of a set is not in memory.
    pub fn add_result(&mut self, algebra: &Algebra<'_>, from: Position, steps: usize) -> Result<Option<Position>, Refusal> {
        Ok(algebra.build(from, steps, &mut self.builder)?)
    }

    /// Adds members of the sets that an operation should have gathered: see [`Algebra::gather`].
    ///
    /// # Errors
    /// When a part of a set is not in memory.
    pub fn gather(&mut self, algebra: &Algebra<'_>, from: Position, steps: usize) -> Result<Option<Position>, Refusal> {
        Ok(algebra.gather(from, steps, &mut self.builder)?)
    }
}

impl Drop for NewSet {
    fn drop(&mut self) {
        if let (_, Some(object)) = self.builder.take() {
            // What is large is freed in the background.
            self.keyspace.store.release(SharedValue::new(HeapValue::object(object)));
        }
    }
}
