//! The index under the model checker: every interleaving of readers, writers and the resizer, with three preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p almandine-store --lib model`
//!
//! Readers are the spawned threads and the changing thread is the main one: loom finds a race from the side of the later
//! access, and remembers only the last one to each atomic, so the other way round it would explore next to nothing.
//!
//! A record's "address" is its key here, and its hash is `hash_of` of that. Each property has a mutant: the same steps with
//! one part of the protocol left out, which the checker must catch.

use super::bucket::{Bucket, EXCLUSIVE, Seen, VERSION_ONE};
use super::entry::{Entry, Tag};
use super::{Entered, Index, Resize, Resized};
use crate::sync::{AtomicU64, Ordering, fence};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Keys 1, 2, 3 with different tags; 1 and 3 in the bucket that a split leaves, 2 in the one that it fills.
fn hash_of(key: u64) -> u64 {
    (key << 48) | (key + 1)
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn check_fails(what: &str, model: impl Fn() + Sync + Send + 'static) {
    let outcome = catch_unwind(AssertUnwindSafe(|| check(model)));
    assert!(outcome.is_err(), "the checker does not notice {what}");
}

fn index(buckets: u64) -> Arc<Index> {
    let index = Index::new(buckets, 4).expect("a small index");
    Arc::new(index)
}

fn insert(index: &Index, key: u64) {
    let latch = index.lock_exclusive(hash_of(key));
    let number = latch.number();
    index.insert(number, Entry::new(index.tag(number, hash_of(key)), key)).expect("room");
}

fn contains(index: &Index, key: u64) -> bool {
    loop {
        let entered = index.begin_read(hash_of(key));
        if let Ok(found) = index.find_optimistic(entered, |_, entry| (entry.address() == key).then_some(()))
            && index.bucket(entered.number).validate(entered.seen)
        {
            return found.is_some();
        }
    }
}

/// A value of two words, changed together under the latch, is never read as a mixture.
fn optimistic_read(unlock: fn(&Bucket)) {
    let shared = Arc::new((Bucket::new(), AtomicU64::new(0), AtomicU64::new(0)));
    let theirs = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        let (bucket, left, right) = &*theirs;
        let seen = bucket.begin_read();
        let pair = (left.load(Ordering::Relaxed), right.load(Ordering::Relaxed));
        if bucket.validate(seen) {
            assert_eq!(pair.0, pair.1, "a torn read was validated");
        }
    });
    let (bucket, left, right) = &*shared;
    bucket.lock_exclusive();
    left.store(1, Ordering::Relaxed);
    right.store(1, Ordering::Relaxed);
    unlock(bucket);
    reader.join().expect("the reader");
}

#[test]
fn a_validated_read_is_never_torn() {
    check(|| optimistic_read(Bucket::unlock_exclusive));
}

#[test]
fn mutant_unlock_that_keeps_the_version_is_caught() {
    check_fails("an unlock that keeps the version", || {
        optimistic_read(|bucket| {
            bucket.control.fetch_and(!EXCLUSIVE, Ordering::Release);
        });
    });
}

#[test]
fn mutant_unlock_without_release_is_caught() {
    check_fails("an unlock without release", || {
        optimistic_read(|bucket| {
            let seen = bucket.control.load(Ordering::Relaxed);
            bucket.control.store((seen & !EXCLUSIVE).wrapping_add(VERSION_ONE), Ordering::Relaxed);
        });
    });
}

