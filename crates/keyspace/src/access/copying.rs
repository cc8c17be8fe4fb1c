//! Copying all databases as they are at one moment, while others write.

use std::sync::Arc;

use almandine_base::step;
use almandine_store::{EvictionOrder, RecordCopy, Records, Walk};

use crate::types::Stored;
use crate::{Accessor, Keyspace, Missing, UnitOfWork};

/// A database of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedDatabase {
    /// Its number.
    pub db: u16,
    /// Keys, with those past their time that are not removed yet.
    pub keys: u64,
    /// Of these, keys with an expiry.
    pub expiring: u64,
    namespace: u16,
}

/// When a key was last used, or how often, as far as what is evicted depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyUse {
    /// It does not matter.
    #[default]
    Any,
    /// Seconds since the last use, at least.
    IdleSeconds(u64),
    /// How often it was used of late, 0 to 7.
    Frequency(u64),
}

/// A key of a copy.
#[derive(Clone, Copy)]
pub struct CopiedKey<'c> {
    /// Its database, as of the moment.
    pub db: u16,
    /// Its name.
    pub key: &'c [u8],
    /// Its value at that time.
    pub value: Stored<'c>,
    /// When it expires, in milliseconds since the Unix epoch; perhaps before the moment.
    pub expiry_ms: Option<i64>,
    /// Its entity tag.
    pub etag: Option<u64>,
    /// How it was used.
    pub used: KeyUse,
}

/// A copy of all databases as they were at one moment (INV-COPY-1). While it lives, writers save for it what they overwrite.
pub struct Copying {
    keyspace: Arc<Keyspace>,
    walk: Walk,
    /// Ascending by namespace.
    databases: Vec<CopiedDatabase>,
    records: Records,
    now_ms: i64,
    order: EvictionOrder,
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.keyspace.store.end_copy();
    }
}

impl UnitOfWork<'_> {
    /// Begins a copy of this moment, at which no other unit of work is under way; not in a unit that holds latches. Writers wait
    /// when what they have changed before the copy came to it takes more than `saved_bytes_max` bytes. None: there is a copy
    /// under way.
    #[must_use]
    pub fn begin_copying(&mut self, saved_bytes_max: u64) -> Option<Copying> {
        let begin = |accessor: &mut Accessor| Copying::begin(accessor, saved_bytes_max);
        step!(RaiseAlone, self.accessor.alone(begin), else begin(self.accessor))
    }
}

impl Copying {
    fn begin(accessor: &mut Accessor, saved_bytes_max: u64) -> Option<Self> {
        let keyspace = &accessor.keyspace;
        let mut databases: Vec<CopiedDatabase> = (0..keyspace.databases() as u16)
            .map(|db| {
                let namespace = keyspace.namespace(db);
                let (keys, expiring) = keyspace.figures().namespace_len(namespace);
                CopiedDatabase { db, keys, expiring, namespace }
            })
            .filter(|database| database.keys != 0)
            .collect();
        databases.sort_unstable_by_key(|database| database.namespace);
        let namespaces: Vec<u16> = databases.iter().map(|database| database.namespace).collect();
        let walk = accessor.session.plan().begin_copy(&namespaces, saved_bytes_max)?;
        Some(Self {
            keyspace: Arc::clone(&accessor.keyspace),
            walk,
            databases,
            records: Records::default(),
            now_ms: accessor.session.now_ms(),
            order: accessor.keyspace.settings().eviction().order,
        })
    }

    /// The moment, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The databases that had keys.
    pub fn databases(&self) -> impl Iterator<Item = &CopiedDatabase> {
        self.databases.iter()
    }

    /// How much of it is done, in parts of a million.
    #[must_use]
    pub fn millionths(&self) -> u64 {
        self.walk.millionths()
    }

    /// Records that were damaged on the device and had to be given up before they were copied.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.walk.lost(&self.keyspace.store)
    }

    /// Copies some more keys and visits them, outside of latches and epochs; those of one database follow one another. Outside of a
    /// batch, by an accessor of the same keyspace; false: that was all.
    ///
    /// # Errors
    /// When a record on the device cannot be read; the next call tries again.
    pub fn next(&mut self, accessor: &mut Accessor, mut visit: impl FnMut(CopiedKey<'_>)) -> Result<bool, Missing> {
        self.records.clear();
        let walked = self.walk.next(&mut accessor.session, &mut self.records);
        let idle_ms = accessor.session.heat().idle_ms_by_heat();
        let mut keys: Vec<(u16, RecordCopy<'_>)> =
            self.records.iter().filter_map(|record| Some((self.database(record.namespace)?, record))).collect();
        if keys.iter().any(|(db, _)| *db != keys[0].0) {
            keys.sort_by_key(|(db, _)| *db);
        }
        for (db, record) in keys {
            let used = match self.order {
                EvictionOrder::Recency => KeyUse::IdleSeconds(idle_ms[record.heat as usize % idle_ms.len()] / 1000),
                EvictionOrder::Frequency => KeyUse::Frequency(record.heat),
                _ => KeyUse::Any,
            };
            let value = Stored { kind: record.kind, body: record.value, now: self.now_ms.max(0) as u64 };
            let RecordCopy { key, put, .. } = record;
            visit(CopiedKey { db, key, value, expiry_ms: put.expiry_ms, etag: put.etag, used });
        }
        walked
    }

    fn database(&self, namespace: u16) -> Option<u16> {
        let found = self.databases.binary_search_by_key(&namespace, |database| database.namespace);
        found.ok().map(|at| self.databases[at].db)
    }
}
