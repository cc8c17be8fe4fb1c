//! The tier's protocols under the model checker: how pages leave memory, how the device's space is compacted, how cached copies
//! come and go, each against a session. Whole sessions and the flusher itself are explored in `background/model.rs`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p almandine-store --lib model`
//!
//! The index, the log's boundaries, its page table and its chunks, and the epoch are the real ones. What is modelled is what a
//! record holds, one word in memory and one on the device for each address; and the steps around them, which stand for the
//! functions that each model names. All stores of records are relaxed: the protocol alone must give the order.
//!
//! Each scenario has mutants that leave one step out ([`Fault`]) and must fail with the report that belongs to it.

mod compacting;
mod copies;
mod evicting;

use crate::index::entry::Entry;
use crate::index::{Index, Position};
use crate::log::{Log, PAGE_WORDS};
use crate::sync::{AtomicU64, Ordering};
use almandine_epoch::{Epoch, Participant};
use loom::thread::JoinHandle;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The hash of the one key.
const HASH: u64 = 1 << 48 | 2;
/// What its record holds at first, and after it was overwritten.
const OLD: u64 = 1;
const NEW: u64 = 2;
/// What is in memory that was given back, and on the device where it was discarded, or never written.
const GONE: u64 = 0;

/// The steps that mutants leave out or misplace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A session loads the head before it enters the epoch.
    HeadBeforeEnter,
    /// The head passes a page before its image is on the device.
    HeadBeforeImage,
    /// The head passes a page only after the wait that belongs to it.
    HeadAfterWait,
    /// A page is given back without a wait for the epoch.
    ReleaseWithoutWait,
    /// A session learns before it enters that a record is mutable.
    MutableBeforeEnter,
    /// The image is made without a wait for the epoch after closing.
    ImageWithoutWait,
    /// A page's freed space is used again although the page was closed.
    ReuseOfClosed,
    /// Whether a page is still the device's is asked before it is read, not after.
    StoredBeforeRead,
    /// A page is discarded before it is retired.
    DiscardBeforeRetire,
    /// A page is retired before its records are moved.
    RetireBeforeMove,
    /// A staged record is used although the entry points elsewhere.
    StageWithoutEntry,
    /// Compaction moves a record without a look at where its entry points.
    MoveWithoutLook,
    /// Compaction looks for the record, but not for a copy of it.
    MoveWithoutCopies,
    /// The head passes a page of copies before their entries are pointed back.
    HeadBeforeOriginals,
    /// Entries are pointed back without the latch.
    BackWithoutLatch,
    /// Copies are looked for without a wait for the epoch after closing.
    WalkWithoutWait,
    /// A copy is put into a chunk whose page was closed.
    CopyIntoClosed,
    /// A staged record is copied without a look at where its entry points.
    CopyWithoutLook,
}

const LOST: &str = "an overwrite was lost";
const RELEASED: &str = "memory that was given back was read";
const NOT_STORED: &str = "below the head and not on the device";
const DISCARDED: &str = "a page that was given up was taken for a damaged one";
const STALE: &str = "a stale record was used";
const DANGLING: &str = "an entry points to a page that was given up";

fn check(scenario: impl Fn(Option<Fault>) + Sync + Send + Copy + 'static) {
    explore(scenario, None);
}

fn explore(scenario: impl Fn(Option<Fault>) + Sync + Send + Copy + 'static, fault: Option<Fault>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || scenario(fault));
}

/// The mutant is caught, and for the reason that it is made for.
fn check_fails(scenario: impl Fn(Option<Fault>) + Sync + Send + Copy + 'static, fault: Fault, reason: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(scenario, Some(fault))));
    let Err(report) = outcome else { panic!("the checker does not notice {fault:?}") };
    let text = report.downcast_ref::<String>().map(String::as_str).or(report.downcast_ref::<&str>().copied()).unwrap_or("");
    assert!(text.contains(reason), "{fault:?} is caught, but for another reason: {text}");
}

