//! A hash under its latch, to be changed.

use std::sync::Arc;

use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::{self, Due, Encoding, Entry, PackedHash};
use almandine_store::{Full, HeapValue, Kind, Occupied, Put, Slot, fits_inline};

use super::edits::{self, Edit, Edits};
use super::{Body, Hash, as_hash};
use crate::{Accessor, Key, Refusal, Writer};

/// From which size on OBJECT ENCODING names a hash a hash table, as Redis would: `hash-max-listpack-entries` and `hash-max-listpack-value`.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// Fields.
    pub entries: usize,
    /// Bytes of a field or a value.
    pub value: usize,
}

impl HashLimits {
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
    slot: Slot<'w>,
    /// The packed hash as it will be.
    draft: &'w mut Vec<u8>,
    /// The object that it will be, and is not yet.
    fresh: Option<Box<HashObject>>,
    /// It is an object in the store.
    stored: bool,
    changed: bool,
    /// Changes, as Redis counts them.
    counted: i64,
    /// What is done to the object in the store, if somebody wants to know.
    edits: Option<Edits>,
    uncommitted: Uncommitted,
    /// When the first field expired before all changes.
    due: Option<i64>,
    now: u64,
    placement: Placement,
    limits: HashLimits,
}

impl Writer<'_> {
    /// Opens a key as a hash to be changed.
    ///
    /// # Errors
    /// When it is of another type, or must be read from the device first.
    pub fn write_hash<'s>(&'s mut self, key: Key<'s>, limits: HashLimits) -> Result<HashMut<'s>, Refusal> {
        let key = self.current(key);
        self.require(key)?;
        let now_ms = self.now_ms();
        let accessor = &mut *self.accessor;
        let placement = accessor.keyspace.types.placement;
        let Accessor { session, scratch, .. } = accessor;
        scratch.clear();
        let slot = session.entry_of_elements(key);
        let (mut stored, mut due, mut edits) = (false, None, None);
        if let Slot::Occupied(entry) = &slot {
            if entry.kind() != Kind::Hash {
                return Err(Refusal::WrongKind);
            }
            due = entry.next_due();
            stored = entry.object().is_some();
            edits = (stored && entry.wants_edits()).then(Edits::default);
            if !stored {
                scratch.extend_from_slice(entry.value());
            }
        }
        let now = now_ms.max(0) as u64;
        Ok(HashMut {
            slot,
            draft: scratch,
            fresh: None,
            stored,
            changed: false,
            counted: 0,
            edits,
            uncommitted: Uncommitted::default(),
            due,
            now,
            placement,
            limits,
        })
    }
}

