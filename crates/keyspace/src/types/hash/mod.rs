//! Hashes: a key read and changed as one.
//!
//! A field past its time is absent here, whether or not it has been removed.

mod edits;
mod new;
#[cfg(test)]
mod tests;
mod write;

pub use write::HashLimits;

use almandine_base::object::{self, Object};
use almandine_datatypes::hash::{HashObject, PackedHash, Placement};
use almandine_datatypes::packed::{FieldEntry, HashEncoding};
use almandine_store::Kind;

use self::edits::HashEdit;
use super::collection::{Collection, Contents, New, Snapshot, TOGETHER, ValueMut, fetch_ahead, sample, visit_while};
use crate::Refusal;

/// The type of hashes.
pub struct Hashes;

/// A hash that no key has yet.
pub type NewHash = New<Hashes>;

/// A large hash as it was at one time.
pub type HashSnapshot = Snapshot<Hashes>;

/// A hash to be changed, under its latch.
pub type HashMut<'w> = ValueMut<'w, Hashes>;

impl Collection for Hashes {
    const KIND: Kind = Kind::Hash;
    type Object = HashObject;
    type Packed<'p> = PackedHash<'p>;
    type View<'v> = Hash<'v>;
    type Limits = HashLimits;
    type Edit<'e> = HashEdit<'e>;

    const UNLIMITED: HashLimits = HashLimits { entries: usize::MAX, value: usize::MAX };

    fn packed(bytes: &[u8]) -> PackedHash<'_> {
        PackedHash::new(bytes)
    }

    fn packed_len(packed: PackedHash<'_>) -> usize {
        packed.len()
    }

    fn unpack(packed: PackedHash<'_>, placement: Placement) -> HashObject {
        HashObject::from_packed(&packed, placement)
    }

    fn pack(object: &HashObject, out: &mut Vec<u8>) -> Result<bool, object::Missing> {
        object.pack(out)
    }

    #[inline]
    fn view(contents: Contents<'_, Self>, now: u64) -> Hash<'_> {
        Hash { contents, now }
    }

    fn len(contents: Contents<'_, Self>, now: u64) -> usize {
        Hash { contents, now }.len()
    }

    /// Fields that are past their time and still there are rare; then the exact number takes a walk.
    fn live_len(object: &HashObject, now: u64) -> usize {
        if object.next_due().is_some_and(|due| due <= now) {
            object.iter().filter(|entry| entry.as_ref().is_ok_and(|entry| is_live(entry, now))).count()
        } else {
            object.len()
        }
    }

    fn replay(hash: &mut HashMut<'_>, edit: HashEdit<'_>) -> Result<(), Refusal> {
        match edit {
            HashEdit::Set { field, value, due } => drop(hash.set(field, value, due)?),
            HashEdit::SetDue { field, due } => drop(hash.set_due(field, due)?),
            HashEdit::Remove { field } => drop(hash.remove(field)?),
            HashEdit::SetEncoding(encoding) => hash.raise_encoding(encoding)?,
        }
        Ok(())
    }

    fn is_expired(contents: Contents<'_, Self>, now: u64) -> bool {
        let hash = Hash { contents, now };
        hash.next_due().is_some_and(|due| due <= now) && hash.is_empty()
    }
}

/// A hash to be read.
#[derive(Clone, Copy)]
pub struct Hash<'h> {
    contents: Contents<'h, Hashes>,
    now: u64,
}

