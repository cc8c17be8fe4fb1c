//! The expensive checks of debug builds: buckets against the invariants of the index and the log.
//!
//! A batch checks the buckets that it touched when it ends, the background a few buckets after each step, and a store that is
//! dropped at rest all of it. In release builds nothing is noted and nothing is checked. A failed check is a bug of the engine,
//! found close to its cause.

use super::batch::Session;
use crate::index::bucket::ENTRIES;
use crate::index::entry::Entry;
use crate::index::{BUCKETS_MIN, Index};
use crate::log::{Log, PageState};
use crate::record::{Header, Record, UNITS_MAX};
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buckets that the background checks after a step.
const SAMPLE: u64 = 16;
/// A store with more buckets than this is not checked as a whole.
const WHOLE_MAX: u64 = 1 << 14;

impl Session {
    /// Checks the buckets of what the batch has changed. Called inside the epoch, without latches.
    pub(super) fn check_touched(&mut self) {
        debug_assert!(!self.holds_latches(), "INV-LATCH-2: no latch outlives its batch");
        for hash in self.local.touched.take() {
            let latch = self.store.index.lock_shared(hash);
            debug_assert_eq!(
                Index::bucket_of(hash, self.store.index.len()),
                latch.number(),
                "INV-INDEX-1: a latched bucket keeps its keys"
            );
            check_bucket(&self.store, self.local.head, latch.number());
        }
    }

    /// Checks some buckets anywhere.
    pub(crate) fn check_sample(&mut self, now_ms: i64) {
        self.enter(now_ms);
        let buckets = self.store.index.len();
        debug_assert!(buckets >= BUCKETS_MIN, "INV-INDEX-1: the index keeps its fewest buckets");
        let first = self.local.heat.random() % buckets;
        for number in first..(first + SAMPLE).min(buckets) {
            // The count may have gone down meanwhile: then this bucket is another one's now, and empty.
            let latch = self.store.index.latch_shared(number);
            if number < self.store.index.len() {
                check_bucket(&self.store, self.local.head, latch.number());
            }
        }
        self.leave();
    }
}

/// Checks a bucket that is latched: its entries, their records, and what they say of each other.
fn check_bucket(store: &Shared, head: u64, number: u64) {
    let bucket = store.index.bucket(number);
    debug_assert!(bucket.is_latched(), "INV-LATCH-1: a bucket is checked under its latch");
    check_density(store, number);
    let mut entries = Vec::new();
    store.index.collect(number, &mut entries);
    for entry in &entries {
        debug_assert!(!entry.is_short() || bucket.glance().has_short_tags(), "INV-INDEX-2: a short tag is announced");
        if entry.address() >= head {
            check_record(store, number, *entry);
        }
    }
    check_distinct(store, &entries);
}

/// INV-INDEX-3.
fn check_density(store: &Shared, number: u64) {
    let bucket = store.index.bucket(number);
    let own: Vec<bool> = bucket.entries.iter().map(|cell| cell.load(Ordering::Acquire) != 0).collect();
    let used = own.iter().take_while(|used| **used).count();
    debug_assert!(own[used..].iter().all(|used| !used), "INV-INDEX-3: bucket {number} has a hole: {own:?}");
    let mut chain = store.index.overflow_counts(number);
    debug_assert!(bucket.overflow() == 0 || used == ENTRIES, "INV-INDEX-3: bucket {number} has an overflow and room: {own:?}");
    if let Some(front) = chain.next() {
        debug_assert_ne!(front.used, 0, "INV-INDEX-3: bucket {number} keeps an empty bucket of the overflow area");
        debug_assert!(
            chain.all(|link| link.used == link.places),
            "INV-INDEX-3: only the front of bucket {number}'s chain has room"
        );
    }
}

