//! Pages leave memory (INV-TIER-1), and nothing that was written is lost on the way.
//!
//! The main thread is the flusher; its steps are those of `Flush`: `close`, then, when no thread writes into the page any more,
//! `flush` with `image::make`, then `Log::shift_head`, and when no thread reads it any more, `release`.

use super::{Fault, GONE, HASH, LOST, NEW, NOT_STORED, OLD, RELEASED, Rig, check, check_fails, end_of, join};
use crate::log::PAGE_WORDS;
use crate::sync::Ordering;
use almandine_epoch::Participant;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Count;

/// The page that leaves, a record in it, and freed space in it.
const PAGE: u64 = 1;
const RECORD: u64 = PAGE * PAGE_WORDS + 8;
const FREED: u64 = PAGE * PAGE_WORDS + 16;
/// Space at the tail.
const TAIL: u64 = 3 * PAGE_WORDS + 8;

fn rig() -> Arc<Rig> {
    let rig = Rig::new(&[RECORD, FREED, TAIL]);
    assert!(rig.log.pages.open(PAGE));
    rig.set_memory(RECORD, OLD);
    rig.insert(0, RECORD);
    Arc::new(rig)
}

/// One round of the flusher.
fn flush(rig: &Rig, sessions: &mut Vec<thread::JoinHandle<()>>, fault: Option<Fault>) {
    rig.log.pages.close(PAGE);
    rig.log.shift_read_only(end_of(PAGE));
    if fault != Some(Fault::ImageWithoutWait) {
        rig.wait(sessions);
    }
    if fault == Some(Fault::HeadBeforeImage) {
        rig.log.shift_head(end_of(PAGE));
    }
    for address in [RECORD, FREED] {
        rig.place(address).device.store(rig.memory(address), Ordering::Relaxed);
    }
    rig.log.pages.mark_flushed(PAGE);
    if fault != Some(Fault::HeadAfterWait) {
        rig.log.shift_head(end_of(PAGE));
    }
    if fault != Some(Fault::ReleaseWithoutWait) {
        rig.wait(sessions);
    }
    rig.log.shift_head(end_of(PAGE));
    for address in [RECORD, FREED] {
        rig.set_memory(address, GONE);
    }
    rig.log.release_page(PAGE);
}

/// A session follows the entry in two batches; it never changes, so the head alone says where the record is.
fn read(fault: Option<Fault>) {
    let rig = rig();
    let (theirs, participant) = (Arc::clone(&rig), rig.epoch.register().expect("a slot"));
    let reader = thread::spawn(move || {
        for _ in 0..2 {
            let head = theirs.enter(&participant, fault);
            if RECORD >= head {
                assert_eq!(theirs.memory(RECORD), OLD, "{RELEASED}");
            } else {
                assert_eq!(theirs.stored(RECORD), OLD, "{NOT_STORED}");
            }
            participant.leave();
        }
    });
    let mut sessions = vec![reader];
    flush(&rig, &mut sessions, fault);
    join(&mut sessions);
}

#[test]
fn what_is_above_the_head_of_a_batch_stays_readable() {
    check(read);
}

#[test]
fn mutants_of_leaving_are_caught() {
    check_fails(read, Fault::HeadBeforeEnter, RELEASED);
    check_fails(read, Fault::ReleaseWithoutWait, RELEASED);
    check_fails(read, Fault::HeadAfterWait, RELEASED);
    check_fails(read, Fault::HeadBeforeImage, NOT_STORED);
}

/// How often an overwrite was which, so that the models can show that they see all of them.
#[derive(Default)]
struct Ways {
    in_place: Count,
    copied: Count,
    staged: Count,
    reused: Count,
}

static WAYS: Ways = Ways { in_place: Count::new(0), copied: Count::new(0), staged: Count::new(0), reused: Count::new(0) };

/// An upsert (`Occupied::replace_bytes`): in place, or by a new record instead of one in memory or, if that is cold, of a staged
/// one. `reusing`: the session holds a freed piece of the page, and `FreeSpace::take` asks whether
/// that is still open.
fn overwrite(rig: &Rig, participant: &Participant, reusing: bool, fault: Option<Fault>) {
    let early = rig.log.is_mutable(RECORD);
    let head = rig.enter(participant, fault);
    let latch = rig.index.lock_exclusive(HASH);
    let number = latch.number();
    let (address, position) = rig.entry(number);
    let mutable = if fault == Some(Fault::MutableBeforeEnter) { early } else { rig.log.is_mutable(address) };
    let open = || fault == Some(Fault::ReuseOfClosed) || rig.log.pages.is_open(PAGE);
    let way = if address >= head && mutable && !reusing {
        rig.set_memory(address, NEW);
        &WAYS.in_place
    } else {
        let (target, way) = if reusing && open() { (FREED, Some(&WAYS.reused)) } else { (TAIL, None) };
        rig.set_memory(target, NEW);
        rig.point(number, position, target);
        way.unwrap_or(if address >= head { &WAYS.copied } else { &WAYS.staged })
    };
    way.fetch_add(1, Ordering::Relaxed);
    drop(latch);
    participant.leave();
}

fn overwritten(reusing: bool, fault: Option<Fault>) {
    let rig = rig();
    let (theirs, participant) = (Arc::clone(&rig), rig.epoch.register().expect("a slot"));
    let mut sessions = vec![thread::spawn(move || overwrite(&theirs, &participant, reusing, fault))];
    flush(&rig, &mut sessions, fault);
    join(&mut sessions);
    assert_eq!(rig.settled_value(), NEW, "{LOST}");
}

fn overwritten_in_place(fault: Option<Fault>) {
    overwritten(false, fault);
}

fn overwritten_in_freed_space(fault: Option<Fault>) {
    overwritten(true, fault);
}

#[test]
fn what_the_image_lacks_is_in_memory_above_it() {
    check(overwritten_in_place);
    check(overwritten_in_freed_space);
    for (name, way) in [
        ("in place", &WAYS.in_place),
        ("copied", &WAYS.copied),
        ("of a staged record", &WAYS.staged),
        ("in freed space", &WAYS.reused),
    ] {
        assert_ne!(way.load(Ordering::Relaxed), 0, "no overwrite was {name}");
    }
}

#[test]
fn mutants_of_writing_into_a_leaving_page_are_caught() {
    check_fails(overwritten_in_place, Fault::ImageWithoutWait, LOST);
    check_fails(overwritten_in_place, Fault::MutableBeforeEnter, LOST);
    check_fails(overwritten_in_freed_space, Fault::ReuseOfClosed, LOST);
    check_fails(overwritten_in_freed_space, Fault::ImageWithoutWait, LOST);
}
