//! A hash under its latch, to be changed.

use almandine_base::object;
use almandine_datatypes::hash::PackedHash;
use almandine_datatypes::packed::{self, Due, FieldEntry, HashEncoding};

use super::edits::HashEdit;
use super::{Hash, HashMut, Hashes};
use crate::Refusal;
use crate::types::collection::{Contents, EditBytes, Editable, TOGETHER, fetch_ahead};

/// From which size on OBJECT ENCODING names a hash a hash table, as Redis would: `hash-max-listpack-entries` and
/// `hash-max-listpack-value`.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// Fields.
    pub entries: usize,
    /// Bytes of a field or a value.
    pub value: usize,
}

impl HashLimits {
    /// The encoding that a write asks for: of a field or value of `longest` bytes, to a hash that then has `fields`.
    pub(super) fn encoding(&self, longest: usize, fields: usize, due: Due) -> HashEncoding {
        match due {
            _ if longest > self.value || fields > self.entries => HashEncoding::HashTable,
            Due::At(_) => HashEncoding::ListPackEx,
            _ => HashEncoding::ListPack,
        }
    }
}

impl HashMut<'_> {
    /// Fields that are fetched ahead together.
    pub const AHEAD: usize = TOGETHER;

    /// A field.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn get(&self, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Refusal> {
        self.look().get(field)
    }

    /// Fetches what leads to fields that are going to be changed: [`HashMut::AHEAD`] of them at most.
    pub fn prefetch<'f>(&self, fields: impl Iterator<Item = &'f [u8]>) {
        let Contents::Object(object) = self.draft.contents() else { return };
        let mut hashes = [0; TOGETHER];
        let count = hashes.iter_mut().zip(fields).map(|(hash, field)| *hash = object.hash(field)).count();
        fetch_ahead(object, &hashes[..count], true);
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
        self.note(HashEdit::Set { field, value, due });
        self.draft.changed(1);
        let fields = if is_new { self.look().raw_len() } else { 0 };
        self.raise_encoding(self.limits.encoding(field.len().max(value.len()), fields, due))?;
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
                    HashEdit::Set { field, value: value.as_ref(), due }.push(out);
                    encoding.into_iter().for_each(|encoding| HashEdit::SetEncoding(encoding).push(out));
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

    pub(super) fn raise_encoding(&mut self, encoding: HashEncoding) -> Result<(), Refusal> {
        if raise_encoding(&mut self.draft, encoding)? {
            self.note(HashEdit::SetEncoding(encoding));
        }
        Ok(())
    }

    /// Gives a field another expiry, or none. Says whether there is such a field.
    ///
    /// # Errors
    /// When the field's place is not in memory, or the store is full; then nothing has changed.
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
        if let Contents::Object(_) = self.draft.contents() {
            self.draft.change(|object| object.set_due(field, due))??;
        }
        self.note(HashEdit::SetDue { field, due });
        if due.is_some() {
            self.raise_encoding(HashEncoding::ListPackEx)?;
        }
        Ok(true)
    }

    /// Removes a field. Says whether there was one.
    ///
    /// # Errors
    /// When the field's place is not in memory, or the store is full; then nothing has changed.
    pub fn remove(&mut self, field: &[u8]) -> Result<bool, Refusal> {
        if self.get(field)?.is_none() {
            return Ok(false);
        }
        self.draft.changed(1);
        self.remove_any(field)
    }

    fn remove_any(&mut self, field: &[u8]) -> Result<bool, Refusal> {
        let removed = if let Some(packed) = self.draft.packed_mut() {
            let edit = PackedHash::new(packed).remove(field).map(|(edit, _)| edit);
            edit.inspect(|edit| edit.apply(packed)).is_some()
        } else {
            self.draft.change(|object| object.remove(field))??
        };
        if removed {
            self.note(HashEdit::Remove { field });
            self.draft.changed(0);
        }
        Ok(removed)
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

/// Sets what OBJECT ENCODING answers if that follows the present encoding. Says whether it does.
pub(super) fn raise_encoding(hash: &mut impl Editable<Hashes>, encoding: HashEncoding) -> Result<bool, Refusal> {
    if (Hash { contents: hash.contents(), now: 0 }).encoding() as u8 >= encoding as u8 {
        return Ok(false);
    }
    match hash.packed_mut() {
        Some(packed) => PackedHash::new(packed).set_encoding(encoding).apply(packed),
        None => hash.change(|object| object.set_encoding(encoding))?,
    }
    Ok(true)
}
