//! A sorted set made by itself, which becomes the value of a key whatever that was.

use almandine_datatypes::hash::Placement;
use almandine_datatypes::packed::ELEMENTS_MAX;
use almandine_datatypes::sorted_set::{
    PackedSortedSet, Scored, SortedSetEncoding, SortedSetLimits, SortedSetObject, Tally, Update,
};
use almandine_store::{Full, Put};

use super::SortedSets;
use super::write::{name, set, set_due, set_encoding};
use crate::types::collection::{Editable, New};
use crate::{Key, Reader, Refusal, Writer};

/// A sorted set that no key has yet.
pub struct NewSortedSet {
    new: New<SortedSets>,
    limits: SortedSetLimits,
    placement: Placement,
}

impl Writer<'_> {
    /// An empty sorted set, to be filled and then put to a key.
    #[must_use]
    pub fn new_sorted_set(&self, limits: SortedSetLimits) -> NewSortedSet {
        NewSortedSet { new: self.new_collection(), limits, placement: self.accessor.keyspace.types.placement }
    }

    /// Sets a key to a sorted set with at least one member, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn put_sorted_set(&mut self, key: Key<'_>, new: NewSortedSet, put: Put) -> Result<(), Full> {
        self.put_new(key, new.new, put)
    }
}

impl Reader<'_> {
    /// An empty tally of members.
    #[must_use]
    pub fn new_tally(&self) -> Tally {
        Tally::new(self.accessor.keyspace.types.placement)
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

    /// Takes members that ascend as all there are.
    ///
    /// # Errors
    /// Those of the members; then it is as before.
    pub fn fill<'m>(&mut self, members: impl Iterator<Item = Result<Scored<'m>, Refusal>>) -> Result<(), Refusal> {
        debug_assert!(self.is_empty(), "all members come at once");
        let (mut failed, mut longest, mut len) = (Ok(()), 0, 0);
        let mut sound = members.map_while(|entry| entry.inspect_err(|error| failed = Err(*error)).ok()).inspect(|entry| {
            longest = longest.max(entry.member.len());
            len += 1;
        });
        let mut few: Vec<Scored<'m>> = sound.by_ref().take(ELEMENTS_MAX + 1).collect();
        if few.len() <= self.limits.entries.min(ELEMENTS_MAX) && few.iter().all(|entry| entry.member.len() <= self.limits.value) {
            // A listpack has no negative zero, as in Redis.
            few.iter_mut().for_each(|entry| entry.score += 0.0);
        }
        let placement = self.placement;
        let new = match PackedSortedSet::pack(few.iter().copied()) {
            Some(packed) => New::of(packed, None, placement),
            None => {
                let object = SortedSetObject::from_ascending(few.iter().copied().chain(sound), placement);
                New::of(Vec::new(), Some(Box::new(object)), placement)
            }
        };
        failed?;
        self.new = new;
        if len > self.limits.entries || longest > self.limits.value {
            set_encoding(&mut self.new, SortedSetEncoding::SkipList)?;
        } else {
            set_encoding(&mut self.new, SortedSetEncoding::ListPack)?;
        }
        Ok(())
    }

    /// Takes a large sorted set, whose longest member has so many bytes, as all there is.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn take(&mut self, object: SortedSetObject, longest: usize) -> Result<(), Refusal> {
        debug_assert!(self.is_empty(), "all members come at once");
        let is_long = object.len() > self.limits.entries || longest > self.limits.value;
        self.new = New::of(Vec::new(), Some(Box::new(object)), self.placement);
        set_encoding(&mut self.new, if is_long { SortedSetEncoding::SkipList } else { SortedSetEncoding::ListPack })
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
