//! Reading: everything a command may do that changes nothing.

use crate::access::accessor::RandomWalk;
use crate::access::value::{Held, Value, to_bytes};
use crate::{Accessor, Key, Missing, Refusal, WrongKind};
use almandine_base::Output;
use almandine_base::limits::REPLY_COPY_BYTES_MAX;
use almandine_store::{Kind, Put, Scanned, View};

/// What is known about a value without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What the value is.
    pub kind: Kind,
    /// Its length in bytes.
    pub len: usize,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<i64>,
    /// Its entity tag.
    pub etag: Option<u64>,
    /// Bytes of memory that its record takes, without the index.
    pub memory_bytes: usize,
    /// Whether it was built or changed in part rather than set as a whole.
    pub edited: bool,
}

impl Metadata {
    pub(crate) fn of(view: &View<'_>) -> Self {
        Self {
            kind: view.kind(),
            len: view.len(),
            expiry_ms: view.expiry_ms(),
            etag: view.etag(),
            memory_bytes: view.memory_bytes(),
            edited: view.is_edited(),
        }
    }
}

/// Read access to one database. Single keys are read without a latch; several keys are read as of one moment after
/// [`KeyPlan::lock_shared`](crate::KeyPlan::lock_shared). Dropping it releases what it holds.
pub struct Reader<'w> {
    pub(crate) accessor: &'w mut Accessor,
    pub(crate) db: u16,
    pub(crate) namespace: u16,
}

impl Drop for Reader<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.accessor.in_unit() {
            self.accessor.end_command();
        }
    }
}

impl<'w> Reader<'w> {
    #[inline]
    pub(crate) fn new(accessor: &'w mut Accessor, db: u16) -> Self {
        let namespace = accessor.keyspace.namespace(db);
        Self { accessor, db, namespace }
    }

    /// The time of the batch in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.accessor.session.now_ms()
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> u16 {
        self.db
    }

