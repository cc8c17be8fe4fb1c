//! A page of cached copies leaves memory without being written: its entries are pointed back to the originals.
//!
//! The main thread is the flusher, with the steps of `Flush`: `close`, then, when no thread makes copies in the page any more,
//! `empty_of_copies` with `evict_record` for each copy, then `Log::shift_head`, and when no thread reads them, `release`.

use super::{DANGLING, Fault, GONE, HASH, LOST, NEW, NOT_STORED, OLD, RELEASED, Rig, check, check_fails, end_of, join};
use crate::log::{Chunk, Log, PAGE_WORDS};
use crate::sync::Ordering;
use loom::thread;
use std::sync::Arc;

/// The record on the device.
const ORIGINAL: u64 = PAGE_WORDS + 8;
/// The page of copies that the log opens first, a copy in it, and one in the page after it.
const PAGE: u64 = 5;
const COPY: u64 = PAGE * PAGE_WORDS;
const NEXT_COPY: u64 = end_of(PAGE);
/// Space at the tail.
const TAIL: u64 = 7 * PAGE_WORDS + 8;

/// A store with the key's record on the device, and a chunk for copies.
fn rig() -> (Rig, Chunk) {
    let rig = Rig::new(&[ORIGINAL, COPY, NEXT_COPY, TAIL]);
    rig.place(ORIGINAL).device.store(OLD, Ordering::Relaxed);
    rig.insert(0, ORIGINAL);
    rig.log.shift_read_only(end_of(1));
    rig.log.shift_head(end_of(1));
    let chunk = rig.log.take_cache_chunk().expect("a page for copies");
    assert_eq!(Log::page_of(chunk.next), PAGE);
    (rig, chunk)
}

/// As [`rig`], with a copy.
fn rig_with_copy() -> Arc<Rig> {
    let (rig, _) = rig();
    rig.set_memory(COPY, OLD);
    let position = rig.at(0, ORIGINAL).expect("the entry");
    rig.point(0, position, COPY);
    Arc::new(rig)
}

/// One round of the flusher.
fn flush(rig: &Rig, sessions: &mut Vec<thread::JoinHandle<()>>, fault: Option<Fault>) {
    rig.log.shift_read_only(end_of(PAGE));
    if fault != Some(Fault::WalkWithoutWait) {
        rig.wait(sessions);
    }
    if fault == Some(Fault::HeadBeforeOriginals) {
        rig.log.shift_head(end_of(PAGE));
    }
    if rig.memory(COPY) != GONE {
        point_back(rig, fault);
    }
    rig.log.shift_head(end_of(PAGE));
    if fault != Some(Fault::ReleaseWithoutWait) {
        rig.wait(sessions);
    }
    rig.set_memory(COPY, GONE);
    rig.log.release_page(PAGE);
}

fn point_back(rig: &Rig, fault: Option<Fault>) {
    if fault == Some(Fault::BackWithoutLatch) {
        if let Some(position) = rig.at(0, COPY) {
            rig.point(0, position, ORIGINAL);
        }
        return;
    }
    let latch = rig.index.lock_exclusive(HASH);
    let number = latch.number();
    if let Some(position) = rig.at(number, COPY) {
        rig.point(number, position, ORIGINAL);
    }
}

/// A session reads the key.
fn read(fault: Option<Fault>) {
    let rig = rig_with_copy();
    let (theirs, participant) = (Arc::clone(&rig), rig.epoch.register().expect("a slot"));
    let reader = thread::spawn(move || {
        let head = theirs.enter(&participant, fault);
        let (address, _) = theirs.look(|address| {
            // Before it is validated: the memory is there, whatever becomes of the entry.
            assert!(address < head || theirs.memory(address) == OLD, "{RELEASED}");
            OLD
        });
        assert!(address >= head || address == ORIGINAL, "{NOT_STORED}");
        participant.leave();
    });
    let mut sessions = vec![reader];
    flush(&rig, &mut sessions, fault);
    join(&mut sessions);
}

#[test]
fn a_copy_is_readable_until_its_original_is_found() {
    check(read);
}

#[test]
fn mutants_of_leaving_copies_are_caught() {
    check_fails(read, Fault::HeadBeforeOriginals, NOT_STORED);
    check_fails(read, Fault::ReleaseWithoutWait, RELEASED);
}