/// Two increments under the latch.
fn two_writers(lock: fn(&Bucket)) {
    let shared = Arc::new((Bucket::new(), AtomicU64::new(0)));
    let work = move |shared: &(Bucket, AtomicU64)| {
        lock(&shared.0);
        shared.1.store(shared.1.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        shared.0.unlock_exclusive();
    };
    let theirs = Arc::clone(&shared);
    let other = thread::spawn(move || work(&theirs));
    work(&shared);
    other.join().expect("the other writer");
    assert_eq!(shared.1.load(Ordering::Relaxed), 2, "an update was lost");
}

#[test]
fn the_exclusive_latch_excludes() {
    check(|| two_writers(Bucket::lock_exclusive));
}

#[test]
fn mutant_latch_without_compare_exchange_is_caught() {
    check_fails("a latch that is taken by load and store", || {
        two_writers(|bucket| {
            let seen = bucket.control.load(Ordering::Acquire);
            bucket.control.store(seen | EXCLUSIVE, Ordering::Relaxed);
            fence(Ordering::Release);
        });
    });
}

#[test]
fn shared_and_exclusive_exclude_each_other() {
    check(|| {
        let shared = Arc::new((Bucket::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let theirs = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            theirs.0.lock_shared();
            let pair = (theirs.1.load(Ordering::Relaxed), theirs.2.load(Ordering::Relaxed));
            theirs.0.unlock_shared();
            assert_eq!(pair.0, pair.1);
        });
        shared.0.lock_exclusive();
        shared.1.store(1, Ordering::Relaxed);
        shared.2.store(1, Ordering::Relaxed);
        shared.0.unlock_exclusive();
        reader.join().expect("the reader");
    });
}

/// A crowd of readers of which one has its hold at every moment, as long as it can get the next one, until the writer has written.
fn writer_beside_a_crowd(lock: fn(&Bucket)) {
    let shared = Arc::new((Bucket::new(), AtomicU64::new(0)));
    let theirs = Arc::clone(&shared);
    shared.0.lock_shared();
    let writer = thread::spawn(move || {
        lock(&theirs.0);
        theirs.1.store(1, Ordering::Relaxed);
        theirs.0.unlock_exclusive();
    });
    let (bucket, written) = &*shared;
    while bucket.try_lock_shared() {
        assert_eq!(written.load(Ordering::Relaxed), 0, "a writer was inside beside a shared hold");
        bucket.unlock_shared();
        thread::yield_now();
    }
    // The writer has set its bit. The last hold goes, and the next one is taken behind the write.
    bucket.unlock_shared();
    bucket.lock_shared();
    assert_eq!(written.load(Ordering::Relaxed), 1, "a reader passed a waiting writer");
    bucket.unlock_shared();
    writer.join().expect("the writer");
}

#[test]
fn a_writer_gets_in_though_readers_overlap() {
    check(|| writer_beside_a_crowd(Bucket::lock_exclusive));
    check(|| writer_beside_a_crowd(|bucket| assert!(bucket.lock_unless(true, || false))));
}

#[test]
fn mutant_writer_that_waits_without_its_bit_is_caught() {
    check_fails("a writer that readers starve", || {
        writer_beside_a_crowd(|bucket| {
            let mut backoff = crate::sync::Backoff::new();
            while bucket.is_latched() || !bucket.lock_unless(true, || true) {
                backoff.wait();
            }
        });
    });
}

/// A writer that gives up while others release their holds, and one that comes behind it.
fn writers_that_give_up(give_up: fn(&Bucket)) {
    let shared = Arc::new((Bucket::new(), AtomicU64::new(0)));
    let theirs = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        theirs.0.lock_shared();
        let first = theirs.1.load(Ordering::Relaxed);
        assert_eq!(theirs.1.load(Ordering::Relaxed), first, "a writer was inside beside a shared hold");
        theirs.0.unlock_shared();
    });
    let (bucket, written) = &*shared;
    give_up(bucket);
    bucket.lock_exclusive();
    written.store(1, Ordering::Relaxed);
    bucket.unlock_exclusive();
    reader.join().expect("the reader");
    assert!(!bucket.is_latched(), "a hold was left behind");
}

#[test]
fn a_writer_that_gives_up_leaves_the_holds_as_they_are() {
    check(|| {
        writers_that_give_up(|bucket| {
            if bucket.lock_unless(true, || true) {
                bucket.unlock_exclusive();
            }
        });
    });
}

#[test]
fn mutant_writer_that_gives_up_by_a_store_is_caught() {
    check_fails("a release of the bit that brings back a shared hold", || {
        writers_that_give_up(|bucket| {
            let seen = bucket.control.load(Ordering::Relaxed);
            if bucket.control.compare_exchange(seen, seen | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                let seen = bucket.control.load(Ordering::Acquire);
                bucket.control.store(seen & !EXCLUSIVE, Ordering::Relaxed);
            }
        });
    });
}