    /// A key of this database with its hash.
    #[inline]
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.accessor.session.key(self.namespace, bytes)
    }

    /// `key` as it is now: its hash may be from before the database was emptied, swapped or selected.
    #[inline]
    pub(crate) fn current<'k>(&self, key: Key<'k>) -> Key<'k> {
        if key.namespace == self.namespace { key } else { self.key(key.bytes) }
    }

    pub(crate) fn lock_keys<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])>, exclusive: bool) {
        if self.accessor.in_unit() {
            return;
        }
        let mut hashes = std::mem::take(&mut self.accessor.hashes);
        hashes.clear();
        for (db, key) in keys {
            let namespace = self.namespace_of(db);
            hashes.push(self.accessor.session.key(namespace, key).hash);
        }
        if !hashes.is_empty() {
            self.accessor.session.plan().lock_all(&hashes, exclusive);
        }
        if hashes.len() > 1 {
            self.accessor.unit().catch_up();
        }
        self.accessor.hashes = hashes;
    }

    /// The namespace of a database, the same for as long as this reader lives.
    pub(crate) fn namespace_of(&mut self, db: u16) -> u16 {
        if db == self.db {
            return self.namespace;
        }
        let Accessor { keyspace, namespaces, .. } = &mut *self.accessor;
        if let Some(&(_, namespace)) = namespaces.iter().find(|known| known.0 == db) {
            return namespace;
        }
        let namespace = keyspace.namespace(db);
        namespaces.push((db, namespace));
        namespace
    }

    /// Reads a value.
    ///
    /// # Errors
    /// When it is not at hand; so for all looks at a key.
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Result<Option<Value<'_>>, Missing> {
        let key = self.current(key);
        let Accessor { session, scratch, .. } = &mut *self.accessor;
        let found = session.read(key, |view| {
            scratch.clear();
            let shared = view.shared();
            if shared.is_none() {
                view.append_to(scratch);
            }
            (view.kind(), Put { expiry_ms: view.expiry_ms(), etag: view.etag(), edited: view.is_edited() }, shared)
        })?;
        let Some((kind, put, shared)) = found else {
            session.notes().remove_met_expired(key);
            return Ok(None);
        };
        let bytes = shared.map_or(Held::Copied(scratch), Held::Shared);
        Ok(Some(Value { bytes, kind, put }))
    }

    /// Appends a string to `out`: first `write_length` gets the buffer and the length, then the bytes follow; long ones are
    /// attached, not copied. Returns the length, or `None` when the key does not exist; then nothing was written.
    ///
    /// # Errors
    /// When the value is not a string, or not at hand.
    #[inline]
    pub fn read_string_into(
        &mut self,
        key: Key<'_>,
        out: &mut Output,
        mut write_length: impl FnMut(&mut Vec<u8>, usize),
    ) -> Result<Option<usize>, Refusal> {
        let key = self.current(key);
        let mark = out.mark();
        let mut written = false;
        let result = self.accessor.session.read(key, |view| {
            if written {
                out.truncate(mark);
            }
            written = true;
            if view.kind() != Kind::String {
                return Err(WrongKind);
            }
            let len = view.len();
            write_length(&mut out.bytes, len);
            if view.is_heap() {
                append_heap_value(view, len, out);
            } else {
                view.append_to(&mut out.bytes);
            }
            Ok(len)
        });
        if let Some(result) = result? {
            return Ok(Some(result?));
        }
        if written {
            // An attempt that was not valid has written something.
            out.truncate(mark);
        }
        self.accessor.session.notes().remove_met_expired(key);
        Ok(None)
    }

    /// What is known about a key. Looking is no use of it: it gets no warmer.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn metadata(&mut self, key: Key<'_>) -> Result<Option<Metadata>, Missing> {
        let key = self.current(key);
        let found = self.accessor.session.heat().quietly(|session| session.read(key, Metadata::of))?;
        if found.is_none() {
            self.accessor.session.notes().remove_met_expired(key);
        }
        Ok(found)
    }

    /// Whether a key exists. Looking is no use of it: it gets no warmer.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn exists(&mut self, key: Key<'_>) -> Result<bool, Missing> {
        let key = self.current(key);
        let found = self.peek(key)?;
        if !found {
            self.accessor.session.notes().remove_met_expired(key);
        }
        Ok(found)
    }

    /// As [`Reader::exists`], and nothing is removed.
    pub(crate) fn peek(&mut self, key: Key<'_>) -> Result<bool, Missing> {
        let key = self.current(key);
        Ok(self.accessor.session.heat().quietly(|session| session.read(key, |_| ()))?.is_some())
    }

    /// How warm keys are.
    #[inline]
    pub fn heat(&mut self) -> KeyHeat<'_, 'w> {
        KeyHeat { keys: self }
    }

    /// Visits keys from `cursor` on, at least `count` unless the database ends before; 0 begins and ends. Keys that exist during
    /// the whole scan are visited once.
    pub fn scan(&mut self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], Metadata)) -> Scanned {
        if self.accessor.keyspace.store.figures().namespace_len(self.namespace).0 == 0 {
            return Scanned { cursor: 0, whole: Ok(()) };
        }
        self.accessor.session.keys(self.namespace).scan(cursor, count, |key, view| visit(key, Metadata::of(view)))
    }

    /// Puts some key of the database into `target`; false if there is none. `random` chooses where to look.
    ///
    /// # Errors
    /// When there are records to be read first; the next call goes on at the same place, whatever `random` it gets. Records that
    /// cannot be read do not matter where there are others.
    pub fn random_key(&mut self, random: u64, target: &mut Vec<u8>) -> Result<bool, Missing> {
        let namespace = self.namespace;
        let begun = self.accessor.random_walk.take().filter(|walk| walk.namespace == namespace);
        if self.accessor.keyspace.store.figures().namespace_len(namespace).0 == 0 {
            return Ok(false);
        }
        let session = &mut self.accessor.session;
        let mut walk = begun.unwrap_or_else(|| RandomWalk::new(session, namespace, random));
        let (random, mut whole) = (walk.random, Ok(()));
        loop {
            let mut found = 0u64;
            let visit = |key: &[u8], _: &View<'_>| {
                found += 1;
                // Reservoir of one: each key of the group is as likely.
                if random.wrapping_mul(found | 1).rotate_left(17).is_multiple_of(found) {
                    target.clear();
                    target.extend_from_slice(key);
                }
            };
            let session = &mut self.accessor.session;
            let wanted = session.cold().wanted();
            let scanned = match walk.in_part {
                true => session.keys(namespace).scan_part(walk.cursor, visit),
                false => session.keys(namespace).scan(walk.cursor, 1, visit),
            };
            if session.cold().wanted() > wanted {
                self.accessor.random_walk = Some(walk);
                return Err(Missing::Cold);
            }
            if found != 0 {
                return Ok(true);
            }
            whole = whole.and(scanned.whole);
            if !walk.go_on(scanned.cursor) {
                return whole.map(|()| false);
            }
            // The walk may be long where other databases are large: it does not hold memory up.
            self.accessor.session.keys(namespace).refresh();
        }
    }
}

