//! A sorted set made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::packed::{SortedSetLimits, Update};
use almandine_store::{Full, Put};

use super::SortedSets;
use super::write::{name, set, set_due};
use crate::types::collection::{Editable, New};
use crate::{Key, Refusal, Writer};

/// A sorted set that no key has yet.
pub struct NewSortedSet {
    new: New<SortedSets>,
    limits: SortedSetLimits,
}

impl Writer<'_> {
    /// An empty sorted set, to be filled and then put to a key.
    #[must_use]
    pub fn new_sorted_set(&self, limits: SortedSetLimits) -> NewSortedSet {
        NewSortedSet { new: self.new_collection(), limits }
    }

    /// Sets a key to a sorted set with at least one member, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_sorted_set(&mut self, key: Key<'_>, new: NewSortedSet, put: Put) -> Result<(), Full> {
        self.put_new(key, new.new, put)
    }
}

impl NewSortedSet {
    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.new.body().elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives a member a score, which is not NaN.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn set(&mut self, member: &[u8], score: f64) -> Result<Update, Refusal> {
        let update = set(&mut self.new, member, score)?;
        if update == Update::Added {
            name(&mut self.new, member, self.limits)?;
        }
        Ok(update)
    }

    /// Gives a member another expiry, or none. Says whether there is such a member.
    ///
    /// # Errors
    /// As [`NewSortedSet::set`].
    pub fn set_due(&mut self, member: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        set_due(&mut self.new, member, due)
    }
}
