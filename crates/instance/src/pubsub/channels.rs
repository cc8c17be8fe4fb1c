//! Channels with listeners, in parts that are locked one by one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use almandine_io::entropy;
use almandine_io::sync::{Mutex, MutexGuard};
use bytes::Bytes;
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

use super::{Counts, shrinks_to};
use crate::lock::lock;

/// Parts; a power of two. Messages to channels of one part are posted one after the other.
const PARTS: usize = 64;

/// A channel and its listeners.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) name: Bytes,
    pub(super) counts: Counts,
}

#[derive(Debug)]
pub(super) struct Channels {
    parts: Box<[CachePadded<Mutex<HashTable<Channel>>>]>,
    /// Of the hash: channels are named by clients.
    secrets: RapidSecrets,
    len: AtomicUsize,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            parts: (0..PARTS).map(|_| CachePadded::default()).collect(),
            secrets: RapidSecrets::seed(entropy::seed()),
            len: AtomicUsize::new(0),
        }
    }
}

/// The part of a channel, locked.
pub(super) struct Part<'c> {
    channels: MutexGuard<'c, HashTable<Channel>>,
    name: &'c [u8],
    hash: u64,
}

impl Part<'_> {
    /// The channel, if it has a listener.
    pub(super) fn channel(&self) -> Option<&Channel> {
        self.channels.find(self.hash, |channel| channel.name == self.name)
    }
}

impl Channels {
    fn hash(&self, channel: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, false>(channel, &self.secrets)
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, HashTable<Channel>> {
        // The tables use the bits at both ends.
        lock(&self.parts[(hash >> 32) as usize % PARTS])
    }

    /// The part of a channel. While it is held, no other message of the channel is posted.
    pub(super) fn part<'c>(&'c self, name: &'c [u8]) -> Part<'c> {
        let hash = self.hash(name);
        Part { channels: self.lock(hash), name, hash }
    }

    pub(super) fn add(&self, name: &Bytes, worker: usize) {
        let hash = self.hash(name);
        let mut part = self.lock(hash);
        match part.entry(hash, |channel| channel.name == *name, |channel| self.hash(&channel.name)) {
            Entry::Occupied(mut channel) => channel.get_mut().counts.add(worker),
            Entry::Vacant(vacant) => {
                let mut counts = Counts::default();
                counts.add(worker);
                vacant.insert(Channel { name: name.clone(), counts });
                self.len.fetch_add(1, Relaxed);
            }
        }
    }

    pub(super) fn remove(&self, name: &[u8], worker: usize) {
        let hash = self.hash(name);
        let mut part = self.lock(hash);
        if let Ok(mut channel) = part.find_entry(hash, |channel| channel.name == name)
            && channel.get_mut().counts.subtract(worker)
        {
            channel.remove();
            self.len.fetch_sub(1, Relaxed);
            if let Some(capacity) = shrinks_to(part.len(), part.capacity()) {
                part.shrink_to(capacity, |channel| self.hash(&channel.name));
            }
        }
    }

    pub(super) fn names(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        let mut names = Vec::new();
        for part in &self.parts {
            names.extend(lock(part).iter().filter(|channel| wanted(&channel.name)).map(|channel| channel.name.clone()));
        }
        names
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }
}
