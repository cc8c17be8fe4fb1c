//! Hashes: a key read and changed as one.
//!
//! A field past its time is absent here, whether or not it has been removed.

use std::sync::Arc;

use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::{self, Due, Encoding, Entry, PackedHash};
use almandine_store::{HeapValue, Kind, Occupied, Put, SharedValue, Slot, fits_inline};

use super::Refusal;
use crate::{Accessor, Key, Reader, Writer};

/// Bytes of an object from which on a look at all of it is one at a snapshot, without the latch.
const SNAPSHOT_BYTES: usize = 16 << 10;

/// A hash to be read.
#[derive(Clone, Copy)]
pub struct Hash<'h> {
    body: Body<'h>,
    now: u64,
}

#[derive(Clone, Copy)]
enum Body<'h> {
    Packed(PackedHash<'h>),
    Object(&'h HashObject),
}

impl<'h> Hash<'h> {
    /// How many fields there are. Of a large hash, those that are past their time and not yet removed are counted.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.body {
            Body::Packed(packed) if packed.next_due().is_some_and(|due| due <= self.now) => self.iter().count(),
            Body::Packed(packed) => packed.len(),
            Body::Object(object) => object.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        match self.body {
            Body::Packed(packed) => packed.encoding(),
            Body::Object(object) => object.encoding(),
        }
    }

    /// When the first of its fields expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        match self.body {
            Body::Packed(packed) => packed.next_due(),
            Body::Object(object) => almandine_base::object::Object::next_due(object),
        }
    }

    /// A field.
    ///
    /// # Errors
    /// When it is not in memory.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Result<Option<Entry<'h>>, Refusal> {
        let found = match self.body {
            Body::Packed(packed) => packed.find(field),
            Body::Object(object) => object.find(field)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// All fields. What is not in memory ends them with an error.
    pub fn try_iter(&self) -> impl Iterator<Item = Result<Entry<'h>, Refusal>> {
        let (packed, object) = match self.body {
            Body::Packed(packed) => (Some(packed.iter()), None),
            Body::Object(object) => (None, Some(object.iter())),
        };
        let now = self.now;
        let packed = packed.into_iter().flatten().map(Ok);
        let all = packed.chain(object.into_iter().flatten().map(|entry| entry.map_err(Refusal::from)));
        all.filter(move |entry| entry.as_ref().map_or(true, |entry| is_live(entry, now)))
    }

    fn iter(&self) -> impl Iterator<Item = Entry<'h>> {
        self.try_iter().filter_map(Result::ok)
    }

    /// The field at a place, below [`Hash::len`], of an order that only changes change. None: it is past its time.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<Entry<'h>>, Refusal> {
        let found = match self.body {
            Body::Packed(_) => self.iter().nth(rank),
            Body::Object(object) => object.nth(rank)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// Visits `count` different fields at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// When a part of the hash is not in memory; what was visited is no sample then.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Refusal> {
        let now = self.now;
        match self.body {
            Body::Packed(_) => {
                let (mut left, mut wanted) = (self.len(), count.min(self.len()));
                for entry in self.iter() {
                    if (u128::from(random()) * left as u128 >> 64) < wanted as u128 {
                        visit(entry);
                        wanted -= 1;
                    }
                    left -= 1;
                }
                Ok(())
            }
            Body::Object(object) => Ok(object.sample(count, random, &mut |entry| {
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
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(Entry<'_>)) -> Result<u64, Refusal> {
        let now = self.now;
        match self.body {
            Body::Packed(_) => {
                self.iter().for_each(visit);
                Ok(0)
            }
            Body::Object(object) => Ok(object.scan(cursor, count, &mut |entry| {
                if is_live(&entry, now) {
                    visit(entry);
                }
            })?),
        }
    }

    /// An object of its own with all fields, in constant time if it was one.
    #[must_use]
    pub fn to_object(&self, placement: Placement) -> HashObject {
        match self.body {
            Body::Packed(packed) => HashObject::from_packed(&packed, placement),
            Body::Object(object) => object.clone(),
        }
    }
}

fn is_live(entry: &Entry<'_>, now: u64) -> bool {
    entry.due.is_none_or(|due| due > now)
}

fn as_hash(object: &dyn almandine_base::object::Object) -> Option<&HashObject> {
    object.as_any().downcast_ref()
}

/// How a look at a hash found it.
enum Seen<R> {
    /// In place, and looked at.
    Done(R),
    /// Its bytes are in the scratch buffer.
    Copied,
    /// It is to be looked at without the latch.
    Shared(SharedValue),
}

impl Reader<'_> {
    /// Opens a key as a hash for a look at some of its fields. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    pub fn read_hash<R>(&mut self, key: Key<'_>, look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>) -> Result<Option<R>, Refusal> {
        self.look_at_hash(key, usize::MAX, look)
    }

    /// As [`Reader::read_hash`], for a look at all of it: of a large one, at a snapshot, so that writers need not wait.
    ///
    /// # Errors
    /// As there.
    pub fn read_whole_hash<R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at_hash(key, SNAPSHOT_BYTES, look)
    }

    #[inline]
    fn look_at_hash<R>(
        &mut self,
        key: Key<'_>,
        in_place_max: usize,
        look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let Accessor { session, scratch, .. } = &mut *self.accessor;
        let mut look = Some(look);
        let seen = session.read(key, |view| {
            if view.kind() != Kind::Hash {
                return Err(Refusal::WrongKind);
            }
            let body = match (view.object(), view.long_bytes()) {
                (Some(object), _) if object.memory() > in_place_max => return Ok(view.shared().map_or(Seen::Copied, Seen::Shared)),
                (Some(object), _) => as_hash(object).map(Body::Object),
                (None, bytes) => bytes.map(|bytes| Body::Packed(PackedHash::new(bytes))),
            };
            let Some(body) = body else {
                scratch.clear();
                view.append_to(scratch);
                return Ok(Seen::Copied);
            };
            // The store visits such a value once.
            debug_assert!(look.is_some(), "what is read in place is read once");
            look.take().map_or(Ok(Seen::Copied), |look| look_at(Hash { body, now }, look).map(Seen::Done))
        });
        match seen.transpose()? {
            None => {
                self.accessor.session.remove_met_expired(key);
                Ok(None)
            }
            Some(Seen::Done(result)) => Ok(result),
            Some(Seen::Copied) => {
                let body = Body::Packed(PackedHash::new(&self.accessor.scratch));
                look.map_or(Ok(None), |look| look_at(Hash { body, now }, look))
            }
            Some(Seen::Shared(value)) => {
                let object = value.as_object().and_then(as_hash).zip(look);
                let result = object.map_or(Ok(None), |(object, look)| look_at(Hash { body: Body::Object(object), now }, look));
                self.accessor.session.release(value);
                result
            }
        }
    }
}

/// A packed hash whose fields have all expired is no key.
#[inline]
fn look_at<R>(hash: Hash<'_>, look: impl FnOnce(&Hash<'_>) -> Result<R, Refusal>) -> Result<Option<R>, Refusal> {
    if hash.next_due().is_some_and(|due| due <= hash.now) && hash.is_empty() {
        return Ok(None);
    }
    look(&hash).map(Some)
}