impl<'h> Hash<'h> {
    /// How many fields there are. Of a large hash, those that are past their time and not yet removed are counted.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.contents {
            Contents::Packed(packed) if packed.next_due().is_some_and(|due| due <= self.now) => self.iter().count(),
            Contents::Packed(packed) => packed.len(),
            Contents::Object(object) => object.len(),
        }
    }

    /// How many fields there are, those past their time and not yet removed included.
    #[must_use]
    pub fn raw_len(&self) -> usize {
        self.contents.elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is so large that a reply with all of it should be made from a snapshot ([`HashSnapshot`]).
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.contents.is_large()
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> HashEncoding {
        match self.contents {
            Contents::Packed(packed) => packed.encoding(),
            Contents::Object(object) => object.encoding(),
        }
    }

    /// When the first of its fields expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        match self.contents {
            Contents::Packed(packed) => packed.next_due(),
            Contents::Object(object) => object.next_due(),
        }
    }

    /// A field.
    ///
    /// # Errors
    /// When it is not in memory.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Result<Option<FieldEntry<'h>>, Refusal> {
        let found = match self.contents {
            Contents::Packed(packed) => packed.find(field),
            Contents::Object(object) => object.find(field)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// Visits fields by their names, in the order of these.
    ///
    /// # Errors
    /// When one is not in memory; those before it were visited.
    pub fn get_each<'f>(
        &self,
        fields: impl Iterator<Item = &'f [u8]>,
        mut visit: impl FnMut(Option<FieldEntry<'h>>),
    ) -> Result<(), Refusal> {
        let mut fields = fields.peekable();
        let Contents::Object(object) = self.contents else {
            return fields.try_for_each(|field| self.get(field).map(&mut visit));
        };
        let (mut names, mut hashes) = ([&[][..]; TOGETHER], [0; TOGETHER]);
        while fields.peek().is_some() {
            let mut count = 0;
            for ((name, hash), field) in names.iter_mut().zip(&mut hashes).zip(fields.by_ref().take(TOGETHER)) {
                (*name, *hash) = (field, object.hash(field));
                count += 1;
            }
            fetch_ahead(object, &hashes[..count], false);
            for (hash, name) in hashes.iter().zip(&names[..count]) {
                visit(object.find_hashed(*hash, name)?.filter(|entry| is_live(entry, self.now)));
            }
        }
        Ok(())
    }

    /// All fields. What is not in memory ends them with an error.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<FieldEntry<'h>, Refusal>> {
        let (packed, object) = match self.contents {
            Contents::Packed(packed) => (Some(packed.iter()), None),
            Contents::Object(object) => (None, Some(object.iter())),
        };
        let now = self.now;
        let packed = packed.into_iter().flatten().map(Ok);
        let all = packed.chain(object.into_iter().flatten().map(|entry| entry.map_err(Refusal::from)));
        all.filter(move |entry| entry.as_ref().map_or(true, |entry| is_live(entry, now)))
    }

    /// Visits all fields, in the order of [`Hash::try_iter`] and in less time.
    ///
    /// # Errors
    /// When a part is not in memory; what is before it was visited.
    #[inline]
    pub fn visit(&self, mut visit: impl FnMut(FieldEntry<'h>)) -> Result<(), Refusal> {
        let now = self.now;
        match self.contents {
            Contents::Packed(packed) => packed.iter().filter(|entry| is_live(entry, now)).for_each(visit),
            Contents::Object(object) => object.visit(|entry| {
                if is_live(&entry, now) {
                    visit(entry);
                }
            })?,
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = FieldEntry<'h>> {
        self.try_iter().filter_map(Result::ok)
    }

    /// The field at a place, below [`Hash::len`], of an order that only changes change. None: it is past its time.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<FieldEntry<'h>>, Refusal> {
        let found = match self.contents {
            Contents::Packed(_) => self.iter().nth(rank),
            Contents::Object(object) => object.nth(rank)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// Visits `count` different fields at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// When a part of the hash is not in memory; what was visited is no sample then.
    pub fn sample(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        visit: &mut dyn FnMut(FieldEntry<'_>),
    ) -> Result<(), Refusal> {
        let now = self.now;
        match self.contents {
            Contents::Packed(_) => sample(self.try_iter(), self.len(), count, random, visit),
            Contents::Object(object) => Ok(object.sample(count, random, &mut |entry| {
                if is_live(&entry, now) {
                    visit(entry);
                }
            })?),
        }
    }

    /// Visits fields from `cursor` on, about `count` of a large hash, and returns the cursor to go on with; 0 begins and ends.
    ///
    /// # Errors
    /// When a part of the hash is not in memory; what was visited is visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(FieldEntry<'_>)) -> Result<u64, Refusal> {
        let now = self.now;
        match self.contents {
            Contents::Packed(_) => {
                self.iter().for_each(visit);
                Ok(0)
            }
            Contents::Object(object) => Ok(object.scan(cursor, count, &mut |entry| {
                if is_live(&entry, now) {
                    visit(entry);
                }
            })?),
        }
    }
}

fn is_live(entry: &FieldEntry<'_>, now: u64) -> bool {
    entry.due.is_none_or(|due| due > now)
}

impl HashSnapshot {
    /// Visits fields from the place `from` on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the hash is not in memory.
    pub fn visit_from(&self, from: usize, mut visit: impl FnMut(FieldEntry<'_>) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.object() else { return Ok(None) };
        visit_while(from, object.iter_from(from), |entry| !is_live(&entry, self.now()) || visit(entry))
    }
}