impl HashMut<'_> {
    /// Whether the key was there.
    #[must_use]
    pub fn existed(&self) -> bool {
        matches!(self.slot, Slot::Occupied(_))
    }

    /// The hash as it is now.
    #[must_use]
    pub fn look(&self) -> Hash<'_> {
        let stored = || match &self.slot {
            Slot::Occupied(entry) if self.stored => entry.object().and_then(as_hash),
            _ => None,
        };
        let body = match self.fresh.as_deref().or_else(stored) {
            Some(object) => Body::Object(object),
            None => Body::Packed(PackedHash::new(self.draft)),
        };
        Hash { body, now: self.now }
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

    /// Sets a field. Says whether it is new.
    ///
    /// # Errors
    /// When its place is not in memory, or the store is full; then nothing has changed.
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Refusal> {
        if self.due.is_some_and(|due| due <= self.now as i64) && self.get(field)?.is_none() {
            // One that is past its time and still there is gone first, with its expiry.
            self.remove_any(field)?;
        }
        let is_new = self.set_any(field, value, due)?;
        self.note(Edit::Set { field, value, due });
        self.changed = true;
        self.counted += 1;
        let fields = if is_new { self.look().raw_len() } else { 0 };
        self.name(self.limits.encoding(field.len().max(value.len()), fields, due))?;
        Ok(is_new)
    }

    fn set_any(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Refusal> {
        if self.fresh.is_none() && !self.stored {
            match PackedHash::new(self.draft).set(field, value, due) {
                Ok((edit, is_new)) => {
                    edit.apply(self.draft);
                    return Ok(is_new);
                }
                Err(packed::Full) => self.fresh = Some(self.unpacked()),
            }
        }
        Ok(self.change(|object| object.set(field, value, due))??)
    }

    fn unpacked(&self) -> Box<HashObject> {
        Box::new(HashObject::from_packed(&PackedHash::new(self.draft), self.placement))
    }

    /// Lets OBJECT ENCODING name an encoding that follows the present one.
    fn name(&mut self, encoding: Encoding) -> Result<(), Refusal> {
        if self.look().encoding() as u8 >= encoding as u8 {
            return Ok(());
        }
        if self.fresh.is_some() || self.stored {
            self.note(Edit::Name(encoding));
            return self.change(|object| object.set_encoding(encoding));
        }
        PackedHash::new(self.draft).set_encoding(encoding).apply(self.draft);
        Ok(())
    }

    fn note(&mut self, edit: Edit<'_>) {
        if let Some(edits) = &mut self.edits {
            edits.push(edit);
        }
    }

    /// Makes edits that were made to another hash. Those that are none, and all behind them, are left out.
    ///
    /// # Errors
    /// As [`HashMut::set`].
    pub(crate) fn replay(&mut self, mut edits: &[u8]) -> Result<(), Refusal> {
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

    /// Changes the object.
    fn change<R>(&mut self, change: impl FnOnce(&mut HashObject) -> R) -> Result<R, Refusal> {
        if let Some(fresh) = &mut self.fresh {
            return Ok(change(fresh));
        }
        let Slot::Occupied(entry) = &mut self.slot else { return Err(Refusal::Full) };
        let changed = entry.change_object(|object| object.as_any_mut().downcast_mut::<HashObject>().map(change))?;
        self.uncommitted.0 = true;
        changed.ok_or(Refusal::WrongKind)
    }

    /// Gives a field another expiry, or none. Says whether there is such a field.
    ///
    /// # Errors
    /// As [`HashMut::set`].
    pub fn set_due(&mut self, field: &[u8], due: Option<u64>) -> Result<bool, Refusal> {
        let Some(before) = self.get(field)?.map(|entry| entry.due) else { return Ok(false) };
        self.counted += 1;
        if before == due {
            // That is a change, too.
            self.changed = true;
            return Ok(true);
        }
        if self.fresh.is_none() && !self.stored {
            match PackedHash::new(self.draft).set_due(field, due) {
                Some(Ok(edit)) => edit.apply(self.draft),
                _ => self.fresh = Some(self.unpacked()),
            }
        }
        if self.fresh.is_some() || self.stored {
            self.change(|object| object.set_due(field, due))??;
            self.note(Edit::SetDue { field, due });
        }
        self.changed = true;
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
        self.counted += 1;
        self.remove_any(field)
    }

    /// Says that all changes together count as one.
    pub fn count_once(&mut self) {
        self.counted = self.counted.min(1);
    }

    fn remove_any(&mut self, field: &[u8]) -> Result<bool, Refusal> {
        let removed = if self.fresh.is_some() || self.stored {
            let removed = self.change(|object| object.remove(field))??;
            self.note(Edit::Remove { field });
            removed
        } else {
            let edit = PackedHash::new(self.draft).remove(field).map(|(edit, _)| edit);
            edit.inspect(|edit| edit.apply(self.draft)).is_some()
        };
        self.changed |= removed;
        Ok(removed)
    }

    /// Stores what has changed. A hash without fields is no key.
    ///
    /// # Errors
    /// When the store is full; then a packed hash is as it was.
    pub fn commit(mut self) -> Result<(), Refusal> {
        self.uncommitted.0 = false;
        if !self.changed {
            return Ok(());
        }
        let is_empty = self.look().raw_len() == 0;
        if !is_empty || self.existed() {
            self.slot.count_changes(self.counted - 1);
        }
        let Self { slot, draft, fresh, stored, due, placement, edits, .. } = self;
        let edits = edits.unwrap_or_default();
        let (slot, put) = match slot {
            Slot::Occupied(entry) if is_empty => {
                entry.remove();
                return Ok(());
            }
            Slot::Vacant(_) if is_empty => return Ok(()),
            Slot::Occupied(entry) if stored => return commit_object(entry, draft, due, &edits),
            Slot::Occupied(entry) => {
                let put = Put { edited: false, ..entry.put() };
                (Slot::Occupied(entry), put)
            }
            vacant @ Slot::Vacant(_) => (vacant, Put::default()),
        };
        Ok(store(slot, draft, fresh, placement, put)?)
    }
}

/// Makes a hash that is no object in the store yet the value of a key.
pub(super) fn store(
    slot: Slot<'_>,
    packed: &[u8],
    mut object: Option<Box<HashObject>>,
    placement: Placement,
    put: Put,
) -> Result<(), Full> {
    let key_len = match &slot {
        Slot::Occupied(entry) => entry.key().bytes.len(),
        Slot::Vacant(entry) => entry.key().bytes.len(),
    };
    if object.is_none() && !fits_inline(key_len, packed.len()) {
        object = Some(Box::new(HashObject::from_packed(&PackedHash::new(packed), placement)));
    }
    let object = object.map(|object| Arc::new(HeapValue::object(object)));
    match (slot, object) {
        (Slot::Occupied(mut entry), None) => entry.replace(Kind::Hash, packed, put),
        (Slot::Occupied(mut entry), Some(object)) => entry.replace_shared(Kind::Hash, object, put),
        (Slot::Vacant(entry), None) => entry.insert(Kind::Hash, packed, put),
        (Slot::Vacant(entry), Some(object)) => entry.insert_shared(Kind::Hash, object, put),
    }
}

/// Whether an object in the store has changes that were not committed.
#[derive(Default)]
struct Uncommitted(bool);

impl Drop for Uncommitted {
    fn drop(&mut self) {
        debug_assert!(!self.0, "an object that was changed is committed");
    }
}

/// Says that an object has changed, or packs it when it has become small.
fn commit_object(mut entry: Occupied<'_>, draft: &mut Vec<u8>, due: Option<i64>, edits: &Edits) -> Result<(), Refusal> {
    let hash = entry.object().and_then(as_hash);
    draft.clear();
    let packed = match hash.filter(|hash| hash.should_pack()) {
        Some(hash) => hash.pack(draft)? && fits_inline(entry.key().bytes.len(), draft.len()),
        None => false,
    };
    if packed && entry.replace(Kind::Hash, draft, entry.put()).is_ok() {
        return Ok(());
    }
    entry.object_changed(due, &edits.0);
    Ok(())
}
