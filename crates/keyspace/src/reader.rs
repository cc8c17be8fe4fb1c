//! Reading: everything a command may do that changes nothing.

use crate::value::{Held, Value, to_bytes};
use crate::{Accessor, Key};
use almandine_base::Output;
use almandine_base::limits::REPLY_COPY_BYTES_MAX;
use almandine_store::{Kind, Put, View};

/// The key holds a value of another kind than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongKind;

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
/// [`Reader::lock_shared`]. Dropping it releases what it holds.
pub struct Reader<'w> {
    pub(crate) accessor: &'w mut Accessor,
    pub(crate) db: u16,
    pub(crate) namespace: u16,
}

impl Drop for Reader<'_> {
    #[inline]
    fn drop(&mut self) {
        self.accessor.session.unlock_all();
        self.accessor.namespaces.clear();
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

    /// Latches the keys shared, so that they are read as of one moment. Once per reader.
    pub fn lock_shared(&mut self, keys: &[(u16, &[u8])]) {
        self.lock_keys(keys.iter().copied(), false);
    }

    /// As [`Reader::lock_shared`], for keys of this database from an iterator.
    pub fn lock_shared_all<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let db = self.db;
        self.lock_keys(keys.map(|key| (db, key)), false);
    }

    pub(crate) fn lock_keys<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])>, exclusive: bool) {
        let mut hashes = std::mem::take(&mut self.accessor.hashes);
        hashes.clear();
        for (db, key) in keys {
            let namespace = self.namespace_of(db);
            hashes.push(self.accessor.session.hash(namespace, key));
        }
        if !hashes.is_empty() {
            self.accessor.session.lock_all(&hashes, exclusive);
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
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        let key = self.current(key);
        let Accessor { session, scratch, .. } = &mut *self.accessor;
        let found = session.read(key, |view| {
            scratch.clear();
            let shared = view.shared();
            if shared.is_none() {
                view.append_to(scratch);
            }
            (view.kind(), Put { expiry_ms: view.expiry_ms(), etag: view.etag(), edited: view.is_edited() }, shared)
        });
        let Some((kind, put, shared)) = found else {
            session.remove_met_expired(key);
            return None;
        };
        let bytes = shared.map_or(Held::Copied(scratch), Held::Shared);
        Some(Value { bytes, kind, put })
    }

    /// Appends a string to `out`: first `write_length` gets the buffer and the length, then the bytes follow; long ones are
    /// attached, not copied. Returns the length, or `None` when the key does not exist; then nothing was written.
    ///
    /// # Errors
    /// When the value is not a string.
    #[inline]
    pub fn read_string_into(
        &mut self,
        key: Key<'_>,
        out: &mut Output,
        mut write_length: impl FnMut(&mut Vec<u8>, usize),
    ) -> Result<Option<usize>, WrongKind> {
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
        if result.is_none() {
            if written {
                // An attempt that was not valid has written something.
                out.truncate(mark);
            }
            self.accessor.session.remove_met_expired(key);
        }
        result.transpose()
    }

    /// What is known about a key. Looking is no use of it: it gets no warmer.
    pub fn metadata(&mut self, key: Key<'_>) -> Option<Metadata> {
        let key = self.current(key);
        let found = self.accessor.session.quietly(|session| session.read(key, Metadata::of));
        if found.is_none() {
            self.accessor.session.remove_met_expired(key);
        }
        found
    }

    /// Milliseconds since the last use of a key, at least, as precise as the clock hand's laps. Not while frequencies are counted.
    pub fn idle_ms(&mut self, key: Key<'_>) -> Option<i64> {
        let key = self.current(key);
        self.accessor.session.idle_ms(key)
    }

    /// How often a key was used of late, 0 to 7. Only while frequencies are counted.
    pub fn frequency(&mut self, key: Key<'_>) -> Option<u64> {
        let key = self.current(key);
        self.accessor.session.heat(key)
    }

    /// Whether a key exists.
    pub fn exists(&mut self, key: Key<'_>) -> bool {
        let key = self.current(key);
        let found = self.accessor.session.read(key, |_| ()).is_some();
        if !found {
            self.accessor.session.remove_met_expired(key);
        }
        found
    }

    /// Visits keys from `cursor` on, at least `count` if there are so many, and returns the cursor to go on with; 0 begins and
    /// ends. Keys that exist during the whole scan are visited once.
    pub fn scan(&mut self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], Metadata)) -> u64 {
        if self.accessor.keyspace.store.namespace_len(self.namespace).0 == 0 {
            return 0;
        }
        self.accessor.session.scan(self.namespace, cursor, count, |key, view| visit(key, Metadata::of(view)))
    }

    /// Puts some key of the database into `target`; false if there is none. `random` chooses where to look.
    pub fn random_key(&mut self, random: u64, target: &mut Vec<u8>) -> bool {
        if self.accessor.keyspace.store.namespace_len(self.namespace).0 == 0 {
            return false;
        }
        let start = random >> 16;
        let mut cursor = start;
        let mut wrapped = false;
        loop {
            let mut found = 0u64;
            cursor = self.accessor.session.scan(self.namespace, cursor, 1, |key, _| {
                found += 1;
                // Reservoir of one: each key of the group is as likely.
                if random.wrapping_mul(found | 1).rotate_left(17).is_multiple_of(found) {
                    target.clear();
                    target.extend_from_slice(key);
                }
            });
            if found != 0 {
                return true;
            }
            if cursor == 0 {
                if wrapped {
                    return false;
                }
                wrapped = true;
            }
        }
    }
}

#[cold]
fn append_heap_value(view: &View<'_>, len: usize, out: &mut Output) {
    match view.shared() {
        Some(value) if len > REPLY_COPY_BYTES_MAX => out.attach(to_bytes(&value)),
        _ => view.append_to(&mut out.bytes),
    }
}
