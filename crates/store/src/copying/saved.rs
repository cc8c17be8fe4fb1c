//! What was saved for a copy of one moment: by parts of the order in which its walk passes the keys.

use super::records::Records;
use crate::record::key::Key;
use almandine_base::step;
use almandine_io::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts: few saved records in each, so that the walk takes memory back soon, and so that sessions seldom meet.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 12;
/// Bytes of the table for each saved record, about.
const ENTRY_BYTES: u64 = 24;

/// What was saved.
pub(super) struct Saved {
    parts: Box<[Mutex<Part>]>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Part {
    records: Records,
    /// Where the first record with a hash is. Another key with the same hash follows it somewhere.
    firsts: HashMap<u64, u32, BuildHasherDefault<Same>>,
    bytes: u64,
}

/// A hash of keys is one already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "keys are numbers");
    }

    fn write_u64(&mut self, hash: u64) {
        // The table takes its bits from both ends; the low ones of the keys of one part are the same.
        self.0 = hash.rotate_left(u64::BITS / 2);
    }
}

impl Part {
    fn has(&self, namespace: u16, key: &[u8], hash: u64) -> bool {
        let Some(&first) = self.firsts.get(&hash) else { return false };
        // Two keys with one hash are next to impossible.
        (first as usize..self.records.len()).any(|at| self.records.is_of(at, namespace, key))
    }
}

impl Saved {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::new(Part::default())).collect(), bytes: AtomicU64::new(0) }
    }

    /// Bytes that all of it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets go of all of it.
    pub(super) fn clear(&self) {
        (0..PARTS).for_each(|part| drop(self.take_part(part)));
    }

    /// Saves a key by `push`, unless it was saved before. `push` returns the bytes that the record holds elsewhere. Returns the
    /// bytes of all that is saved.
    pub(super) fn save(&self, key: &Key<'_>, push: impl FnOnce(&mut Records) -> usize) -> u64 {
        debug_assert_ne!(key.namespace, 0, "INV-NS-1: zero names no namespace");
        let mut part = self.part(part_of(key.hash));
        if part.has(key.namespace, key.bytes, key.hash) {
            return self.bytes();
        }
        let Part { records, firsts, bytes } = &mut *part;
        let (before, first) = (records.memory_bytes(), records.len() as u32);
        let held = push(records);
        firsts.entry(key.hash).or_insert(first);
        debug_assert_eq!(records.len(), first as usize + 1, "INV-COPY-1: a key is saved once");
        let more = (records.memory_bytes() - before + held) as u64 + ENTRY_BYTES;
        *bytes += more;
        self.bytes.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Whether a key was saved.
    pub(super) fn has(&self, namespace: u16, key: &[u8], hash: u64) -> bool {
        let part = self.part(part_of(hash));
        !part.records.is_empty() && part.has(namespace, key, hash)
    }

    /// Moves to `into` what was saved in the parts from the one of the position `from` on, as far as they end before `passed`,
    /// a halved position.
    pub(super) fn take(&self, from: u64, passed: u64, into: &mut Records) {
        let shift = u64::BITS - 1 - PART_BITS;
        debug_assert!(passed >> shift <= PARTS as u64, "INV-COPY-1: the walk ends behind the last part");
        let passed = step!(KeepSaved, passed >> shift, else PARTS as u64);
        (from >> (shift + 1)..passed).for_each(|part| into.append(self.take_part(part as usize)));
    }

    fn take_part(&self, part: usize) -> Records {
        let part = std::mem::take(&mut *self.part(part));
        let before = self.bytes.fetch_sub(part.bytes, Ordering::Relaxed);
        debug_assert!(before >= part.bytes, "INV-COPY-1: what is taken was saved");
        part.records
    }

    fn part(&self, part: usize) -> MutexGuard<'_, Part> {
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of the walk's order in which a hash is.
fn part_of(hash: u64) -> usize {
    let part = (hash.reverse_bits() >> (u64::BITS - PART_BITS)) as usize;
    debug_assert!(part < PARTS, "INV-COPY-1: the parts are the whole of the order");
    part
}