/// An optimistic reader beside a writer that waits for a shared hold to go.
fn optimistic_read_beside_a_waiting_writer(begin: fn(&Bucket) -> Seen, validate: fn(&Bucket, Seen) -> bool) {
    let shared = Arc::new((Bucket::new(), AtomicU64::new(0), AtomicU64::new(0)));
    shared.0.lock_shared();
    let theirs = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        let (bucket, left, right) = &*theirs;
        let seen = begin(bucket);
        let pair = (left.load(Ordering::Relaxed), right.load(Ordering::Relaxed));
        if validate(bucket, seen) {
            assert_eq!(pair.0, pair.1, "a torn read was validated");
        }
    });
    let theirs = Arc::clone(&shared);
    let holder = thread::spawn(move || theirs.0.unlock_shared());
    let (bucket, left, right) = &*shared;
    bucket.lock_exclusive();
    left.store(1, Ordering::Relaxed);
    right.store(1, Ordering::Relaxed);
    bucket.unlock_exclusive();
    reader.join().expect("the reader");
    holder.join().expect("the holder");
}

#[test]
fn a_read_beside_a_waiting_writer_is_never_torn() {
    check(|| optimistic_read_beside_a_waiting_writer(Bucket::begin_read, Bucket::validate));
}

#[test]
fn mutant_validation_that_takes_a_writer_for_a_waiting_one_is_caught() {
    check_fails("a validation that does not look for shared holds", || {
        optimistic_read_beside_a_waiting_writer(Bucket::begin_read, |bucket, seen| {
            fence(Ordering::Acquire);
            (bucket.control.load(Ordering::Relaxed) ^ seen.bits()) & !(VERSION_ONE - 1) == 0
        });
    });
}

#[test]
fn concurrent_inserts_are_both_there() {
    check(|| {
        let index = index(1);
        let theirs = Arc::clone(&index);
        let other = thread::spawn(move || insert(&theirs, 1));
        insert(&index, 3);
        other.join().expect("the other insert");
        assert!(contains(&index, 1) && contains(&index, 3));
    });
}

/// The record is in memory, so its hash is known.
fn known(address: u64) -> Option<u64> {
    Some(hash_of(address))
}

/// The record is on a device: only what the entry knows of its hash.
fn unknown(_address: u64) -> Option<u64> {
    None
}

/// A key that is there is found at every moment of a split, whichever side it goes to.
fn read_during_growth(find: fn(&Index, u64) -> bool, key: u64, hash_at: fn(u64) -> Option<u64>) {
    let index = index(1);
    insert(&index, 1);
    insert(&index, 2);
    let theirs = Arc::clone(&index);
    let reader = thread::spawn(move || assert!(find(&theirs, key), "key {key} was not found during a split"));
    assert_eq!(Resize::new().grow(&index, hash_at), Resized::Done);
    reader.join().expect("the reader");
    assert_eq!(index.len(), 2);
}

#[test]
fn a_reader_finds_its_key_during_a_split() {
    for hash_at in [known, unknown] {
        check(move || read_during_growth(contains, 1, hash_at));
        check(move || read_during_growth(contains, 2, hash_at));
    }
}

#[test]
fn mutant_reader_that_does_not_check_the_bucket_count_again_is_caught() {
    let careless = |index: &Index, key: u64| loop {
        let buckets = index.len();
        let number = Index::bucket_of(hash_of(key), buckets);
        let seen = index.bucket(number).begin_read();
        let entered = Entered { number, seen, tag: Tag::new(hash_of(key), Index::level(number, buckets)) };
        if let Ok(found) = index.find_optimistic(entered, |_, entry| (entry.address() == key).then_some(()))
            && index.bucket(number).validate(seen)
        {
            return found.is_some();
        }
    };
    let outcomes = [1, 2].map(|key| catch_unwind(AssertUnwindSafe(|| check(move || read_during_growth(careless, key, known)))));
    assert!(outcomes.iter().any(Result::is_err), "the checker does not notice a stale bucket count");
}

#[test]
fn an_insert_during_a_split_is_not_lost() {
    for key in [1, 2] {
        check(move || {
            let index = index(1);
            let theirs = Arc::clone(&index);
            let writer = thread::spawn(move || insert(&theirs, key));
            assert_eq!(Resize::new().grow(&index, known), Resized::Done);
            writer.join().expect("the writer");
            assert!(contains(&index, key));
        });
    }
}

#[test]
fn a_reader_finds_its_key_during_a_merge() {
    for key in [1, 2] {
        check(move || {
            let index = index(2);
            insert(&index, 1);
            insert(&index, 2);
            let theirs = Arc::clone(&index);
            let reader = thread::spawn(move || assert!(contains(&theirs, key)));
            assert!(Resize::new().shrink(&index));
            reader.join().expect("the reader");
            assert_eq!(index.len(), 1);
        });
    }
}
