//! The logical databases: each is, at any time, one namespace of the store.

use crate::Accessor;
use crate::access::latest_time::LatestTime;
use crate::access::namespaces::Namespaces;
use crate::blocking::queues::Waiters;
use crate::changes::listeners::Listening;
use crate::types::TypeTable;
use crate::watch::table::Watches;
use almandine_base::limits::DATABASES_MAX;
use almandine_datatypes::hash::Placement;
use almandine_store::{Figures, Settings, Store};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How a keyspace is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of logical databases.
    pub databases: usize,
    /// Memory budget in bytes; 0 for none.
    pub maxmemory: u64,
    /// The store's own options.
    pub store: almandine_store::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self { databases: 16, maxmemory: 0, store: almandine_store::Options::default() }
    }
}

/// All databases of a server.
pub struct Keyspace {
    pub(crate) store: Store,
    pub(crate) types: Arc<TypeTable>,
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) listeners: Arc<Listening>,
    pub(crate) latest_time: LatestTime,
}

impl Keyspace {
    /// Opens empty databases.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub fn open(options: Options) -> io::Result<Arc<Self>> {
        // A client that knew where fields lie could choose fields that collide.
        let types = Arc::new(TypeTable { placement: Placement::new(options.store.seed.rotate_left(32)) });
        let mut store_options = options.store;
        store_options.types = Some(types.clone());
        let store = Store::open(store_options)?;
        let databases = options.databases.clamp(1, DATABASES_MAX);
        let namespaces: Vec<u16> =
            (0..databases).map(|_| store.allocate_namespace()).collect::<Result<_, _>>().map_err(io::Error::other)?;
        let namespaces = Arc::new(Namespaces::new(&namespaces));
        store.settings().set_budget(options.maxmemory);
        let watches = Arc::new(Watches::new());
        let told = Arc::clone(&watches);
        store.listeners().on_change(move |key| told.changed(key));
        let waiters = Arc::new(Waiters::new());
        let asked = Arc::clone(&waiters);
        store.listeners().on_awaited(move |key, kind| asked.note(key, kind));
        let latest_time = LatestTime::new();
        let keyspace = Self { store, types, namespaces, watches, waiters, listeners: Arc::default(), latest_time };
        keyspace.listen();
        keyspace.listen_to_events();
        Ok(Arc::new(keyspace))
    }

    /// The types that values have.
    #[must_use]
    pub fn types(&self) -> &Arc<TypeTable> {
        &self.types
    }

    /// Access for one worker thread; none when all sessions of the store are taken.
    #[must_use]
    pub fn accessor(self: &Arc<Self>) -> Option<Accessor> {
        Some(Accessor::new(Arc::clone(self), self.store.session()?))
    }

    /// What the background does, once, for a keyspace without one.
    pub fn maintain(&self, now_ms: i64) {
        self.store.maintain(now_ms);
    }

    /// Number of databases.
    #[must_use]
    pub fn databases(&self) -> usize {
        self.namespaces.len()
    }

    /// The namespace of a database, within a batch: none is swapped meanwhile (INV-NS-2).
    #[inline]
    pub(crate) fn namespace(&self, db: u16) -> u16 {
        self.namespaces.namespace(db)
    }

    /// Keys in a database, with those that have expired and are not removed yet. Exact, O(threads).
    #[must_use]
    pub fn dbsize(&self, db: u16) -> u64 {
        self.store.figures().namespace_len(self.namespaces.settled(db)).0
    }

    /// Keys in all databases. O(databases × threads).
    #[must_use]
    pub fn keys(&self) -> u64 {
        (0..self.databases()).filter_map(|db| u16::try_from(db).ok()).map(|db| self.dbsize(db)).sum()
    }

    /// Keys with an expiry in a database.
    #[must_use]
    pub fn expires(&self, db: u16) -> u64 {
        self.store.figures().namespace_len(self.namespaces.settled(db)).1
    }

    fn replace_namespace(&self, db: u16) -> u64 {
        let keys = self.dbsize(db);
        if keys == 0 {
            return 0;
        }
        let fresh = loop {
            match self.store.allocate_namespace() {
                Ok(namespace) => break namespace,
                // 65,000 emptied namespaces wait for their sweep, which takes a moment.
                Err(_) => almandine_io::thread::sleep(Duration::from_millis(1)),
            }
        };
        self.store.drop_namespace(self.namespaces.replace(db, fresh));
        keys
    }

    /// Waits until what is used is within `budget`, which has been set, nothing more can be evicted, or the time is over.
    /// Outside an epoch.
    pub fn await_eviction(&self, budget: u64, within: Duration) {
        const STEP: Duration = Duration::from_millis(1);
        let steps = within.as_millis() / STEP.as_millis();
        for _ in 0..steps {
            if budget == 0 || self.figures().tier().is_some() || self.figures().used_bytes() <= budget || self.over_limit() {
                break;
            }
            almandine_io::thread::sleep(STEP);
        }
    }

    /// What the store holds and has done, in numbers.
    #[must_use]
    pub fn figures(&self) -> Figures<'_> {
        self.store.figures()
    }

    /// What can be set while the store is in use.
    #[must_use]
    pub fn settings(&self) -> Settings<'_> {
        self.store.settings()
    }

    /// Whether commands that need memory must be refused: the budget is used up and nothing can be evicted.
    #[inline]
    #[must_use]
    pub fn over_limit(&self) -> bool {
        self.store.is_over_limit() && self.is_still_over_limit()
    }

    /// What was used may be free again: clients that did not read have gone, say.
    #[cold]
    fn is_still_over_limit(&self) -> bool {
        self.store.refresh_over_limit();
        self.store.is_over_limit()
    }

    /// Compares memory in use with the budget at once.
    pub fn refresh_over_limit(&self) {
        self.store.refresh_over_limit();
    }

    /// Makes all keys cold: everything that is in memory leaves for the device. False when that is not possible in time.
    #[must_use]
    pub fn empty_memory(&self, within: Duration) -> bool {
        self.store.empty_memory(within)
    }

    /// Whether commands that write should wait, because the device, or compaction in memory, is slower than they are.
    #[inline]
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.store.is_stalled()
    }
}

