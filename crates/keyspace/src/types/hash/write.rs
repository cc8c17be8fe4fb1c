//! A hash under its latch, to be changed.

use almandine_base::object;
use almandine_datatypes::hash::PackedHash;
use almandine_datatypes::packed::{self, Due, Encoding, Entry};

use super::edits::{self, Edit};
use super::{Hash, Hashes};
use crate::types::collection::{Body, Draft, Editable, TOGETHER, fetch_ahead};
use crate::{Key, Refusal, Writer};

/// From which size on OBJECT ENCODING names a hash a hash table, as Redis would: `hash-max-listpack-entries` and `hash-max-listpack-value`.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// Fields.
    pub entries: usize,
    /// Bytes of a field or a value.
    pub value: usize,
}

impl HashLimits {
    /// None: where encodings are told, as effects do, none is to be found.
    pub(crate) const NONE: Self = Self { entries: usize::MAX, value: usize::MAX };

    /// The encoding that a write asks for: of a field or value of `longest` bytes, to a hash that then has `fields`.
    pub(super) fn encoding(&self, longest: usize, fields: usize, due: Due) -> Encoding {
        match due {
            _ if longest > self.value || fields > self.entries => Encoding::HashTable,
            Due::At(_) => Encoding::ListPackEx,
            _ => Encoding::ListPack,
        }
    }
}

/// A hash to be changed, under its latch. A key that is absent is an empty one. Of a hash that is packed nothing is stored before
/// [`HashMut::commit`]; an object changes at once, so whatever has changed must be committed.
pub struct HashMut<'w> {
    draft: Draft<'w, Hashes>,
    limits: HashLimits,
}

impl Writer<'_> {
    /// Opens a key as a hash to be changed.
    ///
    /// # Errors
    /// When it is of another type, or must be read from the device first.
    pub fn write_hash<'s>(&'s mut self, key: Key<'s>, limits: HashLimits) -> Result<HashMut<'s>, Refusal> {
        Ok(HashMut { draft: self.open(key)?, limits })
    }
}