/// How warm keys are. It is no part of their values: a command that only reads may change it, as TOUCH does.
pub struct KeyHeat<'a, 'w> {
    keys: &'a mut Reader<'w>,
}

impl KeyHeat<'_, '_> {
    /// Milliseconds since the last use of a key, at least, as precise as the clock hand's laps. Not while frequencies are counted.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn idle_ms(self, key: Key<'_>) -> Result<Option<i64>, Missing> {
        let key = self.keys.current(key);
        self.keys.accessor.session.heat().idle_ms(key)
    }

    /// How often a key was used of late, 0 to 7. Only while frequencies are counted.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn frequency(self, key: Key<'_>) -> Result<Option<u64>, Missing> {
        let key = self.keys.current(key);
        self.keys.accessor.session.heat().of(key)
    }

    /// As [`Reader::exists`], and the key gets warmer, even for a client that uses keys quietly (CLIENT NO-TOUCH).
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn touch(self, key: Key<'_>) -> Result<bool, Missing> {
        let key = self.keys.current(key);
        let found = self.keys.accessor.session.heat().loudly(|session| session.read(key, |_| ()))?.is_some();
        if !found {
            self.keys.accessor.session.notes().remove_met_expired(key);
        }
        Ok(found)
    }

    /// Makes a key as old as if it had not been used for `idle_ms`, as precisely as ages are told apart ([`KeyHeat::idle_ms`]).
    pub fn set_idle_ms(self, key: Key<'_>, idle_ms: i64) {
        let key = self.keys.current(key);
        self.keys.accessor.session.heat().set_idle_ms(key, idle_ms);
    }

    /// Makes a key as warm as [`KeyHeat::frequency`] says, 0 to 7; nothing happens while frequencies are not counted.
    pub fn set_frequency(self, key: Key<'_>, steps: u64) {
        let key = self.keys.current(key);
        self.keys.accessor.session.heat().set_frequency(key, steps);
    }
}

