//! The tier below memory: pages of the log on a device, and their way there and back.
//!
//! ```text
//!            head           read_only              tail
//!  on the      |  flushed, in  |  mutable, and        |
//!  device only |  memory too   |  cached copies       |
//! ```
//!
//! Pages leave in their order: closed (read-only), flushed (their image is on the device), evicted (the head passes them, their
//! memory goes). A thread of its own, the flusher, does all of that as a state machine over epochs (`background/flush.rs`).
//! Another one gives space on the device back (`background/compact.rs`) and removes what expires there
//! (`background/expire.rs`). Sessions never flush and never wait: a key whose record is on the device is *cold*, its session
//! says so and goes on with something else until the record is staged (`stage`). Hot cold records come back as cached copies,
//! which need no flush to leave again (`session/copies.rs`).
//!
//! INV-TIER-1: `head <= read_only`, and pages leave in their order. INV-TIER-2: a key has one entry, wherever its
//! record is. INV-TIER-3: what a page on the device says is used only if its checksum holds.

pub(crate) mod ahead;
pub(crate) mod ciphers;
mod empty;
pub(crate) mod extent;
pub(crate) mod forgiven;
pub(crate) mod image;
pub(crate) mod mixed;
#[cfg(all(test, loom))]
mod model;
pub(crate) mod page_copy;
pub(crate) mod page_image;
pub(crate) mod page_put;
pub(crate) mod pages;
pub(crate) mod pressure;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod retained;
pub(crate) mod statistics;
pub(crate) mod write;

use self::ahead::Ahead;
use self::forgiven::Forgiven;
use crate::log::{Log, PAGE_BYTES};
use crate::memory::MemoryUse;
use crate::namespace::Namespaces;
use crate::shared::garbage::Garbage;
use almandine_base::object::Types;
use almandine_device::Device;
use almandine_io::storage::BLOCK_BYTES;
use almandine_io::thread::Waker;
use almandine_oplog::encryption::StoragePart;
use ciphers::{PageNonce, StorageCiphers};
use crossbeam_queue::SegQueue;
use empty::Emptying;
use mixed::MixedSweep;
use pages::{DevicePages, PageInfo};
use pressure::{LIMIT_PAGES_MIN, Pressure};
use read::admission::Admission;
use read::room;
use read::room::Staging;
use refusal::Refusal;
use retained::{Retained, Space};
use statistics::{Counters, TierStatistics, bump};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Fewest pages that the table of the device's pages has places for.
const DEVICE_PAGES_MIN: u64 = 64;
/// A waiting hash's bytes with its part of the queue.
const DUE_BYTES: u64 = 16;
/// Pages beyond the limit at which writers are asked to wait.
pub(crate) const STALL_PAGES: u64 = 8;

/// Where a store puts what does not fit its memory.
#[derive(Clone)]
pub struct Storage {
    /// For pages of the log: page `n` lies at `n * 2 MiB`.
    pub pages: Arc<dyn Device>,
    /// For values and keys too large for a page.
    pub values: Arc<dyn Device>,
    /// What both are encrypted with; by default nothing is.
    pub ciphers: Arc<StorageCiphers>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Storage").finish_non_exhaustive()
    }
}

/// What becomes of a record that was read from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CopyReads {
    /// Nothing: the next read goes to the device again.
    None = 0,
    /// If it is warm, a copy of it stays in memory until it cools down.
    #[default]
    ReadCache = 1,
    /// It becomes a new record at the tail.
    Tail = 2,
}

impl CopyReads {
    fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::None,
            2 => Self::Tail,
            _ => Self::ReadCache,
        }
    }
}

/// What wakes the tier's threads.
pub(crate) struct Wakers {
    pub(crate) flusher: Waker,
    pub(crate) compactor: Waker,
}

/// What the tier may take and do.
pub(crate) struct Limits {
    /// Pages of log memory that the budget leaves.
    pages: AtomicU64,
    /// A [`Pressure`]: how far heap objects press against the budget.
    pressure: AtomicU8,
    /// Bytes of heap objects from which on a page is not filled any further.
    heavy_page_bytes: AtomicU64,
    /// Share of the device's pages that may be dead, in thousandths.
    pub(crate) garbage_max: AtomicU64,
    /// Bytes a second that compaction may read.
    pub(crate) compaction_rate: AtomicU64,
}