/// The record of an entry that is in memory.
fn check_record(store: &Shared, number: u64, entry: Entry) {
    let address = entry.address();
    let page = Log::page_of(address);
    debug_assert_ne!(store.log.pages.state(page), PageState::Absent, "INV-TIER-1: page {page} is above the head and not in memory");
    // SAFETY: an entry under its latch leads to a record, and what lies above the head stays in memory while the session is inside.
    let record = unsafe { store.log.record(address) };
    let header = record.header();
    debug_assert!((1..=UNITS_MAX).contains(&header.units()), "INV-LOG-2: the record at {address} has {} words", header.units());
    debug_assert_eq!(page, Log::page_of(address + header.units() as u64 - 1), "INV-LOG-2: the record at {address} leaves its page");
    debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: the entry of a live key leads to the dead record at {address}");
    debug_assert!(
        Record::packed_units(header, header.has(Header::CACHED)) <= header.units(),
        "INV-LOG-2: the parts of the record at {address} do not fit it"
    );
    debug_assert!(!header.has(Header::CACHED) || store.tier.is_some(), "INV-TIER-2: a copy without a device");
    let hash = store.hash_of(record, header);
    debug_assert_eq!(Index::bucket_of(hash, store.index.len()), number, "INV-INDEX-1: the key at {address} is in the wrong bucket");
    debug_assert!(
        store.namespaces.regions.may_have(header.namespace(), hash),
        "INV-SCAN-2: the key at {address} lies where its namespace has none"
    );
    let short = store.index.bucket(number).glance().has_short_tags();
    debug_assert!(entry.matches(store.index.tag(number, hash), short), "INV-INDEX-2: the entry of {address} has another key's tag");
}

/// No key and no address stands twice, as far as records are in memory.
fn check_distinct(store: &Shared, entries: &[Entry]) {
    // Above the newest head: below it, two sessions may still disagree about what is in memory.
    let head = store.log.head();
    let resident: Vec<u64> = entries.iter().map(|entry| entry.address()).filter(|address| *address >= head).collect();
    for (i, address) in resident.iter().enumerate() {
        debug_assert!(!resident[..i].contains(address), "INV-INDEX-2: two entries lead to {address}");
        // SAFETY: as in `check_record`.
        let record = unsafe { store.log.record(*address) };
        let header = record.header();
        for other in &resident[..i] {
            // SAFETY: as in `check_record`.
            let (their_record, their_header) = unsafe { (store.log.record(*other), store.log.record(*other).header()) };
            debug_assert!(
                header.namespace() != their_header.namespace()
                    || store.key_of(record, header) != store.key_of(their_record, their_header),
                "INV-TIER-2: the key at {address} stands at {other}, too"
            );
        }
    }
}

/// Checks a store without users: every bucket, the counts of keys, and the accounting of pages.
pub(crate) fn check_whole(store: &Arc<Shared>) {
    let buckets = store.index.len();
    if buckets > WHOLE_MAX || Arc::strong_count(store) != 1 {
        return;
    }
    let (mut records, mut with_expiry) = (0, 0);
    let mut entries = Vec::new();
    for number in 0..buckets {
        let latch = store.index.latch_shared(number);
        check_bucket(store, store.log.head(), latch.number());
        entries.clear();
        store.index.collect(number, &mut entries);
        records += entries.len() as i64;
        for entry in entries.iter().filter(|entry| entry.address() >= store.log.head()) {
            // SAFETY: the store has no other user.
            with_expiry += i64::from(unsafe { store.log.record(entry.address()) }.header().has(Header::EXPIRY));
        }
    }
    let totals = store.counters.totals();
    if store.tier.is_none() && !store.namespaces.any_dropped() {
        debug_assert_eq!(totals.live, records, "INV-INDEX-2: keys are counted as they come and go");
        debug_assert_eq!(totals.volatile, with_expiry, "INV-EXP-1: keys with an expiry are counted as they come and go");
    }
    debug_assert!(
        totals.free_words >= 0 && totals.free_words <= totals.taken_words,
        "INV-LOG-2: free space is part of what was taken"
    );
    debug_assert_eq!(store.log.pages.resident(), store.log.pages.present(), "INV-TIER-1: resident pages are counted");
}
