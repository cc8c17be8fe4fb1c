//! The clients that track, and the prefixes that they name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::options::TrackingOptions;
use crate::client::ClientShared;

/// One client that tracks.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) shared: Arc<ClientShared>,
    pub(super) options: TrackingOptions,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Registry {
    trackers: HashMap<u64, Tracker>,
    by_prefix: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
}

impl Registry {
    pub(super) fn enable(&mut self, client: &Arc<ClientShared>, options: TrackingOptions, prefixes: &[&[u8]]) {
        self.trackers.insert(client.id, Tracker { shared: Arc::clone(client), options });
        for prefix in prefixes {
            self.by_prefix.entry((*prefix).into()).or_default().insert(client.id);
        }
    }

    pub(super) fn disable(&mut self, client: u64) {
        self.trackers.remove(&client);
        self.by_prefix.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
    }

    pub(super) fn find(&self, client: u64) -> Option<&Tracker> {
        self.trackers.get(&client)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Tracker> {
        self.trackers.values()
    }

    pub(super) fn by_prefix(&self) -> impl Iterator<Item = (&[u8], &BTreeSet<u64>)> {
        self.by_prefix.iter().map(|(prefix, clients)| (prefix.as_ref(), clients))
    }

    /// The prefixes of `key` that are tracked.
    pub(super) fn matching(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.by_prefix.keys().map(AsRef::as_ref).filter(move |prefix: &&[u8]| key.starts_with(prefix))
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