/// Space on the devices: what is used, and what is kept.
#[derive(Default)]
pub(crate) struct DeviceSpace {
    /// Next free block of the value device.
    values_tail: AtomicU64,
    /// When a device that has refused a page is asked again.
    pub(crate) refusal: Refusal,
    /// What bases of the operation log may name.
    pub(crate) retained: Retained,
    /// Not all entries that lead to the pages of the table are in the index yet: nothing is compacted.
    pub(crate) adopting: AtomicBool,
    /// What was damaged of that,
    pub(crate) forgiven: Forgiven,
    /// and what was in memory.
    pub(crate) ahead: Ahead,
    /// Where what an earlier store has written ends on both devices.
    pub(crate) ends: (u64, u64),
}

/// The shared part of the tier.
pub(crate) struct Tier {
    pub(crate) storage: Storage,
    /// What makes objects of their images.
    pub(crate) types: Option<Arc<dyn Types>>,
    /// Where large values without a holder go.
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) pages: DevicePages,
    pub(crate) counters: Counters,
    pub(crate) wakers: Wakers,
    /// Hashes that the expiry wheel has brought up and whose records may be on the device.
    due: SegQueue<u64>,
    pub(crate) limits: Limits,
    pub(crate) emptying: Emptying,
    pub(crate) mixed: MixedSweep,
    copy_reads: AtomicU8,
    pub(crate) admission: Admission,
    /// The device refuses writes.
    pub(crate) failing: AtomicBool,
    /// A writer waits for room.
    waiting: AtomicBool,
    pub(crate) space: DeviceSpace,
    /// Room for large values. It also has the call for writers that may go on.
    pub(crate) staging: Arc<Staging>,
}

