//! A list made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::list::{End, ListLimits};
use almandine_store::{Full, Put};

use super::Lists;
use super::write::{name, outgrows, push};
use crate::types::collection::{Editable, New};
use crate::{Key, Refusal, Writer};

/// A list that no key has yet.
pub struct NewList {
    new: New<Lists>,
    limits: ListLimits,
}

impl Writer<'_> {
    /// An empty list, to be filled and then put to a key.
    #[must_use]
    pub fn new_list(&self, limits: ListLimits) -> NewList {
        NewList { new: self.new_collection(), limits }
    }

    /// Sets a key to a list with at least one element, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_list(&mut self, key: Key<'_>, list: NewList, put: Put) -> Result<(), Full> {
        self.put_new(key, list.new, put)
    }
}

impl NewList {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.new.body().elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.new.memory()
    }

    /// Puts an element behind all others.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn push(&mut self, element: &[u8]) -> Result<(), Refusal> {
        if let Some(encoding) = outgrows(&self.new, self.limits, (element.len(), 1))? {
            name(&mut self.new, encoding)?;
        }
        push(&mut self.new, End::Right, element)
    }
}
