//! The device's space is compacted in any order, while sessions hold staged records of it, overwrite, and make copies.
//!
//! The main thread is the compactor; its steps are those of `Compaction::compact` (the image is read, `compact_latched`
//! and `move_to_tail` for its record, `DevicePages::retire`, `Device::discard`).

use super::{DANGLING, DISCARDED, Fault, GONE, HASH, LOST, NEW, OLD, Rig, STALE, check, check_fails, end_of, join};
use crate::log::PAGE_WORDS;
use crate::sync::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

/// The page on the device, and its record.
const PAGE: u64 = 1;
const RECORD: u64 = PAGE * PAGE_WORDS + 8;
/// In memory: a cached copy, a newer record, and the place that compaction moves the record to.
const COPY: u64 = 2 * PAGE_WORDS + 8;
const NEWER: u64 = 3 * PAGE_WORDS + 8;
const MOVED: u64 = 3 * PAGE_WORDS + 16;

/// A store whose one record is on the device.
struct Device {
    rig: Rig,
    /// Whether the page is the device's: the word that `DevicePages` has of it.
    is_stored: AtomicU64,
    /// Set when the key has been overwritten after compaction.
    overwritten: AtomicU64,
}

fn device() -> Arc<Device> {
    let rig = Rig::new(&[RECORD, COPY, NEWER, MOVED]);
    rig.place(RECORD).device.store(OLD, Ordering::Relaxed);
    rig.insert(0, RECORD);
    rig.log.shift_read_only(end_of(PAGE));
    rig.log.shift_head(end_of(PAGE));
    Arc::new(Device { rig, is_stored: AtomicU64::new(1), overwritten: AtomicU64::new(0) })
}

impl Device {
    /// Reads the record. A device orders its own transfers: a read of a discarded range comes after the discard.
    fn read(&self) -> u64 {
        self.rig.place(RECORD).device.load(Ordering::Acquire)
    }

    fn give_up(&self, fault: Option<Fault>) {
        if fault == Some(Fault::DiscardBeforeRetire) {
            self.rig.place(RECORD).device.store(GONE, Ordering::Release);
        }
        self.is_stored.store(0, Ordering::Release);
        self.rig.place(RECORD).device.store(GONE, Ordering::Release);
    }

    fn collect(&self, fault: Option<Fault>) {
        let rig = &self.rig;
        let image = self.read();
        if fault == Some(Fault::RetireBeforeMove) {
            self.give_up(fault);
        }
        let latch = rig.index.lock_exclusive(HASH);
        let number = latch.number();
        let own = if fault == Some(Fault::MoveWithoutLook) { Some(rig.entry(number).1) } else { rig.at(number, RECORD) };
        if let Some(position) = rig.at(number, COPY)
            && fault != Some(Fault::MoveWithoutCopies)
        {
            rig.set_memory(MOVED, rig.memory(COPY));
            rig.point(number, position, MOVED);
        } else if let Some(position) = own {
            rig.set_memory(MOVED, image);
            rig.point(number, position, MOVED);
        }
        drop(latch);
        self.give_up(fault);
    }

    /// A session that has found the key cold: it reads the device, takes what it got (`Tier::accept`), and looks at the entry
    /// again.
    fn get(&self, fault: Option<Fault>) {
        let is_stored = || self.is_stored.load(Ordering::Acquire) != 0;
        let early = is_stored();
        let bytes = self.read();
        let staged = if fault == Some(Fault::StoredBeforeRead) { early } else { is_stored() };
        // The checksum does not hold for what was discarded: if the page is the device's, that is damage.
        assert!(!staged || bytes == OLD, "{DISCARDED}");
        let overwritten = self.overwritten.load(Ordering::Acquire) != 0;
        let (address, value) = self.rig.look(|address| match address {
            RECORD => bytes,
            _ if fault == Some(Fault::StageWithoutEntry) && staged => bytes,
            _ => self.rig.memory(address),
        });
        assert!(staged || address != RECORD, "{DANGLING}");
        assert!(value == NEW || value == OLD && !overwritten, "{STALE}");
    }

    /// An upsert: the record that compaction moved is changed in place, a staged one is replaced.
    fn upsert(&self) {
        let rig = &self.rig;
        let latch = rig.index.lock_exclusive(HASH);
        let number = latch.number();
        let (address, position) = rig.entry(number);
        if address == MOVED {
            rig.set_memory(MOVED, NEW);
        } else {
            rig.set_memory(NEWER, NEW);
            rig.point(number, position, NEWER);
        }
        drop(latch);
    }

    /// A staged record becomes a cached copy: `Session::keep_warm`.
    fn keep_warm(&self) {
        let rig = &self.rig;
        let latch = rig.index.lock_exclusive(HASH);
        let number = latch.number();
        if let Some(position) = rig.at(number, RECORD) {
            rig.set_memory(COPY, OLD);
            rig.point(number, position, COPY);
        }
        drop(latch);
    }
}

fn beside(session: impl Fn(&Device) + Send + 'static, collect: impl Fn(&Device)) -> Arc<Device> {
    let device = device();
    let theirs = Arc::clone(&device);
    let mut sessions = vec![thread::spawn(move || session(&theirs))];
    collect(&device);
    join(&mut sessions);
    device
}

fn read(fault: Option<Fault>) {
    let collect = |device: &Device| {
        device.collect(fault);
        // The key is overwritten where compaction put it, and every thread may know.
        device.upsert();
        device.overwritten.store(1, Ordering::Release);
    };
    beside(move |device| device.get(fault), collect);
}

#[test]
fn a_staged_record_is_exact_for_as_long_as_the_entry_points_to_it() {
    check(read);
}

#[test]
fn mutants_of_reading_beside_collection_are_caught() {
    check_fails(read, Fault::StoredBeforeRead, DISCARDED);
    check_fails(read, Fault::DiscardBeforeRetire, DISCARDED);
    check_fails(read, Fault::RetireBeforeMove, DANGLING);
    check_fails(read, Fault::StageWithoutEntry, STALE);
}

fn overwritten(fault: Option<Fault>) {
    let device = beside(Device::upsert, |device| device.collect(fault));
    assert_eq!(device.rig.settled_value(), NEW, "{LOST}");
}

#[test]
fn collection_copies_nothing_above_a_newer_record() {
    check(overwritten);
}

#[test]
fn mutant_that_moves_an_overwritten_record_is_caught() {
    check_fails(overwritten, Fault::MoveWithoutLook, LOST);
}

fn copied(fault: Option<Fault>) {
    let device = beside(Device::keep_warm, |device| device.collect(fault));
    let latch = device.rig.index.lock_exclusive(HASH);
    let (address, _) = device.rig.entry(latch.number());
    drop(latch);
    // A copy's original is where its entry goes back to.
    assert_eq!(address, MOVED, "{DANGLING}");
}

#[test]
fn collection_finds_a_record_by_its_copy() {
    check(copied);
}

#[test]
fn mutant_that_forgets_copies_is_caught() {
    check_fails(copied, Fault::MoveWithoutCopies, DANGLING);
}
