//! Channels with listeners, in parts that are locked one by one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use crossbeam_utils::CachePadded;

use super::Counts;
use crate::lock::lock;

/// Parts; a power of two. Those who publish to channels of one part wait for each other.
const PARTS: usize = 64;

type Part = HashMap<Bytes, Counts>;

#[derive(Debug)]
pub(super) struct Channels {
    parts: Box<[CachePadded<Mutex<Part>>]>,
    hasher: RandomState,
    len: AtomicUsize,
}

impl Default for Channels {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| CachePadded::default()).collect(), hasher: RandomState::new(), len: AtomicUsize::new(0) }
    }
}

impl Channels {
    /// The part of a channel. As long as it is held, nobody else publishes to the channel.
    pub(super) fn part(&self, channel: &[u8]) -> MutexGuard<'_, Part> {
        lock(&self.parts[self.hasher.hash_one(channel) as usize % PARTS])
    }

    pub(super) fn add(&self, channel: &Bytes, worker: usize) {
        let mut part = self.part(channel);
        let before = part.len();
        part.entry(channel.clone()).or_default().add(worker);
        self.len.fetch_add(part.len() - before, Relaxed);
    }

    pub(super) fn remove(&self, channel: &[u8], worker: usize) {
        let mut part = self.part(channel);
        if part.get_mut(channel).is_some_and(|counts| counts.subtract(worker)) {
            part.remove(channel);
            self.len.fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn names(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        let mut names = Vec::new();
        for part in &self.parts {
            names.extend(lock(part).keys().filter(|name| wanted(name)).cloned());
        }
        names
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }
}