#[cold]
fn append_heap_value(view: &View<'_>, len: usize, out: &mut Output) {
    match view.shared() {
        Some(value) if len > REPLY_COPY_BYTES_MAX => out.attach(to_bytes(&value)),
        _ => view.append_to(&mut out.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyspace, Options};
    use almandine_device::MemoryDevice;
    use almandine_store::{Stage, Storage};
    use std::sync::Arc;
    use std::time::Duration;

    /// Databases 0 and 1 with these numbers of keys, all on the device.
    fn cold(keys: [u64; 2]) -> Accessor {
        let storage =
            Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: Arc::default() };
        let store = almandine_store::Options { memory_bytes_max: 1 << 28, storage: Some(storage), ..Default::default() };
        let keyspace = Keyspace::open(Options { maxmemory: 32 << 20, store, ..Options::default() }).expect("a keyspace");
        let mut accessor = keyspace.accessor().expect("an accessor");
        for (db, keys) in (0..).zip(keys) {
            for number in 0..keys {
                accessor.begin_batch(0);
                let name = format!("{db}:{number}");
                let key = accessor.key(db, name.as_bytes());
                accessor.writer(db).upsert(key, &[1; 100], Put::default()).expect("room");
                accessor.end_batch();
            }
            // The databases share no page.
            assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
        }
        accessor
    }

    /// A random key of a database, and how many records it asked for.
    fn random_key(accessor: &mut Accessor, db: u16) -> (Option<Vec<u8>>, usize) {
        let (mut stage, mut asked, mut fetcher) = (Stage::default(), 0, almandine_store::Fetcher::default());
        for attempt in 0..100 {
            accessor.begin_batch(0);
            accessor.attach(stage);
            let mut key = Vec::new();
            let found = accessor.reader(db).random_key(attempt << 40 | attempt << 20 | 12_345, &mut key);
            stage = accessor.detach();
            accessor.end_batch();
            if let Ok(found) = found {
                return (found.then_some(key), asked);
            }
            let mut wanted = accessor.cold().take_wanted();
            asked += wanted.len();
            accessor.session.cold().stage_blocking(&mut wanted, &mut stage, &mut fetcher);
        }
        panic!("no random key after {asked} records");
    }

    /// A small database beside a large one, in memory: as in the index that FLUSHALL leaves behind, nearly all buckets have
    /// nothing of it.
    #[test]
    fn a_small_database_costs_what_it_holds_and_its_keys_are_as_likely() {
        const DRAWS: u64 = 3000;
        let store = almandine_store::Options { background: false, keys_expected: 2_000_000, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).expect("a keyspace");
        let mut accessor = keyspace.accessor().expect("an accessor");
        accessor.begin_batch(0);
        for name in ["a", "b", "c"] {
            let key = accessor.key(1, name.as_bytes());
            accessor.writer(1).upsert(key, b"", Put::default()).expect("room");
        }
        let (mut cursor, mut keys, mut calls) = (0, 0, 0);
        loop {
            cursor = accessor.reader(1).scan(cursor, 10, &mut |_, _| keys += 1).cursor;
            calls += 1;
            if cursor == 0 {
                break;
            }
        }
        assert!(keys == 3 && calls < 10, "{keys} keys in {calls} calls");
        let (mut drawn, mut name, mut random) = ([0; 3], Vec::new(), 1u64);
        for _ in 0..DRAWS {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert_eq!(accessor.reader(1).random_key(random ^ random >> 33, &mut name), Ok(true));
            drawn[usize::from(name[0] - b'a')] += 1;
        }
        assert!(drawn.iter().all(|draws| (850..1150).contains(draws)), "{drawn:?}");
        accessor.end_batch();
    }

    #[test]
    fn a_random_key_asks_the_device_for_one_bucket() {
        let mut accessor = cold([50_000, 3]);
        for _ in 0..20 {
            let (key, asked) = random_key(&mut accessor, 0);
            assert!(key.is_some_and(|key| key.starts_with(b"0:")));
            assert!((1..100).contains(&asked), "{asked} records");
        }
    }

    #[test]
    fn a_small_database_beside_a_large_one_is_found_without_reading_that() {
        let mut accessor = cold([50_000, 3]);
        let (key, asked) = random_key(&mut accessor, 1);
        assert!(key.is_some_and(|key| key.starts_with(b"1:")));
        assert!((1..=3).contains(&asked), "{asked} records");
        let (mut cursor, mut keys) = (0, 0);
        loop {
            accessor.begin_batch(0);
            cursor = accessor.reader(1).scan(cursor, 1000, &mut |_, _| keys += 1).cursor;
            accessor.end_batch();
            if cursor == 0 {
                break;
            }
        }
        assert!(keys + accessor.cold().wanted() <= 3, "a scan asks for {} records", accessor.cold().wanted());
    }
}
