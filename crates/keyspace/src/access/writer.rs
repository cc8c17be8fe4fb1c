//! Writing: a reader that may also change keys.

use crate::access::value::{Owned, OwnedBytes};
use crate::{Accessor, Key, Missing, Reader, Refusal};
use almandine_store::{HeapValue, Kind, Occupied, Pair, Put, SharedValue, Slot, fits_inline};
use std::ops::{Deref, DerefMut};

/// Read and write access to one database. A verb on one key latches it by itself; several keys change together after
/// [`KeyPlan::hold`](crate::KeyPlan::hold), or when the command declares them. Dropping it releases what it holds.
pub struct Writer<'w> {
    reader: Reader<'w>,
}

impl<'w> Deref for Writer<'w> {
    type Target = Reader<'w>;

    fn deref(&self) -> &Reader<'w> {
        &self.reader
    }
}

impl DerefMut for Writer<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.reader
    }
}

impl<'w> Writer<'w> {
    #[inline]
    pub(crate) fn new(accessor: &'w mut Accessor, db: u16) -> Self {
        Self { reader: Reader::new(accessor, db) }
    }

    /// Sets a key to a string, whatever it was.
    ///
    /// # Errors
    /// When the store is full, or what the key had is not at hand; then nothing has changed.
    #[inline]
    pub fn upsert(&mut self, key: Key<'_>, value: &[u8], put: Put) -> Result<(), Refusal> {
        let key = self.reader.current(key);
        Ok(self.reader.accessor.session.upsert(key, value, put)?)
    }

    /// As [`Writer::upsert`], of a value that need not be copied when it is large.
    ///
    /// # Errors
    /// As for [`Writer::upsert`].
    pub fn upsert_owned(&mut self, key: Key<'_>, value: Vec<u8>, put: Put) -> Result<(), Refusal> {
        let key = self.reader.current(key);
        if fits_inline(key.bytes.len(), value.len()) {
            return self.upsert(key, &value, put);
        }
        Ok(self.reader.accessor.session.upsert_shared(key, SharedValue::new(HeapValue::string(value)), put)?)
    }

    /// Sets locked keys to strings, each with when it expires: all of them or none. Of several pairs with one key the last one
    /// counts. `copies` are those of these pairs, or none.
    ///
    /// # Errors
    /// As for [`Writer::upsert`].
    pub fn upsert_all<'k>(
        &mut self,
        pairs: impl Iterator<Item = (&'k [u8], &'k [u8], Option<i64>)>,
        copies: &'k Copies,
    ) -> Result<(), Refusal> {
        let mut copies = copies.0.iter().peekable();
        let pair = |(at, (key, value, expiry_ms))| {
            let copy = copies.next_if(|(of, _)| *of == at).map(|(_, copy)| copy);
            Pair { key: self.key(key), value, copy, expiry_ms }
        };
        let pairs: Vec<Pair<'k>> = pairs.enumerate().map(pair).collect();
        Ok(self.reader.accessor.session.plan().upsert_all(&pairs)?)
    }

    /// A key under its latch, present or absent. An expired key is absent.
    ///
    /// # Errors
    /// When what is known of it is not at hand.
    #[inline]
    pub fn modify<'s>(&'s mut self, key: Key<'s>) -> Result<Slot<'s>, Missing> {
        let key = self.reader.current(key);
        self.reader.accessor.session.entry(key)
    }

    /// As [`Writer::modify`], for a caller that replaces the record whatever it was.
    pub(crate) fn modify_to_replace<'s>(&'s mut self, key: Key<'s>) -> Result<Slot<'s>, Missing> {
        let key = self.reader.current(key);
        self.reader.accessor.session.entry_to_replace(key)
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// As for [`Writer::modify`]; then nothing has changed.
    #[inline]
    pub fn delete(&mut self, key: Key<'_>) -> Result<bool, Missing> {
        let key = self.reader.current(key);
        self.reader.accessor.session.delete(key)
    }

    /// Adds to the command's changes, as Redis counts them; without it they are the keys that it has changed.
    pub fn count_changes(&mut self, more: i64) {
        self.reader.accessor.count_changes(more);
    }

    /// Counts a key that the command has removed because the time that it was to set has passed.
    pub fn count_expired(&mut self) {
        self.reader.accessor.session.notes().count_expired();
    }

    fn slot<'s>(&'s mut self, db: u16, key: &'s [u8]) -> Result<Slot<'s>, Missing> {
        let namespace = self.reader.namespace_of(db);
        let key = self.reader.accessor.session.key(namespace, key);
        self.reader.accessor.session.entry(key)
    }

    /// A copy of a key's value, of any database.
    ///
    /// # Errors
    /// As for [`Writer::modify`].
    pub fn copy(&mut self, db: u16, key: &[u8]) -> Result<Option<Owned>, Missing> {
        Ok(match self.slot(db, key)? {
            Slot::Occupied(entry) => Some(owned(&entry)),
            Slot::Vacant(_) => None,
        })
    }

    /// Puts a value to a key of any database, replacing what was there.
    ///
    /// # Errors
    /// As for [`Writer::upsert`].
    pub fn put(&mut self, db: u16, key: &[u8], value: Owned) -> Result<(), Refusal> {
        let Owned { kind, put, mut bytes } = value;
        if let OwnedBytes::Inline(packed) = &bytes
            && !fits_inline(key.len(), packed.len())
            && let Some(object) = self.reader.accessor.keyspace.types.unpacked(kind, packed)
        {
            bytes = OwnedBytes::Shared(object);
        }
        let namespace = self.reader.namespace_of(db);
        let key = self.reader.accessor.session.key(namespace, key);
        Ok(match (self.reader.accessor.session.entry_to_replace(key)?, bytes) {
            (Slot::Occupied(mut entry), OwnedBytes::Inline(bytes)) => entry.replace(kind, &bytes, put),
            (Slot::Occupied(mut entry), OwnedBytes::Shared(value)) => entry.replace_shared(kind, value, put),
            (Slot::Vacant(entry), OwnedBytes::Inline(bytes)) => entry.insert(kind, &bytes, put),
            (Slot::Vacant(entry), OwnedBytes::Shared(value)) => entry.insert_shared(kind, value, put),
        }?)
    }

    /// Puts a value that a key has to another key, of any database, and removes the first. Both are latched. That is one change,
    /// told of the first key before the second, as Redis does.
    ///
    /// # Errors
    /// As for [`Writer::upsert`].
    pub fn transfer(&mut self, (from_db, from): (u16, &[u8]), (db, key): (u16, &[u8]), value: Owned) -> Result<(), Refusal> {
        self.put(db, key, value)?;
        if let Slot::Occupied(entry) = self.slot(from_db, from)? {
            entry.remove();
        }
        self.reader.accessor.session.notes().join_changes();
        Ok(())
    }

    /// The type of the value of a key of any database.
    ///
    /// # Errors
    /// As for [`Writer::modify`].
    pub fn kind_in(&mut self, db: u16, key: &[u8]) -> Result<Option<Kind>, Missing> {
        Ok(match self.slot(db, key)? {
            Slot::Occupied(entry) => Some(entry.kind()),
            Slot::Vacant(_) => None,
        })
    }

    /// Whether a key of any database exists. Unlike [`Reader::exists`] it works under a lock plan that spans databases.
    ///
    /// # Errors
    /// As for [`Writer::modify`].
    pub fn exists_in(&mut self, db: u16, key: &[u8]) -> Result<bool, Missing> {
        Ok(matches!(self.slot(db, key)?, Slot::Occupied(_)))
    }
}