/// What a record at an address holds, in memory and on the device.
struct Place {
    address: u64,
    memory: AtomicU64,
    device: AtomicU64,
}

/// A store of one key.
struct Rig {
    epoch: Arc<Epoch>,
    log: Log,
    index: Index,
    places: Vec<Place>,
}

impl Rig {
    /// With records at most at these addresses.
    fn new(addresses: &[u64]) -> Self {
        let place = |&address: &u64| Place { address, memory: AtomicU64::new(GONE), device: AtomicU64::new(GONE) };
        Self {
            epoch: Arc::new(Epoch::new(2)),
            log: Log::new(1 << 25, 1).expect("a small log"),
            index: Index::new(1, 4).expect("a small index"),
            places: addresses.iter().map(place).collect(),
        }
    }

    fn place(&self, address: u64) -> &Place {
        self.places.iter().find(|place| place.address == address).expect("one of the addresses")
    }

    fn memory(&self, address: u64) -> u64 {
        self.place(address).memory.load(Ordering::Relaxed)
    }

    fn set_memory(&self, address: u64, value: u64) {
        self.place(address).memory.store(value, Ordering::Relaxed);
    }

    /// Adds an entry; under the latch, or before there are threads.
    fn insert(&self, number: u64, address: u64) {
        self.index.insert(number, Entry::new(self.index.tag(number, HASH), address)).expect("room");
    }

    /// Points an entry to another record; under the latch.
    fn point(&self, number: u64, position: Position<'_>, address: u64) {
        position.point_to(self.index.tag(number, HASH), address);
    }

    /// The key's entry, of a latched bucket.
    fn entry(&self, number: u64) -> (u64, Position<'_>) {
        let found = self.index.find_latched(number, HASH, Some);
        let (position, address) = found.expect("the key is there");
        (address, position)
    }

    /// The entry that points to an address, of a latched bucket.
    fn at(&self, number: u64, address: u64) -> Option<Position<'_>> {
        self.index.find_any(number, |candidate| candidate == address)
    }

    /// What a session's batch begins with: `Session::enter`.
    fn enter(&self, participant: &Participant, fault: Option<Fault>) -> u64 {
        if fault == Some(Fault::HeadBeforeEnter) {
            let head = self.log.head();
            participant.enter();
            return head;
        }
        participant.enter();
        self.log.head()
    }

    /// The address of the key's record and what `read` gives for it, as an optimistic reader finds it (`Session::read`).
    fn look(&self, read: impl Fn(u64) -> u64) -> (u64, u64) {
        loop {
            let entered = self.index.begin_read(HASH);
            if let Ok(Some(address)) = self.index.find_optimistic(entered, |_, entry| Some(entry.address())) {
                let value = read(address);
                if self.index.bucket(entered.number).validate(entered.seen) {
                    return (address, value);
                }
            }
        }
    }

    /// What the key is in the end: in memory, or on the device.
    fn settled_value(&self) -> u64 {
        let head = self.log.head();
        let in_memory = |address| address >= head;
        self.look(|address| if in_memory(address) { self.memory(address) } else { self.stored(address) }).1
    }

    fn stored(&self, address: u64) -> u64 {
        self.place(address).device.load(Ordering::Relaxed)
    }

    /// The wait of the flusher's state machine: its next step comes when no participant of the epochs before is left.
    fn wait(&self, sessions: &mut Vec<JoinHandle<()>>) {
        let ended = self.epoch.bump();
        if self.epoch.safe() < ended {
            join(sessions);
            assert!(self.epoch.safe() >= ended, "all sessions have left");
        }
    }
}

fn join(sessions: &mut Vec<JoinHandle<()>>) {
    sessions.drain(..).for_each(|session| session.join().expect("a session"));
}

/// The first address behind a page.
const fn end_of(page: u64) -> u64 {
    (page + 1) * PAGE_WORDS
}
