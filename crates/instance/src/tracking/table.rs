//! Which clients have read which keys: sharded by key, so that workers seldom wait for each other.
//!
//! Keys lie densely in a vector beside the map that finds them, so that one can be taken at random in O(1). Keys count by name
//! alone, whatever their database, as in Redis.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use almandine_io::sync::Mutex;

use crate::lock::lock;

const SHARDS: usize = 64;

#[derive(Debug)]
struct Entry {
    key: Arc<[u8]>,
    /// Ascending.
    clients: Vec<u64>,
}

#[derive(Debug, Default)]
struct Shard {
    /// Where in `entries` a key is.
    places: HashMap<Arc<[u8]>, usize>,
    entries: Vec<Entry>,
}

impl Shard {
    fn take(&mut self, place: usize) -> Entry {
        let entry = self.entries.swap_remove(place);
        self.places.remove(&entry.key);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(Arc::clone(&moved.key), place);
        }
        entry
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    keys: AtomicUsize,
    items: AtomicUsize,
    /// Keys taken out so far.
    taken: AtomicU64,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
        }
    }
}

impl Table {
    pub(super) fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    pub(super) fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    /// See [`super::trackers::Tracking::stamp`].
    pub(super) fn stamp(&self) -> u64 {
        self.taken.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Adds a client to a key.
    pub(super) fn insert(&self, key: &[u8], client: u64) {
        let mut shard = lock(self.shard(key));
        let Shard { places, entries } = &mut *shard;
        let place = places.get(key).copied().unwrap_or_else(|| {
            let key: Arc<[u8]> = key.into();
            places.insert(Arc::clone(&key), entries.len());
            entries.push(Entry { key, clients: Vec::with_capacity(1) });
            self.keys.fetch_add(1, Relaxed);
            entries.len() - 1
        });
        let clients = &mut entries[place].clients;
        if let Err(at) = clients.binary_search(&client) {
            clients.insert(at, client);
            self.items.fetch_add(1, Relaxed);
        }
    }

    /// Takes a key out, with the clients that have read it.
    pub(super) fn remove(&self, key: &[u8]) -> Option<Vec<u64>> {
        let mut shard = lock(self.shard(key));
        let place = *shard.places.get(key)?;
        Some(self.account(shard.take(place)).clients)
    }

    /// Takes some key out.
    pub(super) fn remove_random(&self) -> Option<(Arc<[u8]>, Vec<u64>)> {
        let random = self.hasher.hash_one(self.taken.load(Relaxed)) as usize;
        (0..SHARDS).find_map(|step| {
            let mut shard = lock(&self.shards[(random + step) % SHARDS]);
            let place = (random / SHARDS).checked_rem(shard.entries.len())?;
            let entry = self.account(shard.take(place));
            Some((entry.key, entry.clients))
        })
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let shard = std::mem::take(&mut *lock(shard));
            shard.entries.into_iter().for_each(|entry| drop(self.account(entry)));
        }
    }

    fn account(&self, entry: Entry) -> Entry {
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(entry.clients.len(), Relaxed);
        self.taken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_with_their_clients_and_random_ones_until_none_is_left() {
        let table = Table::default();
        for number in 0..1000_u32 {
            table.insert(&number.to_le_bytes(), 7);
            table.insert(&number.to_le_bytes(), 5);
            table.insert(&number.to_le_bytes(), 7);
        }
        assert_eq!((table.keys(), table.items()), (1000, 2000));
        let stamp = table.stamp();
        assert_eq!(table.remove(&3_u32.to_le_bytes()), Some(vec![5, 7]));
        assert_eq!(table.remove(&3_u32.to_le_bytes()), None);
        assert_ne!(table.stamp(), stamp);
        let mut order = Vec::new();
        while let Some((key, clients)) = table.remove_random() {
            assert_eq!(clients, [5, 7]);
            order.push(u32::from_le_bytes(key.as_ref().try_into().unwrap()));
        }
        assert_eq!((table.keys(), table.items(), order.len()), (0, 0, 999));
        assert!(!order.is_sorted());
        order.sort_unstable();
        order.dedup();
        assert_eq!(order.len(), 999);
    }

    #[test]
    fn clearing_forgets_all() {
        let table = Table::default();
        table.insert(b"a", 1);
        table.clear();
        assert_eq!((table.keys(), table.items(), table.remove(b"a")), (0, 0, None));
    }
}
