//! Watched keys: which clients must hear that a key has changed since they looked at it (WATCH).
//!
//! A table by key. A client enters a key and then looks at it under its latch; a session that changes the key later does so under
//! that latch and marks the client's [`Watcher`] (INV-CHANGE-1). Without watchers a change costs one load; with watchers one load
//! more, and a mutex only where a watched key is in the same part of the table.
//!
//! A key that the store removes by itself (expired, evicted) marks no watcher: a transaction looks again whether the keys that
//! were there still are.

use crate::key_table::{ByKey, Name, Named, shrink};
use almandine_base::steps;
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_store::Key;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// Parts of the table, each with a mutex of its own.
const SHARDS: usize = 1 << 12;

/// Whether any key that one client watches has changed.
#[derive(Debug, Default)]
pub struct Watcher {
    changed: AtomicBool,
}

impl Watcher {
    /// Whether a watched key has changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    pub(crate) fn mark(&self) {
        self.changed.store(true, Ordering::Release);
    }
}

/// The clients that watch one key: entering and leaving take one step, of one client as of a million.
#[derive(Debug)]
pub(crate) enum Watchers {
    One(Arc<Watcher>),
    /// By address. Boxed: most keys have one client, and the larger variant would take room in each entry.
    #[expect(clippy::box_collection, reason = "keeps the common variant small")]
    Many(Box<HashMap<usize, Arc<Watcher>>>),
}

fn address(watcher: &Arc<Watcher>) -> usize {
    Arc::as_ptr(watcher).addr()
}

impl Watchers {
    /// False if the client is one of them already.
    fn enter(&mut self, watcher: &Arc<Watcher>) -> bool {
        match self {
            Self::One(one) if Arc::ptr_eq(one, watcher) => false,
            Self::One(one) => {
                let both = [&*one, watcher].map(|watcher| (address(watcher), Arc::clone(watcher)));
                *self = Self::Many(Box::new(both.into()));
                true
            }
            Self::Many(many) => many.insert(address(watcher), Arc::clone(watcher)).is_none(),
        }
    }

    /// Whether the client was one of them, and whether it was the last.
    fn leave(&mut self, watcher: &Arc<Watcher>) -> (bool, bool) {
        match self {
            Self::One(one) => {
                let is_one = Arc::ptr_eq(one, watcher);
                (is_one, is_one)
            }
            Self::Many(many) => (many.remove(&address(watcher)).is_some(), many.is_empty()),
        }
    }

    pub(crate) fn mark(&self) {
        match self {
            Self::One(one) => one.mark(),
            Self::Many(many) => many.values().for_each(|watcher| watcher.mark()),
        }
    }
}

/// One part of the table.
#[derive(Debug, Default)]
struct Shard {
    /// Keys that are watched.
    keys: AtomicUsize,
    watched: Mutex<ByKey<Watchers>>,
}

impl Shard {
    fn watched(&self) -> MutexGuard<'_, ByKey<Watchers>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.keys.load(Ordering::Relaxed) == 0
    }
}

/// All watched keys.
#[derive(Debug)]
pub(crate) struct Watches {
    /// Keys of all clients together.
    pub(crate) watched: Mutex<usize>,
    shards: Box<[Shard]>,
}

impl Watches {
    pub(crate) fn new() -> Self {
        Self { watched: Mutex::new(0), shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    fn shard(&self, hash: u64) -> &Shard {
        // The low bits choose the bucket of the index; these are as good.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// A client watches a key from now on. False if it has before.
    pub(crate) fn enter(&self, key: &Key<'_>, watcher: &Arc<Watcher>) -> bool {
        steps::take(1);
        let shard = self.shard(key.hash);
        let mut watched = shard.watched();
        if let Some(watchers) = watched.get_mut(key as &dyn Named) {
            return watchers.enter(watcher);
        }
        watched.insert(Name::of(key), Watchers::One(Arc::clone(watcher)));
        shard.keys.store(watched.len(), Ordering::SeqCst);
        true
    }

    /// A client watches a key no more. False if it did not.
    pub(crate) fn leave(&self, key: &Key<'_>, watcher: &Arc<Watcher>) -> bool {
        steps::take(1);
        let shard = self.shard(key.hash);
        let mut watched = shard.watched();
        let Some(watchers) = watched.get_mut(key as &dyn Named) else { return false };
        let (was_one, is_empty) = watchers.leave(watcher);
        if is_empty {
            watched.remove(key as &dyn Named);
            shrink(&mut watched);
            shard.keys.store(watched.len(), Ordering::SeqCst);
        }
        was_one
    }

    /// Marks the watchers of a key that changes. Its bucket is latched.
    pub(crate) fn changed(&self, key: &Key<'_>) {
        let shard = self.shard(key.hash);
        if shard.is_empty() {
            return;
        }
        if let Some(watchers) = shard.watched().get(key as &dyn Named) {
            watchers.mark();
        }
    }

    /// Takes the keys of some namespaces out of the table. The caller is alone.
    pub(crate) fn take_namespaces(&self, is_one: impl Fn(u16) -> bool) -> Vec<(Name, Watchers)> {
        let mut taken = Vec::new();
        for shard in self.shards.iter().filter(|shard| !shard.is_empty()) {
            let mut watched = shard.watched();
            taken.extend(watched.extract_if(|name, _| is_one(name.namespace)));
            shard.keys.store(watched.len(), Ordering::SeqCst);
        }
        taken
    }

    /// Puts a key back, which is not in the table.
    pub(crate) fn put(&self, key: &Key<'_>, watchers: Watchers) {
        let shard = self.shard(key.hash);
        let mut watched = shard.watched();
        let before = watched.insert(Name::of(key), watchers);
        debug_assert!(before.is_none(), "INV-NS-2: one database has a namespace at a time");
        shard.keys.store(watched.len(), Ordering::SeqCst);
    }
}