/// A session overwrites the key: a copy is never changed in place, and a staged original is replaced like it.
fn overwritten(fault: Option<Fault>) {
    let rig = rig_with_copy();
    let (theirs, participant) = (Arc::clone(&rig), rig.epoch.register().expect("a slot"));
    let writer = thread::spawn(move || {
        theirs.enter(&participant, fault);
        let latch = theirs.index.lock_exclusive(HASH);
        let number = latch.number();
        theirs.set_memory(TAIL, NEW);
        theirs.point(number, theirs.entry(number).1, TAIL);
        drop(latch);
        participant.leave();
    });
    let mut sessions = vec![writer];
    flush(&rig, &mut sessions, fault);
    join(&mut sessions);
    assert_eq!(rig.settled_value(), NEW, "{LOST}");
}

#[test]
fn an_overwritten_copy_is_not_pointed_back() {
    check(overwritten);
}

#[test]
fn mutant_that_points_back_without_the_latch_is_caught() {
    check_fails(overwritten, Fault::BackWithoutLatch, LOST);
}

/// A session copies its staged record: `Session::keep_warm` with `allocate_cached`, into the chunk that it has had since before.
fn keep_warm(rig: &Rig, mut chunk: Chunk, fault: Option<Fault>) {
    let latch = rig.index.lock_exclusive(HASH);
    let number = latch.number();
    let position = if fault == Some(Fault::CopyWithoutLook) { Some(rig.entry(number).1) } else { rig.at(number, ORIGINAL) };
    if let Some(position) = position {
        let usable = fault == Some(Fault::CopyIntoClosed) || rig.log.is_mutable(chunk.next);
        if !usable {
            chunk = rig.log.take_cache_chunk().expect("another page for copies");
        }
        let target = chunk.take(1).expect("room");
        rig.set_memory(target, OLD);
        rig.point(number, position, target);
    }
}

/// The page leaves while a copy is made.
fn copied(fault: Option<Fault>) {
    let (rig, chunk) = rig();
    let rig = Arc::new(rig);
    let (theirs, participant) = (Arc::clone(&rig), rig.epoch.register().expect("a slot"));
    let copier = thread::spawn(move || {
        theirs.enter(&participant, fault);
        keep_warm(&theirs, chunk, fault);
        participant.leave();
    });
    let mut sessions = vec![copier];
    flush(&rig, &mut sessions, fault);
    join(&mut sessions);
    let (address, value) = rig.look(|address| if address >= rig.log.head() { rig.memory(address) } else { OLD });
    assert!(address == ORIGINAL || address == NEXT_COPY && value == OLD, "{DANGLING}");
}

#[test]
fn no_copy_is_left_behind_in_a_page_that_leaves() {
    check(copied);
}

#[test]
fn mutants_of_copying_into_a_leaving_page_are_caught() {
    check_fails(copied, Fault::WalkWithoutWait, DANGLING);
    check_fails(copied, Fault::CopyIntoClosed, DANGLING);
}

/// A copy is made of a record that is overwritten meanwhile.
fn copied_and_overwritten(fault: Option<Fault>) {
    let (rig, mut chunk) = rig();
    // The tail is where it was, below the page of copies.
    chunk.next = TAIL + 8;
    chunk.end = chunk.next + 1;
    let rig = Arc::new(Rig { places: Rig::new(&[ORIGINAL, TAIL, TAIL + 8]).places, ..rig });
    let (theirs, participant) = (Arc::clone(&rig), rig.epoch.register().expect("a slot"));
    let copier = thread::spawn(move || {
        theirs.enter(&participant, fault);
        keep_warm(&theirs, chunk, fault);
        participant.leave();
    });
    let latch = rig.index.lock_exclusive(HASH);
    let number = latch.number();
    rig.set_memory(TAIL, NEW);
    rig.point(number, rig.entry(number).1, TAIL);
    drop(latch);
    join(&mut vec![copier]);
    assert_eq!(rig.settled_value(), NEW, "{LOST}");
}

#[test]
fn no_copy_takes_the_place_of_a_newer_record() {
    check(copied_and_overwritten);
}

#[test]
fn mutant_that_copies_an_overwritten_record_is_caught() {
    check_fails(copied_and_overwritten, Fault::CopyWithoutLook, LOST);
}
