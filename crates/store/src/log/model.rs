//! The tail under the model checker: `RUSTFLAGS="--cfg loom" cargo test --release -p almandine-store --lib model`.

use super::{CHUNKS_PER_PAGE, Log, PAGE_WORDS};
use crate::sync::Ordering;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Two sessions at the last chunks of a page, while the background opens the next one and a late page is still closing.
fn take_concurrently(take: fn(&Log) -> u64) {
    let log = Arc::new(Log::new(1 << 25, 1).expect("a small log"));
    log.tail.store(2 * CHUNKS_PER_PAGE - 1, Ordering::Relaxed);
    let theirs = Arc::clone(&log);
    let other = thread::spawn(move || take(&theirs));
    let mine = take(&log);
    let theirs = other.join().expect("the other session");
    assert_ne!(mine, theirs, "one chunk was handed out twice");
    for address in [mine, theirs] {
        assert!(log.pages.is_open(address / PAGE_WORDS), "a chunk of a page that is not open");
    }
}

fn check(take: fn(&Log) -> u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || take_concurrently(take));
}

#[test]
fn chunks_are_handed_out_once_and_from_open_pages() {
    check(|log| log.take_chunk().expect("room").next);
}

#[test]
fn mutant_tail_without_fetch_add_is_caught() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        check(|log| {
            let chunk = log.tail.load(Ordering::Acquire);
            log.tail.store(chunk + 1, Ordering::Release);
            log.pages.open(chunk / CHUNKS_PER_PAGE);
            chunk * (PAGE_WORDS / CHUNKS_PER_PAGE)
        });
    }));
    assert!(outcome.is_err(), "the checker does not notice a torn fetch-and-add");
}

#[test]
fn mutant_page_that_is_not_opened_is_caught() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        check(|log| log.tail.fetch_add(1, Ordering::AcqRel) * (PAGE_WORDS / CHUNKS_PER_PAGE));
    }));
    assert!(outcome.is_err(), "the checker does not notice a page that nobody opened");
}