impl Accessor {
    /// Empties databases in O(1), for everybody at once (INV-NS-2); their records are freed in the background. Returns how many
    /// keys they held.
    pub fn flush(&mut self, dbs: &[u16]) -> u64 {
        self.alone(|accessor| {
            let mut keys = 0;
            accessor.remap(dbs, false, |keyspace| keys = dbs.iter().map(|&db| keyspace.replace_namespace(db)).sum());
            accessor.count_changes(keys.cast_signed());
            keys
        })
    }

    /// Changes the namespaces of databases, with all that follows from it. The caller is alone.
    fn remap(&mut self, dbs: &[u16], swapped: bool, remap: impl FnOnce(&Keyspace)) {
        let before: Vec<u16> = dbs.iter().map(|&db| self.keyspace.namespace(db)).collect();
        self.remap_waiting(dbs, |accessor| accessor.remap_watched(dbs, swapped, remap));
        // The commands behind it in the same unit mean the databases as they are now.
        self.namespaces.clear();
        for (&db, before) in dbs.iter().zip(before) {
            let namespace = self.keyspace.namespace(db);
            if namespace != before {
                self.session.notes().note_database(db, namespace);
            }
        }
    }

    /// Swaps the contents of two databases, for everybody at once (INV-NS-2).
    pub fn swap(&mut self, left: u16, right: u16) {
        if left == right {
            self.count_changes(1);
            return;
        }
        self.alone(|accessor| {
            accessor.remap(&[left, right], true, |keyspace| keyspace.namespaces.swap(left, right));
            accessor.count_changes(1);
        });
    }
}