/// From which size on OBJECT ENCODING names a hash a hash table, as Redis would: `hash-max-listpack-entries` and `hash-max-listpack-value`.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// Fields.
    pub entries: usize,
    /// Bytes of a field or a value.
    pub value: usize,
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
        let (mut stored, mut due) = (false, None);
        if let Slot::Occupied(entry) = &slot {
            if entry.kind() != Kind::Hash {
                return Err(Refusal::WrongKind);
            }
            due = entry.next_due();
            stored = entry.object().is_some();
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
        self.changed = true;
        if field.len().max(value.len()) > self.limits.value || (is_new && self.raw_len() > self.limits.entries) {
            self.name(Encoding::HashTable)?;
        } else if matches!(due, Due::At(_)) {
            self.name(Encoding::ListPackEx)?;
        }
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

    fn raw_len(&self) -> usize {
        match self.look().body {
            Body::Packed(packed) => packed.len(),
            Body::Object(object) => object.len(),
        }
    }

    /// Lets OBJECT ENCODING name an encoding that follows the present one.
    fn name(&mut self, encoding: Encoding) -> Result<(), Refusal> {
        if self.look().encoding() as u8 >= encoding as u8 {
            return Ok(());
        }
        if self.fresh.is_some() || self.stored {
            return self.change(|object| object.set_encoding(encoding));
        }
        PackedHash::new(self.draft).set_encoding(encoding).apply(self.draft);
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
        let Some(entry) = self.get(field)? else { return Ok(false) };
        if entry.due == due {
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
        self.remove_any(field)
    }

    fn remove_any(&mut self, field: &[u8]) -> Result<bool, Refusal> {
        let removed = if self.fresh.is_some() || self.stored {
            self.change(|object| object.remove(field))??
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
        let is_empty = self.raw_len() == 0;
        let Self { slot, draft, mut fresh, stored, due, placement, .. } = self;
        let mut entry = match slot {
            Slot::Occupied(entry) if is_empty => {
                entry.remove();
                return Ok(());
            }
            Slot::Vacant(_) if is_empty => return Ok(()),
            Slot::Occupied(entry) if stored => return Ok(commit_object(entry, draft, due)?),
            Slot::Occupied(entry) => Slot::Occupied(entry),
            vacant @ Slot::Vacant(_) => vacant,
        };
        let key_len = match &entry {
            Slot::Occupied(entry) => entry.key().bytes.len(),
            Slot::Vacant(entry) => entry.key().bytes.len(),
        };
        if fresh.is_none() && !fits_inline(key_len, draft.len()) {
            fresh = Some(Box::new(HashObject::from_packed(&PackedHash::new(draft), placement)));
        }
        let object = fresh.map(|object| Arc::new(HeapValue::object(object)));
        match (&mut entry, object) {
            (Slot::Occupied(entry), None) => entry.replace(Kind::Hash, draft, Put { edited: false, ..entry.put() })?,
            (Slot::Occupied(entry), Some(object)) => entry.replace_shared(Kind::Hash, object, entry.put())?,
            (Slot::Vacant(_), object) => {
                let Slot::Vacant(entry) = entry else { return Ok(()) };
                match object {
                    None => entry.insert(Kind::Hash, draft, Put::default())?,
                    Some(object) => entry.insert_shared(Kind::Hash, object, Put::default())?,
                }
            }
        }
        Ok(())
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
fn commit_object(mut entry: Occupied<'_>, draft: &mut Vec<u8>, due: Option<i64>) -> Result<(), Refusal> {
    let hash = entry.object().and_then(as_hash);
    draft.clear();
    let packed = match hash.filter(|hash| hash.should_pack()) {
        Some(hash) => hash.pack(draft)? && fits_inline(entry.key().bytes.len(), draft.len()),
        None => false,
    };
    if packed && entry.replace(Kind::Hash, draft, entry.put()).is_ok() {
        return Ok(());
    }
    entry.object_changed(due);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyspace, Options};
    use almandine_device::MemoryDevice;
    use almandine_store::{Fetcher, Stage, Storage};
    use std::collections::BTreeMap;
    use std::time::Duration;

    const LIMITS: HashLimits = HashLimits { entries: 128, value: 64 };
    type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

    fn keyspace(storage: bool) -> Arc<Keyspace> {
        let memory = || Arc::new(MemoryDevice::new());
        let storage = storage.then(|| Storage { pages: memory(), values: memory() });
        let store = almandine_store::Options { memory_bytes_max: 1 << 28, storage, ..Default::default() };
        Keyspace::open(Options { maxmemory: 64 << 20, store, ..Options::default() }).expect("a keyspace")
    }

    /// Does something in a batch of its own, again with what it needed from the device until it has that.
    fn batch<R>(accessor: &mut Accessor, now_ms: i64, mut work: impl FnMut(&mut Accessor) -> Result<R, Refusal>) -> R {
        let (mut stage, mut fetcher) = (Stage::default(), Fetcher::default());
        for _ in 0..100 {
            accessor.begin_batch(now_ms);
            accessor.attach(stage);
            let result = work(accessor);
            let met = accessor.check_met();
            stage = accessor.detach();
            accessor.end_batch();
            match (result, met) {
                (Ok(result), Ok(())) => return result,
                (Err(refusal @ (Refusal::WrongKind | Refusal::Full)), Ok(())) => panic!("{refusal:?}"),
                _ => accessor.session.stage_blocking(&mut accessor.wanted, &mut stage, &mut fetcher),
            }
        }
        panic!("never at hand");
    }

    fn fields(accessor: &mut Accessor, now_ms: i64, key: &[u8]) -> Option<Model> {
        batch(accessor, now_ms, |accessor| {
            let mut reader = accessor.reader(0);
            let key = reader.key(key);
            reader.read_whole_hash(key, |hash| {
                let entries: Result<Model, Refusal> =
                    hash.try_iter().map(|entry| entry.map(|e| (e.field.to_vec(), (e.value.to_vec(), e.due)))).collect();
                entries.inspect(|entries| assert!(entries.len() <= hash.len()))
            })
        })
    }

    fn set(accessor: &mut Accessor, now_ms: i64, key: &[u8], pairs: &[(Vec<u8>, Vec<u8>, Due)]) -> usize {
        batch(accessor, now_ms, |accessor| {
            let mut writer = accessor.writer(0);
            let key = writer.key(key);
            let mut hash = writer.write_hash(key, LIMITS)?;
            let mut added = 0;
            for (field, value, due) in pairs {
                added += usize::from(hash.set(field, value, *due)?);
            }
            hash.commit().map(|()| added)
        })
    }

    /// A small generator, so that a failure repeats.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    /// Random changes of hashes of all sizes are those of a map; with a device, all of it leaves memory now and then.
    fn changes_are_those_of_a_map(cold: bool) {
        let keyspace = keyspace(cold);
        let mut accessor = keyspace.accessor().expect("an accessor");
        keyspace.store.set_reclaiming(false);
        let mut random = Random(0x00DD_BA11 + u64::from(cold));
        let mut models: Vec<Model> = vec![Model::new(); 4];
        let sizes = [6, 60, 400, 3000];
        for round in 0..3000 {
            let which = random.below(4) as usize;
            let (key, model) = ([b'k', which as u8], &mut models[which]);
            let field = |random: &mut Random| format!("field:{}", random.below(sizes[which])).into_bytes();
            match random.below(12) {
                0..6 => {
                    let pairs: Vec<_> = (0..=random.below(sizes[which] / 4 + 1))
                        .map(|_| {
                            let len = if random.below(200) == 0 { random.below(30_000) } else { random.below(40) };
                            (field(&mut random), vec![b'v'; len as usize], Due::Keep)
                        })
                        .collect();
                    let mut added = 0;
                    for (field, value, _) in &pairs {
                        let due = model.get(field).and_then(|(_, due)| *due);
                        added += usize::from(model.insert(field.clone(), (value.clone(), due)).is_none());
                    }
                    assert_eq!(set(&mut accessor, 0, &key, &pairs), added, "round {round}");
                }
                6..9 => {
                    let field = field(&mut random);
                    let removed = batch(&mut accessor, 0, |accessor| {
                        let mut writer = accessor.writer(0);
                        let key = writer.key(&key);
                        let mut hash = writer.write_hash(key, LIMITS)?;
                        let removed = hash.remove(&field)?;
                        hash.commit().map(|()| removed)
                    });
                    assert_eq!(removed, model.remove(&field).is_some());
                }
                9 => {
                    let (field, due) = (field(&mut random), Some(1_000_000 + random.below(1000)).filter(|_| round % 3 != 0));
                    let there = batch(&mut accessor, 0, |accessor| {
                        let mut writer = accessor.writer(0);
                        let key = writer.key(&key);
                        let mut hash = writer.write_hash(key, LIMITS)?;
                        let there = hash.set_due(&field, due)?;
                        hash.commit().map(|()| there)
                    });
                    assert_eq!(there, model.contains_key(&field));
                    model.entry(field).and_modify(|(_, at)| *at = due);
                }
                10 if round % 7 == 0 => {
                    batch(&mut accessor, 0, |accessor| {
                        let mut writer = accessor.writer(0);
                        let key = writer.key(&key);
                        writer.require(key)?;
                        writer.delete(key);
                        Ok(())
                    });
                    model.clear();
                }
                _ => {
                    let field = field(&mut random);
                    let found = batch(&mut accessor, 0, |accessor| {
                        let mut reader = accessor.reader(0);
                        let key = reader.key(&key);
                        let look = |hash: &Hash<'_>| Ok(hash.get(&field)?.map(|entry| (entry.value.to_vec(), entry.due)));
                        reader.read_hash(key, look).map(Option::flatten)
                    });
                    assert_eq!(found.as_ref(), model.get(&field), "round {round}");
                }
            }
            if round % 100 == 0 {
                if cold {
                    assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
                }
                for (which, model) in models.iter().enumerate() {
                    let found = fields(&mut accessor, 0, &[b'k', which as u8]);
                    assert_eq!(found, Some(model.clone()).filter(|model| !model.is_empty()), "round {round}");
                }
            }
        }
        let keys = models.iter().filter(|model| !model.is_empty()).count() as u64;
        assert_eq!(keyspace.dbsize(0), keys);
        accessor.begin_batch(0);
        for which in 0..4u8 {
            let key = [b'k', which];
            let mut writer = accessor.writer(0);
            let key = writer.key(&key);
            writer.delete(key);
        }
        accessor.end_batch();
    }

    #[test]
    fn changes_are_those_of_a_map_in_memory() {
        changes_are_those_of_a_map(false);
    }

    #[test]
    fn changes_are_those_of_a_map_on_a_device() {
        changes_are_those_of_a_map(true);
    }

    /// Fields of packed hashes and of objects that are past their time are absent for who reads, and go without a touch, with the key behind
    /// the last one.
    #[test]
    fn fields_past_their_time_go_without_a_touch() {
        for (cold, count) in [(false, 5u64), (false, 1000), (true, 5), (true, 1000)] {
            let keyspace = keyspace(cold);
            keyspace.store.set_reclaiming(false);
            let mut accessor = keyspace.accessor().expect("an accessor");
            let pairs: Vec<_> = (0..count)
                .map(|n| {
                    (n.to_string().into_bytes(), b"value".to_vec(), if n % 2 == 0 { Due::At(5000) } else { Due::At(9000 + n) })
                })
                .collect();
            assert_eq!(set(&mut accessor, 0, b"h", &pairs), pairs.len());
            if cold {
                assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
            }
            let left = fields(&mut accessor, 6000, b"h").expect("a hash");
            assert_eq!(left.len() as u64, count / 2, "{cold} {count}");
            assert!(left.values().all(|(_, due)| due.is_some_and(|due| due >= 9000)));
            keyspace.store.set_reclaiming(true);
            // The clock of the background is the one of the machine, for which all of it was long ago.
            let gone = (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                keyspace.dbsize(0) == 0
            });
            assert!(gone, "{cold} {count}");
            assert_eq!(fields(&mut accessor, 0, b"h"), None);
        }
    }

    #[test]
    fn a_hash_copied_and_changed_is_another_one() {
        let keyspace = keyspace(false);
        let mut accessor = keyspace.accessor().expect("an accessor");
        let pairs: Vec<_> = (0..1000u32).map(|n| (n.to_string().into_bytes(), b"value".to_vec(), Due::Keep)).collect();
        set(&mut accessor, 0, b"h", &pairs);
        accessor.begin_batch(0);
        {
            let mut writer = accessor.writer(0);
            let value = writer.copy(0, b"h").expect("a value");
            writer.put(0, b"copy", value).expect("room");
        }
        accessor.end_batch();
        set(&mut accessor, 0, b"copy", &[(b"7".to_vec(), b"other".to_vec(), Due::Keep)]);
        let (one, other) = (fields(&mut accessor, 0, b"h"), fields(&mut accessor, 0, b"copy"));
        assert_eq!(one.expect("a hash")[&b"7"[..]].0, b"value");
        assert_eq!(other.expect("a hash")[&b"7"[..]].0, b"other");
    }

    #[test]
    fn another_type_is_refused() {
        let keyspace = keyspace(false);
        let mut accessor = keyspace.accessor().expect("an accessor");
        accessor.begin_batch(0);
        let mut writer = accessor.writer(0);
        let key = writer.key(b"s");
        writer.upsert(key, b"string", Put::default()).expect("room");
        assert_eq!(writer.read_hash(key, |_| Ok(())), Err(Refusal::WrongKind));
        assert!(writer.write_hash(key, LIMITS).is_err_and(|refusal| refusal == Refusal::WrongKind));
        drop(writer);
        accessor.end_batch();
    }
}
