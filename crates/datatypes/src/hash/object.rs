//! A large hash: what only hashes do.

use almandine_base::object::{Kind, Missing};

use super::PackedHash;
use crate::hashed::{HashedObject, HashedType, Placement};
use crate::packed::entry::Valued;
use crate::packed::{Due, FieldEntry, HashEncoding};

/// A hash of any number of fields. A field and its value have less than 2 GiB together.
pub type HashObject = HashedObject<Valued>;

impl HashedType for Valued {
    type Encoding = HashEncoding;
    type Item<'a> = FieldEntry<'a>;
    const KIND: Kind = Kind::Hash;
    const MAGIC: [u8; 3] = *b"AH\x01";
    const LARGE: HashEncoding = HashEncoding::HashTable;

    fn encoding(number: u8) -> HashEncoding {
        HashEncoding::from_number(number)
    }

    fn number(encoding: HashEncoding) -> u8 {
        encoding as u8
    }

    #[inline]
    fn item(entry: FieldEntry<'_>) -> FieldEntry<'_> {
        entry
    }
}

impl HashObject {
    /// An object with the fields of a packed hash. Bytes that are no packed hash give as many fields as can be read.
    #[must_use]
    pub fn from_packed(packed: &PackedHash, placement: Placement) -> Self {
        let mut object = Self::new(placement);
        object.set_encoding(packed.encoding());
        for entry in packed.iter() {
            let set = object.set(entry.field, entry.value, entry.due.map_or(Due::Never, Due::At));
            debug_assert!(set.is_ok(), "what was just made is in memory");
        }
        object
    }

    /// Appends the hash as a packed one to `out`, if it has become so small that it should be one. Says whether it has.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; `out` is as before.
    pub fn pack(&self, out: &mut Vec<u8>) -> Result<bool, Missing> {
        if !self.is_small() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        PackedHash::new(&[]).set_encoding(self.encoding()).apply(&mut bytes);
        for entry in self.iter() {
            let entry = entry?;
            let due = entry.due.map_or(Due::Never, Due::At);
            let Ok((edit, _)) = PackedHash::new(&bytes).set(entry.field, entry.value, due) else { return Ok(false) };
            edit.apply(&mut bytes);
        }
        out.append(&mut bytes);
        Ok(true)
    }

    /// The field's entry.
    #[inline]
    pub fn find(&self, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Missing> {
        self.entry(self.hash(field), field)
    }

    /// A field whose hash is known.
    #[inline]
    pub fn find_hashed(&self, hash: u64, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Missing> {
        self.entry(hash, field)
    }

    /// Sets a field. Says whether it is new.
    #[inline]
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        self.put(self.hash(field), field, value, due)
    }

    /// Sets a field to what `make` makes of the entry that it has, in one walk. Returns that, and whether the field is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; `make` was not called. And those of `make`; nothing has changed then.
    pub fn edit<V: AsRef<[u8]>, E>(
        &mut self,
        field: &[u8],
        due: Due,
        make: impl FnOnce(Option<FieldEntry<'_>>) -> Result<V, E>,
    ) -> Result<Result<(bool, V), E>, Missing> {
        self.edit_entry(field, due, make)
    }

    /// Gives a field another expiry, or none. Says whether there is such a field.
    pub fn set_due(&mut self, field: &[u8], due: Option<u64>) -> Result<bool, Missing> {
        self.put_due(field, due)
    }
}
