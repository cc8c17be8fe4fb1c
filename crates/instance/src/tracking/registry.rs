//! The clients that track, and the prefixes that they name.
//!
//! A key is looked up once for each length that prefixes have, however many prefixes there are.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use almandine_base::steps;

use super::options::TrackingOptions;
use crate::client::ClientShared;

/// One client that tracks.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) shared: Arc<ClientShared>,
    pub(super) options: TrackingOptions,
    prefixes: Vec<Arc<[u8]>>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Registry {
    trackers: HashMap<u64, Tracker>,
    by_prefix: BTreeMap<Arc<[u8]>, BTreeSet<u64>>,
    /// How many prefixes have which length.
    lengths: BTreeMap<usize, usize>,
}

impl Registry {
    pub(super) fn enable(&mut self, client: &Arc<ClientShared>, options: TrackingOptions, prefixes: &[&[u8]]) {
        let new = || Tracker { shared: Arc::clone(client), options, prefixes: Vec::new() };
        let tracker = self.trackers.entry(client.id).or_insert_with(new);
        tracker.options = options;
        for prefix in prefixes {
            let entry = self.by_prefix.entry((*prefix).into());
            if matches!(entry, Entry::Vacant(_)) {
                *self.lengths.entry(prefix.len()).or_default() += 1;
            }
            let name = Arc::clone(entry.key());
            if entry.or_default().insert(client.id) {
                tracker.prefixes.push(name);
            }
        }
    }

    pub(super) fn disable(&mut self, client: u64) {
        let Some(tracker) = self.trackers.remove(&client) else { return };
        for prefix in tracker.prefixes {
            steps::take(1);
            let Entry::Occupied(mut entry) = self.by_prefix.entry(prefix) else { continue };
            entry.get_mut().remove(&client);
            if entry.get().is_empty() {
                let (prefix, _) = entry.remove_entry();
                if let Entry::Occupied(mut count) = self.lengths.entry(prefix.len()) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            }
        }
        debug_assert_eq!(self.lengths.values().sum::<usize>(), self.by_prefix.len(), "each prefix has a length");
    }

    pub(super) fn find(&self, client: u64) -> Option<&Tracker> {
        self.trackers.get(&client)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Tracker> {
        self.trackers.values()
    }

    /// The prefixes of `key` that are tracked, with the clients that do.
    pub(super) fn matching(&self, key: &[u8]) -> impl Iterator<Item = (&[u8], &BTreeSet<u64>)> {
        let prefixes = self.lengths.keys().map_while(move |len| key.get(..*len));
        prefixes.filter_map(|prefix| {
            steps::take(1);
            self.by_prefix.get_key_value(prefix).map(|(prefix, clients)| (prefix.as_ref(), clients))
        })
    }

    pub(super) fn clients(&self) -> usize {
        self.trackers.len()
    }

    pub(super) fn prefixes(&self) -> usize {
        self.by_prefix.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trackers.is_empty()
    }
}