impl HashMut<'_> {
    /// Fields that are fetched ahead together.
    pub const AHEAD: usize = TOGETHER;

    /// Whether the key was there.
    #[must_use]
    pub fn existed(&self) -> bool {
        self.draft.existed()
    }

    /// The hash as it is now.
    #[must_use]
    pub fn look(&self) -> Hash<'_> {
        Hash { body: self.draft.body(), now: self.draft.now() }
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.look().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn get(&self, field: &[u8]) -> Result<Option<Entry<'_>>, Refusal> {
        self.look().get(field)
    }

    /// Says that these fields are going to be changed one after the other: [`HashMut::AHEAD`] of them at most are fetched ahead.
    pub fn expect<'f>(&self, fields: impl Iterator<Item = &'f [u8]>) {
        let Body::Object(object) = self.draft.body() else { return };
        let mut hashes = [0; TOGETHER];
        let expected = hashes.iter_mut().zip(fields).map(|(hash, field)| *hash = object.hash(field)).count();
        fetch_ahead(object, &hashes[..expected], true);
    }

    /// Sets a field. Says whether it is new.
    ///
    /// # Errors
    /// When its place is not in memory, or the store is full; then nothing has changed.
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Refusal> {
        self.remove_expired(field)?;
        if self.draft.packed_mut().is_none() {
            return self.edit(field, due, |_| Ok::<_, Refusal>(value)).map(|(is_new, _)| is_new);
        }
        let is_new = set(&mut self.draft, field, value, due)?;
        self.draft.note(|out| Edit::Set { field, value, due }.push(out));
        self.draft.changed(1);
        let fields = if is_new { self.look().raw_len() } else { 0 };
        self.name(self.limits.encoding(field.len().max(value.len()), fields, due))?;
        Ok(is_new)
    }

    /// Sets a field to what `make` makes of the value that it has. Says whether it is new, and what it is.
    ///
    /// # Errors
    /// As [`HashMut::set`], and those of `make`.
    pub fn update<V: AsRef<[u8]>, E: From<Refusal>>(
        &mut self,
        field: &[u8],
        due: Due,
        make: impl FnOnce(Option<&[u8]>) -> Result<V, E>,
    ) -> Result<(bool, V), E> {
        self.remove_expired(field)?;
        if self.draft.packed_mut().is_none() {
            return self.edit(field, due, make);
        }
        let value = make(self.get(field)?.map(|entry| entry.value))?;
        Ok((self.set(field, value.as_ref(), due)?, value))
    }

    /// As [`HashMut::update`], of an object, in one walk.
    fn edit<V: AsRef<[u8]>, E: From<Refusal>>(
        &mut self,
        field: &[u8],
        due: Due,
        make: impl FnOnce(Option<&[u8]>) -> Result<V, E>,
    ) -> Result<(bool, V), E> {
        let limits = self.limits;
        let edited = self.draft.change(|object| {
            let edited = object.edit(field, due, |entry| make(entry.map(|entry| entry.value)))?;
            Ok::<_, object::Missing>(edited.map(|(is_new, value)| {
                let fields = if is_new { object.len() } else { 0 };
                let encoding = limits.encoding(field.len().max(value.as_ref().len()), fields, due);
                let follows = (encoding as u8) > object.encoding() as u8;
                if follows {
                    object.set_encoding(encoding);
                }
                (is_new, value, follows.then_some(encoding))
            }))
        })?;
        match edited.map_err(Refusal::from).map_err(E::from).flatten() {
            Ok((is_new, value, encoding)) => {
                self.draft.note(|out| {
                    Edit::Set { field, value: value.as_ref(), due }.push(out);
                    encoding.into_iter().for_each(|encoding| Edit::Name(encoding).push(out));
                });
                self.draft.changed(1);
                Ok((is_new, value))
            }
            Err(error) => {
                self.draft.refused();
                Err(error)
            }
        }
    }

    /// A field that is past its time and still there is gone first, with its expiry.
    #[inline]
    fn remove_expired(&mut self, field: &[u8]) -> Result<(), Refusal> {
        if self.draft.may_have_expired() && self.get(field)?.is_none() {
            self.remove_any(field)?;
        }
        Ok(())
    }

    fn name(&mut self, encoding: Encoding) -> Result<(), Refusal> {
        if name(&mut self.draft, encoding)? {
            self.draft.note(|out| Edit::Name(encoding).push(out));
        }
        Ok(())
    }

    /// Makes edits that were made to another hash. Those that are none, and all behind them, are left out.
    ///
    /// # Errors
    /// As [`HashMut::set`].
    pub(in crate::types) fn replay(&mut self, mut edits: &[u8]) -> Result<(), Refusal> {
        while let Some(edit) = edits::next(&mut edits) {
            match edit {
                Edit::Set { field, value, due } => drop(self.set(field, value, due)?),
                Edit::SetDue { field, due } => drop(self.set_due(field, due)?),
                Edit::Remove { field } => drop(self.remove(field)?),
                Edit::Name(encoding) => self.name(encoding)?,
            }
        }
        Ok(())
    }

    /// Gives a field another expiry, or none. Says whether there is such a field.
    ///
    /// # Errors
    /// As [`HashMut::set`].
    pub fn set_due(&mut self, field: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        let Some(before) = self.get(field)?.map(|entry| entry.due) else { return Ok(false) };
        self.draft.changed(1);
        if before == due {
            // That is a change, too.
            return Ok(true);
        }
        if let Some(packed) = self.draft.packed_mut() {
            match PackedHash::new(packed).set_due(field, due) {
                Some(Ok(edit)) => edit.apply(packed),
                _ => self.draft.unpack(),
            }
        }
        if let Body::Object(_) = self.draft.body() {
            self.draft.change(|object| object.set_due(field, due))??;
            self.draft.note(|out| Edit::SetDue { field, due }.push(out));
        }
        if due.is_some() {
            self.name(Encoding::ListPackEx)?;
        }
        Ok(true)
    }

    /// Removes a field. Says whether there was one.
    ///
    /// # Errors
    /// As [`HashMut::set`].
    pub fn remove(&mut self, field: &[u8]) -> Result<bool, Refusal> {
        if self.get(field)?.is_none() {
            return Ok(false);
        }
        self.draft.changed(1);
        self.remove_any(field)
    }

    /// Says that all changes together count as one.
    pub fn count_once(&mut self) {
        self.draft.count_once();
    }

    fn remove_any(&mut self, field: &[u8]) -> Result<bool, Refusal> {
        let removed = if let Some(packed) = self.draft.packed_mut() {
            let edit = PackedHash::new(packed).remove(field).map(|(edit, _)| edit);
            edit.inspect(|edit| edit.apply(packed)).is_some()
        } else {
            let removed = self.draft.change(|object| object.remove(field))??;
            self.draft.note(|out| Edit::Remove { field }.push(out));
            removed
        };
        if removed {
            self.draft.changed(0);
        }
        Ok(removed)
    }

    /// Stores what has changed. A hash without fields is no key.
    ///
    /// # Errors
    /// When the store is full; then a packed hash is as it was.
    pub fn commit(self) -> Result<(), Refusal> {
        self.draft.commit()
    }
}

/// Sets a field of a hash in either form. Says whether it is new.
pub(super) fn set(hash: &mut impl Editable<Hashes>, field: &[u8], value: &[u8], due: Due) -> Result<bool, Refusal> {
    if let Some(packed) = hash.packed_mut() {
        match PackedHash::new(packed).set(field, value, due) {
            Ok((edit, is_new)) => {
                edit.apply(packed);
                return Ok(is_new);
            }
            Err(packed::Full) => hash.unpack(),
        }
    }
    Ok(hash.change(|object| object.set(field, value, due))??)
}

/// Lets OBJECT ENCODING name an encoding if that follows the present one. Says whether it does.
pub(super) fn name(hash: &mut impl Editable<Hashes>, encoding: Encoding) -> Result<bool, Refusal> {
    if (Hash { body: hash.body(), now: 0 }).encoding() as u8 >= encoding as u8 {
        return Ok(false);
    }
    match hash.packed_mut() {
        Some(packed) => PackedHash::new(packed).set_encoding(encoding).apply(packed),
        None => hash.change(|object| object.set_encoding(encoding))?,
    }
    Ok(true)
}