/// Copies of the values that are too large for their records, for [`Writer::upsert_all`]. Made before the keys are latched, they
/// spare the copying under the latches.
#[derive(Default)]
pub struct Copies(Vec<(usize, SharedValue)>);

impl Copies {
    /// Whether any of the values is too large for its record.
    pub fn are_needed<'k>(mut pairs: impl Iterator<Item = (&'k [u8], &'k [u8])>) -> bool {
        pairs.any(|(key, value)| !fits_inline(key.len(), value.len()))
    }

    /// The copies for pairs of keys and values.
    pub fn of<'k>(pairs: impl Iterator<Item = (&'k [u8], &'k [u8])>) -> Self {
        let large = pairs.enumerate().filter(|(_, (key, value))| !fits_inline(key.len(), value.len()));
        Self(large.map(|(at, (_, value))| (at, SharedValue::new(HeapValue::string(value.to_vec())))).collect())
    }
}

fn owned(entry: &Occupied<'_>) -> Owned {
    let bytes = match entry.shared() {
        Some(value) => OwnedBytes::Shared(value),
        None => OwnedBytes::Inline(entry.value().to_vec()),
    };
    Owned { kind: entry.kind(), put: entry.put(), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyspace, Options};

    /// A key that is named twice has the last of its values, copied or not.
    #[test]
    fn each_key_gets_its_own_copy() {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).expect("a keyspace");
        let mut accessor = keyspace.accessor().expect("an accessor");
        accessor.begin_batch(0);
        let [large, larger, largest] = [5_000, 6_000, 7_000].map(|bytes| vec![b'v'; bytes]);
        let pairs: [(&[u8], &[u8]); 6] =
            [(b"a", b"1"), (b"b", &large), (b"c", &larger), (b"c", b"2"), (b"d", b"3"), (b"d", &largest)];
        for copies in [Copies::of(pairs.into_iter()), Copies::default()] {
            let mut writer = accessor.writer(0);
            writer.plan().lock_all(pairs.into_iter().map(|(key, _)| key));
            writer.upsert_all(pairs.into_iter().map(|(key, value)| (key, value, None)), &copies).expect("room");
            for (key, value) in [pairs[0], pairs[1], pairs[3], pairs[5]] {
                let key = writer.key(key);
                assert_eq!(writer.read(key).expect("in memory").as_deref(), Some(value));
                assert_eq!(writer.delete(key), Ok(true));
            }
        }
        accessor.end_batch();
    }
}
