//! Tables by key: of queues of clients that wait, and of clients that watch. A key is found in them without a copy of its bytes.

use almandine_base::steps;
use almandine_store::Key;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A table by key. The hash of a key is seeded by the store, so that clients cannot choose keys that collide.
pub(crate) type ByKey<V> = HashMap<Name, V, BuildHasherDefault<HashedAlready>>;

/// Keys for which a table keeps its memory when it has none any more.
const CAPACITY_KEPT: usize = 64;

/// Gives back what a table that has shrunk keeps.
pub(crate) fn shrink<V>(table: &mut ByKey<V>) {
    if table.capacity() > CAPACITY_KEPT && table.len() < table.capacity() / 8 {
        let capacity = table.len() * 2;
        steps::take(table.len());
        table.shrink_to(capacity);
    }
}

/// A key as a table knows it.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) hash: u64,
    pub(crate) namespace: u16,
    pub(crate) key: Box<[u8]>,
}

/// A key to be found in a table, by its own bytes or by borrowed ones.
pub(crate) trait Named {
    fn name(&self) -> (u64, u16, &[u8]);
}

impl Name {
    pub(crate) fn of(key: &Key<'_>) -> Self {
        Self { hash: key.hash, namespace: key.namespace, key: key.bytes.into() }
    }
}

impl Named for Name {
    fn name(&self) -> (u64, u16, &[u8]) {
        (self.hash, self.namespace, &self.key)
    }
}

impl Named for Key<'_> {
    fn name(&self) -> (u64, u16, &[u8]) {
        (self.hash, self.namespace, self.bytes)
    }
}

impl Hash for dyn Named + '_ {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.name().0);
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        steps::take(1);
        self.name() == other.name()
    }
}

impl Eq for dyn Named + '_ {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self as &dyn Named).hash(hasher);
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        (self as &dyn Named) == (other as &dyn Named)
    }
}

impl Eq for Name {}

impl<'n> Borrow<dyn Named + 'n> for Name {
    fn borrow(&self) -> &(dyn Named + 'n) {
        self
    }
}

/// Hashes of keys need no further hashing.
#[derive(Default)]
pub(crate) struct HashedAlready(u64);

impl Hasher for HashedAlready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
