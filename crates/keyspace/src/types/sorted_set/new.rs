//! A sorted set that no key has yet, to be filled.

use almandine_datatypes::packed::ELEMENTS_MAX;
use almandine_datatypes::sorted_set::{PackedSortedSet, Scored, SortedSetEncoding, SortedSetObject, Tally, Update};

use super::NewSortedSet;
use super::write::{raise_encoding, set, set_due, set_encoding};
use crate::{Reader, Refusal};

impl Reader<'_> {
    /// An empty tally of members.
    #[must_use]
    pub fn new_tally(&self) -> Tally {
        Tally::new(self.accessor.keyspace.types.placement)
    }
}

impl NewSortedSet {
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
        let (packed, object) = match PackedSortedSet::pack(few.iter().copied()) {
            Some(packed) => (packed, None),
            None => {
                let object = SortedSetObject::from_ascending(few.iter().copied().chain(sound), placement);
                (Vec::new(), Some(Box::new(object)))
            }
        };
        failed?;
        self.replace(packed, object);
        if len > self.limits.entries || longest > self.limits.value {
            set_encoding(self, SortedSetEncoding::SkipList)?;
        } else {
            set_encoding(self, SortedSetEncoding::ListPack)?;
        }
        Ok(())
    }

    /// Takes a large sorted set, whose longest member has `longest` bytes, as all there is.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn take(&mut self, object: SortedSetObject, longest: usize) -> Result<(), Refusal> {
        debug_assert!(self.is_empty(), "all members come at once");
        let is_long = object.len() > self.limits.entries || longest > self.limits.value;
        self.replace(Vec::new(), Some(Box::new(object)));
        set_encoding(self, if is_long { SortedSetEncoding::SkipList } else { SortedSetEncoding::ListPack })
    }

    /// Gives a member a score, which is not NaN.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn set(&mut self, member: &[u8], score: f64) -> Result<Update, Refusal> {
        let update = set(self, member, score)?;
        if update == Update::Added {
            let limits = self.limits;
            raise_encoding(self, member, limits)?;
        }
        Ok(update)
    }

    /// Gives a member another expiry, or none. Says whether there is such a member.
    ///
    /// # Errors
    /// None: all of it is in memory.
    pub fn set_due(&mut self, member: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        set_due(self, member, due)
    }
}
