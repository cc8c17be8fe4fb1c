//! A large set: what only sets do.

use almandine_base::object::{Kind, Missing};

use super::{PackedSet, SetEncoding};
use crate::hashed::{HashedIter, HashedObject, HashedType, Placement, below};
use crate::packed::entry::Bare;
use crate::packed::{Due, FieldEntry};

/// A set of any number of members, each below 2 GiB. They do not expire.
pub type SetObject = HashedObject<Bare>;

/// The members of a set. Ends after an error.
pub type SetIter<'a> = HashedIter<'a, Bare>;

impl HashedType for Bare {
    type Encoding = SetEncoding;
    type Item<'a> = &'a [u8];
    const KIND: Kind = Kind::Set;
    const MAGIC: [u8; 3] = *b"AS\x01";
    const LARGE: SetEncoding = SetEncoding::HashTable;

    fn encoding(number: u8) -> SetEncoding {
        SetEncoding::from_number(number)
    }

    fn number(encoding: SetEncoding) -> u8 {
        encoding as u8
    }

    #[inline]
    fn item(entry: FieldEntry<'_>) -> &[u8] {
        entry.field
    }
}

impl SetObject {
    /// An object with the members of a packed set. Bytes that are no packed set give as many members as can be read.
    #[must_use]
    pub fn from_packed(packed: &PackedSet, placement: Placement) -> Self {
        let mut object = Self::new(placement);
        object.set_encoding(packed.encoding());
        for member in packed.iter() {
            let added = object.add(&member);
            debug_assert!(added.is_ok(), "what was just made is in memory");
        }
        object
    }

    /// Appends the set as a packed one to `out`, if it has become so small that it should be one. Says whether it has.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        if !self.is_small() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        for member in self.iter() {
            if PackedSet::add(&mut bytes, member?).is_err() {
                return Ok(false);
            }
        }
        PackedSet::set_encoding(&mut bytes, self.encoding());
        out.append(&mut bytes);
        Ok(true)
    }

    /// Whether it has a member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> Result<bool, Missing> {
        Ok(self.entry(self.hash(member), member)?.is_some())
    }

    /// Adds a member. Says whether it is new.
    pub fn add(&mut self, member: &[u8]) -> Result<bool, Missing> {
        let hash = self.hash(member);
        // What is there already copies no path.
        Ok(self.entry(hash, member)?.is_none() && self.put(hash, member, &[], Due::Keep)?)
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &[u8]) -> Result<(), Missing> {
        let is_new = self.put(self.hash(member), member, &[], Due::Keep)?;
        debug_assert!(is_new, "a member that is there is not added");
        Ok(())
    }

    /// Removes `count` members at random, or all if they are fewer, and tells each to `taken`. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; those that were told are gone.
    pub fn pop(&mut self, count: usize, random: &mut dyn FnMut() -> u64, taken: &mut dyn FnMut(&[u8])) -> Result<(), Missing> {
        let mut name = Vec::new();
        for _ in 0..count.min(self.len()) {
            let rank = below(random(), self.len());
            let Some(member) = self.nth(rank)? else { break };
            name.clear();
            name.extend_from_slice(member);
            self.remove(&name)?;
            taken(&name);
        }
        Ok(())
    }
}