impl Tier {
    pub(crate) fn new(
        storage: Storage,
        types: Option<Arc<dyn Types>>,
        garbage: Arc<Garbage>,
        device_pages_max: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            types,
            garbage,
            storage,
            pages: DevicePages::new(device_pages_max.max(DEVICE_PAGES_MIN))?,
            counters: Counters::default(),
            wakers: Wakers { flusher: Waker::new(), compactor: Waker::new() },
            due: SegQueue::new(),
            limits: Limits {
                pages: AtomicU64::new(u64::MAX),
                pressure: AtomicU8::new(Pressure::None as u8),
                heavy_page_bytes: AtomicU64::new(u64::MAX),
                garbage_max: AtomicU64::new(300),
                compaction_rate: AtomicU64::new(256 << 20),
            },
            emptying: Emptying::default(),
            mixed: MixedSweep::default(),
            copy_reads: AtomicU8::new(CopyReads::default() as u8),
            admission: Admission::new(),
            failing: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            space: DeviceSpace::default(),
            staging: Arc::default(),
        })
    }

    /// Pages of log memory that the budget leaves.
    pub(crate) fn limit_pages(&self) -> u64 {
        self.limits.pages.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit_bytes(&self, bytes: u64) {
        debug_assert!(bytes / (PAGE_BYTES as u64) < 1 << 40, "a budget is one of memory");
        self.limits.pages.store((bytes / PAGE_BYTES as u64).max(LIMIT_PAGES_MIN), Ordering::Relaxed);
    }

    /// Divides the budget: what is not used beside the log is the log's. Returns whether there is not enough for it.
    pub(crate) fn refresh_budget(&self, budget_bytes: u64, memory: &MemoryUse) -> bool {
        let beside = memory.beside_log_bytes();
        self.set_limit_bytes(budget_bytes.saturating_sub(beside));
        let pressure = Pressure::with_demand(budget_bytes, memory, self.staging.demand());
        self.staging.note_memory(budget_bytes, memory);
        self.limits.pressure.store(pressure as u8, Ordering::Relaxed);
        self.limits.heavy_page_bytes.store(Pressure::heavy_page_bytes(budget_bytes), Ordering::Relaxed);
        if pressure != Pressure::None {
            self.wakers.flusher.wake();
        }
        let resident = memory.log_resident_bytes / PAGE_BYTES as u64;
        // The heap comes back when its pages are evicted, and what is staged when its commands have run; the rest does not.
        let passing = memory.heap_bytes + memory.staged_bytes + memory.garbage_bytes;
        debug_assert!(beside >= passing, "what is on the heap is beside the log");
        let fixed = beside - passing;
        fixed + LIMIT_PAGES_MIN * PAGE_BYTES as u64 / 2 > budget_bytes
            || self.failing.load(Ordering::Relaxed) && self.is_overfull(resident)
    }

    /// How far heap objects press against the budget.
    pub(crate) fn pressure(&self) -> Pressure {
        Pressure::from_bits(self.limits.pressure.load(Ordering::Relaxed))
    }

    /// Bytes of heap objects from which on a page is not filled any further.
    pub(crate) fn heavy_page_bytes(&self) -> u64 {
        self.limits.heavy_page_bytes.load(Ordering::Relaxed)
    }

    /// Whether there is so much in memory that nothing should be added.
    pub(crate) fn is_overfull(&self, resident: u64) -> bool {
        resident >= self.stall_pages() || self.pressure() == Pressure::Stall
    }

    /// Whether all records of the page that holds `address` belong to a dropped namespace.
    pub(crate) fn is_dropped_page(&self, namespaces: &Namespaces, address: u64) -> bool {
        let namespace = self.pages.info(Log::page_of(address)).map_or(0, |info| info.namespace());
        u16::try_from(namespace).is_ok_and(|namespace| namespace != 0 && namespaces.is_dropped(namespace))
    }

    /// Whether the page that holds `address` has records of several namespaces.
    pub(crate) fn is_mixed_page(&self, address: u64) -> bool {
        self.pages.info(Log::page_of(address)).is_some_and(|info| info.namespace() == PageInfo::MIXED)
    }

    /// Pages kept ready in front of the tail.
    pub(crate) fn pages_ahead(&self) -> u64 {
        debug_assert!(self.limit_pages() >= LIMIT_PAGES_MIN, "the log has room to work");
        (self.limit_pages() / 8).clamp(1, crate::log::PAGES_AHEAD)
    }

    /// Resident pages from which on writers should wait.
    pub(crate) fn stall_pages(&self) -> u64 {
        debug_assert!(self.limit_pages() >= LIMIT_PAGES_MIN, "the log has room to work");
        self.limit_pages().saturating_add(STALL_PAGES)
    }

    pub(crate) fn set_limits(&self, garbage_max: f64, compaction_rate: u64) {
        self.limits.garbage_max.store((garbage_max.clamp(0.01, 0.99) * 1000.0) as u64, Ordering::Relaxed);
        self.limits.compaction_rate.store(compaction_rate.max(1 << 20), Ordering::Relaxed);
    }

    pub(crate) fn copy_reads(&self) -> CopyReads {
        CopyReads::from_bits(self.copy_reads.load(Ordering::Relaxed))
    }

    pub(crate) fn set_copy_reads(&self, mode: CopyReads) {
        debug_assert_eq!(CopyReads::from_bits(mode as u8), mode, "a mode survives its bits");
        self.copy_reads.store(mode as u8, Ordering::Relaxed);
    }

    /// A hash has come up whose record may be on the device: the compactor looks, and removes it or files it anew.
    pub(crate) fn is_due_cold(&self, hash: u64) {
        self.due.push(hash);
        self.wakers.compactor.wake();
    }

    /// Has all threads of the tier look around.
    pub(crate) fn wake_all(&self) {
        self.wakers.flusher.wake();
        self.wakers.compactor.wake();
    }

    /// The next hash that waits for that.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.pop()
    }

    /// Whether so much log is in memory that writers should wait until [`Tier::on_stall_end`] is called.
    pub(crate) fn is_stalled(&self, resident: u64) -> bool {
        if !self.is_overfull(resident) || self.failing.load(Ordering::Relaxed) {
            // While the device fails no writer waits for it: writes are refused instead, see `refresh_budget`.
            return false;
        }
        self.waiting.store(true, Ordering::SeqCst);
        self.wakers.flusher.wake();
        true
    }

    /// Sets what is called when there is room again. Once per store.
    pub(crate) fn on_stall_end(&self, call: room::RoomCall) {
        // A second call would belong to a second server over one store, which there is not.
        let _ = self.staging.on_room.set(call);
    }

    pub(crate) fn notify_if_stall_ended(&self, resident: u64) {
        if self.waiting.load(Ordering::SeqCst)
            && (!self.is_overfull(resident) || self.failing.load(Ordering::Relaxed))
            && self.waiting.swap(false, Ordering::SeqCst)
        {
            self.tell_room();
        }
    }

    /// Lets those go on that wait for room.
    pub(crate) fn tell_room(&self) {
        if let Some(call) = self.staging.on_room.get() {
            call();
        }
    }

    /// Bytes of what is known of pages, and of hashes that wait.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pages.memory_bytes() + self.due.len() as u64 * DUE_BYTES
    }

    pub(crate) fn statistics(&self) -> TierStatistics {
        TierStatistics {
            device_bytes: self.storage.pages.used_bytes() + self.storage.values.used_bytes(),
            device_live_bytes: self.pages.live_bytes(),
            retained_bytes: self.space.retained.bytes(),
            read_ahead_left: self.space.ahead.left(),
            leased_bytes: self.space.retained.leased_bytes(),
            log_limit_bytes: self.limit_pages().saturating_mul(PAGE_BYTES as u64),
            ..self.counters.read()
        }
    }

    /// Decrypts the image of a page, of which all blocks are what was written; false: it cannot be.
    #[must_use]
    pub(crate) fn decrypt(&self, nonce: PageNonce, image: &mut [u8]) -> bool {
        debug_assert_eq!(image.len(), PAGE_BYTES, "INV-TIER-3: an image is one of a whole page");
        self.storage.ciphers.apply(nonce, StoragePart::Page, 0, image).is_ok()
    }

    /// A page is given up: nothing points to it any more.
    pub(crate) fn retire(&self, page: u64) {
        let nonce = self.pages.nonce(page);
        debug_assert!(nonce.is_some(), "INV-TIER-3: what is given up was stored");
        self.pages.retire(page);
        self.storage.ciphers.forget_page(nonce.unwrap_or(PageNonce::PLAIN));
    }

    /// Gives space back that nothing names.
    pub(crate) fn free(&self, Space { page, extents, .. }: Space) {
        debug_assert!(!self.pages.is_stored(page), "INV-RETAIN-1: what goes back is not in the table");
        // A session that reads the page now finds it retired and looks again, so its space may go at once.
        if self.storage.pages.discard(page * PAGE_BYTES as u64, PAGE_BYTES as u64).is_err() {
            bump(&self.counters.write_errors, 1);
        }
        self.free_extents(extents);
        self.note_room();
    }

    /// There is room for what a device may have refused.
    pub(crate) fn note_room(&self) {
        self.space.refusal.space_freed();
        if self.failing.load(Ordering::Relaxed) {
            self.wakers.flusher.wake();
        }
    }

    /// Goes on behind what an earlier store has written.
    pub(crate) fn go_on(&mut self) -> io::Result<()> {
        let ends = (self.storage.pages.end()?, self.storage.values.end()?);
        debug_assert!(ends.0.is_multiple_of(BLOCK_BYTES as u64), "INV-TIER-3: whole blocks are written");
        self.space.ends = ends;
        self.space.values_tail.store(ends.1.div_ceil(BLOCK_BYTES as u64), Ordering::Relaxed);
        self.space.adopting.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Lets all pages leave that are in memory now. False when the device has not taken them in time.
    pub(crate) fn empty_memory(&self, log: &Log, within: std::time::Duration) -> bool {
        let below = log.tail_page().max(log.cache_page()) + 1;
        let deadline_ns = almandine_io::clock::monotonic_ns().saturating_add(within.as_nanos() as u64);
        self.emptying.ask(below);
        let mut failures = 0;
        while !self.emptying.has_reached(below) {
            if almandine_io::clock::monotonic_ns() > deadline_ns || failures == empty::FAILURES_MAX {
                return false;
            }
            // A device that fails is not asked again at once.
            if self.failing.load(Ordering::Relaxed) {
                failures += 1;
                almandine_io::thread::sleep(empty::FAILING_LOOK);
                continue;
            }
            failures = 0;
            self.wakers.flusher.wake();
            almandine_io::thread::sleep(empty::LOOK);
        }
        true
    }
}
