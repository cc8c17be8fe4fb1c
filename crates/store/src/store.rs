//! The store: the parts that all sessions share, and the handle that owns them together with the background thread.

use crate::counters::{Counters, Totals};
use crate::evict::{Eviction, EvictionOrder, EvictionPolicy};
use crate::expiry::feed::Feed;
use crate::free::SharedFree;
use crate::heap::SharedString;
use crate::index::Index;
use crate::log::{CHUNK_BYTES, Log, PAGE_BYTES, PAGES_AHEAD};
use crate::maintain::Maintenance;
use crate::namespace::Namespaces;
use crate::record::WORD;
use crate::session::heat::HeatRule;
use crate::session::{Full, NO_PAGE, Session};
use crate::tier::{CopyReads, Examiner, Keeper, Steward, Storage, Tier, TierStatistics};
use almandine_epoch::Epoch;
use almandine_io::thread::Waker;
use almandine_io::{memory, thread};
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Heap values from this size on are freed by the background thread.
const DISCARD_BYTES: usize = 64 * 1024;
/// The background evicts until this part of the budget is unused, one in so many.
const HEADROOM_SHARE: u64 = 256;
/// Threads that belong to the store itself: maintenance and compaction.
const OWN_THREADS: usize = 2;
/// And with a device: the keeper, the steward and the examiner.
const TIER_THREADS: usize = 3;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Most sessions at once.
    pub sessions_max: usize,
    /// Keys for which the index has room at the start.
    pub keys_expected: u64,
    /// Bytes of memory that log and index may ever reach; they bound the reserved address space. 0: what the machine has.
    pub memory_bytes_max: u64,
    /// Seed of the hash function; a secret against chosen keys.
    pub seed: u64,
    /// Part of the log that is updated in place, from the tail backwards; 1.0: all of it.
    pub mutable_fraction: f64,
    /// Part of the log's words that may be free before pages are evacuated.
    pub free_fraction_max: f64,
    /// Where to put what does not fit the memory budget. Without it everything stays in memory.
    pub storage: Option<Storage>,
    /// Whether the background thread runs. Without it, call [`Store::maintain`].
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sessions_max: 16,
            keys_expected: 0,
            memory_bytes_max: 0,
            seed: 0x5EED,
            mutable_fraction: 1.0,
            free_fraction_max: 0.15,
            storage: None,
            background: true,
        }
    }
}

/// Bytes of memory by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Hash buckets and overflow slots.
    pub index_bytes: u64,
    /// Log pages that hold memory.
    pub log_resident_bytes: u64,
    /// Log space taken by live records.
    pub log_live_bytes: u64,
    /// Log space of dead records that is not reused yet.
    pub log_free_bytes: u64,
    /// Heap values and long keys.
    pub heap_bytes: u64,
    /// The expiry wheel.
    pub expiry_bytes: u64,
    /// What is known of pages on the device.
    pub tier_bytes: u64,
    /// What eviction remembers of records that gave way.
    pub ghost_bytes: u64,
    /// What the store's user reported by [`Store::set_external_bytes`].
    pub external_bytes: u64,
}

impl MemoryUse {
    /// What counts against the budget.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.log_live_bytes + self.beside_log_bytes()
    }

    /// What counts against the budget beside the log.
    #[must_use]
    pub fn beside_log_bytes(&self) -> u64 {
        self.index_bytes + self.heap_bytes + self.expiry_bytes + self.ghost_bytes + self.tier_bytes + self.external_bytes
    }
}

/// What the background has done.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) buckets_split: AtomicU64,
    pub(crate) buckets_merged: AtomicU64,
    pub(crate) pages_evacuated: AtomicU64,
    pub(crate) records_moved: AtomicU64,
    pub(crate) namespaces_swept: AtomicU64,
    pub(crate) wheel_bytes: AtomicU64,
}

/// A copy of the background's work counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Index buckets split since the start.
    pub buckets_split: u64,
    /// Index buckets merged since the start.
    pub buckets_merged: u64,
    /// Log pages evacuated and given back.
    pub pages_evacuated: u64,
    /// Records moved by that.
    pub records_moved: u64,
    /// Emptied namespaces whose records were freed.
    pub namespaces_swept: u64,
}

/// Everything that sessions share.
pub(crate) struct Inner {
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) index: Index,
    pub(crate) log: Log,
    pub(crate) counters: Counters,
    pub(crate) namespaces: Namespaces,
    pub(crate) shared_free: SharedFree,
    pub(crate) expiry_feed: Feed,
    pub(crate) removals: crate::removed::Outbox,
    /// The page of each thread's open chunk, or `NO_PAGE`.
    pub(crate) active_pages: Box<[CachePadded<AtomicU64>]>,
    pub(crate) waker: Waker,
    pub(crate) progress: Progress,
    pub(crate) options: Options,
    secrets: RapidSecrets,
    garbage: SegQueue<SharedString>,
    budget_bytes: AtomicU64,
    external_bytes: AtomicU64,
    over_limit: AtomicBool,
    pub(crate) eviction: Eviction,
    /// A [`HeatRule`].
    pub(crate) heat_rule: AtomicU8,
    /// Whether the background removes expired records.
    pub(crate) reclaiming: AtomicBool,
    free_threads: Mutex<Vec<usize>>,
    pub(crate) stop: AtomicBool,
    /// The device, if there is one.
    pub(crate) tier: Option<Tier>,
}

impl Inner {
    fn new(mut options: Options) -> io::Result<Arc<Self>> {
        let own = if options.storage.is_some() { OWN_THREADS + TIER_THREADS } else { OWN_THREADS };
        options.sessions_max = options.sessions_max.clamp(1, almandine_base::limits::STORE_THREADS_MAX - own);
        let threads = options.sessions_max + own;
        let tier = options.storage.clone().map(Tier::new).transpose()?;
        let memory_max = if options.memory_bytes_max == 0 { memory::physical_bytes() } else { options.memory_bytes_max };
        // Holes make the log's span longer than its contents: four times the memory keeps forced evacuations rare.
        let log = reserve(memory_max.saturating_mul(4).max(1 << 26), |bytes| Log::new(bytes, threads))?;
        // A bucket per 128 bytes of memory: more than the smallest records can ask for.
        let index = reserve((memory_max / 128).max(1 << 16), |buckets| {
            Index::new(options.keys_expected / crate::maintain::KEYS_PER_BUCKET, buckets)
        })?;
        Ok(Arc::new(Self {
            epoch: Arc::new(Epoch::new(threads)),
            index,
            log,
            counters: Counters::new(threads)?,
            namespaces: Namespaces::new(),
            shared_free: SharedFree::new(),
            expiry_feed: Feed::new(threads),
            removals: crate::removed::Outbox::default(),
            active_pages: (0..threads).map(|_| CachePadded::new(AtomicU64::new(NO_PAGE))).collect(),
            waker: Waker::new(),
            progress: Progress::default(),
            secrets: RapidSecrets::seed(options.seed),
            garbage: SegQueue::new(),
            budget_bytes: AtomicU64::new(0),
            external_bytes: AtomicU64::new(0),
            over_limit: AtomicBool::new(false),
            eviction: Eviction::new(memory_max)?,
            heat_rule: AtomicU8::new(HeatRule::Off as u8),
            reclaiming: AtomicBool::new(true),
            free_threads: Mutex::new((0..threads).rev().collect()),
            stop: AtomicBool::new(false),
            tier,
            options,
        }))
    }

    #[inline]
    pub(crate) fn hash(&self, namespace: u16, key: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, false>(key, &self.secrets) ^ u64::from(namespace).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    pub(crate) fn session(self: &Arc<Self>) -> Option<Session> {
        let thread = self.free_threads.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        match self.epoch.register() {
            Some(participant) => Some(Session::new(Arc::clone(self), participant, thread)),
            None => {
                self.release_thread(thread);
                None
            }
        }
    }

    pub(crate) fn release_thread(&self, thread: usize) {
        self.free_threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Lets go of a heap value, in the background if freeing it takes long.
    pub(crate) fn discard(&self, value: SharedString) {
        if value.memory_bytes() >= DISCARD_BYTES && Arc::strong_count(&value) == 1 {
            self.garbage.push(value);
            self.waker.wake();
        }
    }

    pub(crate) fn collect_garbage(&self) {
        while let Some(value) = self.garbage.pop() {
            drop(value);
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        let totals = self.counters.totals();
        let words = |words: i64| words.max(0) as u64 * WORD as u64;
        MemoryUse {
            index_bytes: self.index.memory_bytes(),
            log_resident_bytes: self.log.pages.resident() * PAGE_BYTES as u64,
            log_live_bytes: words(totals.taken_words - totals.free_words),
            log_free_bytes: words(totals.free_words),
            heap_bytes: totals.heap_bytes.max(0) as u64,
            expiry_bytes: self.progress.wheel_bytes.load(Ordering::Relaxed),
            tier_bytes: self.tier.as_ref().map_or(0, Tier::memory_bytes),
            ghost_bytes: self.eviction.ghosts.memory_bytes(),
            external_bytes: self.external_bytes.load(Ordering::Relaxed),
        }
    }

    /// Pages kept ready in front of the tail.
    pub(crate) fn pages_ahead(&self) -> u64 {
        self.tier.as_ref().map_or(PAGES_AHEAD, Tier::pages_ahead)
    }

    /// What gives way; nothing where a device takes what does not fit.
    pub(crate) fn eviction_policy(&self) -> EvictionPolicy {
        if self.tier.is_some() { EvictionPolicy::default() } else { self.eviction.policy() }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// Bytes in use beyond the budget.
    pub(crate) fn excess_bytes(&self) -> u64 {
        self.excess_over(self.budget_bytes())
    }

    /// Bytes in use beyond what the background leaves to sessions.
    pub(crate) fn excess_bytes_ahead(&self) -> u64 {
        let budget = self.budget_bytes();
        self.excess_over(budget - budget / HEADROOM_SHARE)
    }

    fn excess_over(&self, bytes: u64) -> u64 {
        if bytes == 0 { 0 } else { self.memory().used_bytes().saturating_sub(bytes) }
    }

    /// How much of the budget is used, in so many parts.
    pub(crate) fn filled(&self, parts: u64) -> u64 {
        self.memory().used_bytes().saturating_mul(parts).checked_div(self.budget_bytes()).unwrap_or(0)
    }

    /// Whether eviction is likely to be needed soon.
    pub(crate) fn is_near_limit(&self) -> bool {
        let budget = self.budget_bytes();
        self.excess_over(budget - budget / 8) != 0
    }

    /// Whether the background should evict.
    pub(crate) fn wants_eviction_ahead(&self) -> bool {
        self.eviction_policy().order != EvictionOrder::Never && self.excess_bytes_ahead() != 0 && self.can_evict()
    }

    fn can_evict(&self) -> bool {
        let totals = self.counters.totals();
        self.eviction.is_hopeful(totals.live, totals.volatile, self.index.len())
    }

    /// Compares memory in use with the budget. It is exceeded only if nothing can be evicted either.
    pub(crate) fn refresh_over_limit(&self) {
        if let Some(tier) = &self.tier {
            let budget = self.budget_bytes();
            let budget = if budget == 0 { memory::physical_bytes() / 4 * 3 } else { budget };
            let over = tier.refresh_budget(budget, &self.memory());
            self.over_limit.store(over, Ordering::Relaxed);
            return;
        }
        let over = self.excess_bytes() != 0 && !self.can_evict();
        if self.over_limit.load(Ordering::Relaxed) != over {
            self.over_limit.store(over, Ordering::Relaxed);
        }
    }
}

/// Tries a reservation and halves it until the system agrees.
fn reserve<T>(mut size: u64, make: impl Fn(u64) -> io::Result<T>) -> io::Result<T> {
    loop {
        match make(size) {
            Ok(made) => return Ok(made),
            Err(error) if size < 1 << 16 => return Err(error),
            Err(_) => size /= 2,
        }
    }
}

/// What the background would run, for a store without one.
type Manual = (Maintenance, Option<(Keeper, Steward, Examiner)>);

/// A store of records, in memory and, with a device, beyond, used through [`Session`]s.
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    background: Vec<JoinHandle<()>>,
    manual: Option<Mutex<Manual>>,
}

impl Store {
    /// Opens an empty store.
    ///
    /// # Errors
    /// When address space cannot be reserved or the background thread cannot be started.
    pub fn open(options: Options) -> io::Result<Self> {
        let inner = Inner::new(options)?;
        let maintenance = Maintenance::new(&inner).ok_or_else(|| io::Error::other("no epoch slot for the background"))?;
        let tier = (|| Some((Keeper::new(&inner)?, Steward::new(&inner)?, Examiner::new(&inner)?)))();
        // The first pages are ready before the first session is.
        while inner.log.prepare_ahead(inner.pages_ahead()) {}
        let (mut background, mut manual) = (Vec::new(), None);
        if inner.options.background {
            background.push(thread::spawn("store", move || maintenance.run())?);
            if let Some((keeper, steward, examiner)) = tier {
                background.push(thread::spawn("keeper", move || keeper.run())?);
                background.push(thread::spawn("steward", move || steward.run())?);
                background.push(thread::spawn("examiner", move || examiner.run())?);
            }
        } else {
            manual = Some(Mutex::new((maintenance, tier)));
        }
        Ok(Self { inner, background, manual })
    }

    /// A session for the calling thread, or none when all are taken.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.inner.session()
    }

    /// Does what the background thread would do at `now_ms`. Only without one ([`Options::background`]).
    pub fn maintain(&self, now_ms: i64) {
        if let Some(maintenance) = &self.manual {
            let mut manual = maintenance.lock().unwrap_or_else(PoisonError::into_inner);
            manual.0.step(now_ms);
            if let Some((keeper, steward, examiner)) = &mut manual.1 {
                keeper.step();
                examiner.step(now_ms);
                steward.step(now_ms);
            }
        }
    }

    /// A namespace without records.
    ///
    /// # Errors
    /// While all others wait for their sweep.
    pub fn allocate_namespace(&self) -> Result<u16, Full> {
        self.inner.namespaces.allocate().ok_or(Full)
    }

    /// Declares all records of a namespace garbage. Nobody may use the namespace in a batch that begins after this.
    pub fn condemn_namespace(&self, namespace: u16) {
        self.inner.namespaces.condemn(namespace);
        self.inner.waker.wake();
    }

    /// Live records of a namespace, and those of them with an expiry. Exact.
    #[must_use]
    pub fn namespace_len(&self, namespace: u16) -> (u64, u64) {
        self.inner.counters.namespace_totals(namespace)
    }

    /// Sums of the sessions' counters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.counters.totals()
    }

    /// What the background has done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = &self.inner.progress;
        Work {
            buckets_split: read(&progress.buckets_split),
            buckets_merged: read(&progress.buckets_merged),
            pages_evacuated: read(&progress.pages_evacuated),
            records_moved: read(&progress.records_moved),
            namespaces_swept: read(&progress.namespaces_swept),
        }
    }

    /// Memory by use.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        self.inner.memory()
    }

    /// Buckets of the index.
    #[must_use]
    pub fn index_buckets(&self) -> u64 {
        self.inner.index.len()
    }

    /// Sets the memory budget in bytes; 0 for none.
    pub fn set_budget(&self, bytes: u64) {
        self.inner.budget_bytes.store(bytes, Ordering::Relaxed);
        self.inner.refresh_over_limit();
        self.inner.waker.wake();
    }

    /// Reports memory that is not the store's but counts against its budget.
    pub fn set_external_bytes(&self, bytes: u64) {
        self.inner.external_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What the tier below memory has done; nothing without a device.
    #[must_use]
    pub fn tier(&self) -> Option<TierStatistics> {
        self.inner.tier.as_ref().map(Tier::statistics)
    }

    /// Sets what becomes of records that were read from the device.
    pub fn set_copy_reads(&self, mode: CopyReads) {
        if let Some(tier) = &self.inner.tier {
            tier.set_copy_reads(mode);
        }
    }

    /// Sets the part of the device's space that may be dead, and how many bytes a second collecting it may read.
    pub fn set_collection(&self, garbage_max: f64, bytes_per_second: u64) {
        if let Some(tier) = &self.inner.tier {
            tier.set_limits(garbage_max, bytes_per_second);
        }
    }

    /// Lets everything that is in memory leave for the device, and waits for it; for tests of what is cold. False when that is not
    /// possible in time, or there is no device.
    #[must_use]
    pub fn empty_memory(&self, within: std::time::Duration) -> bool {
        self.inner.tier.as_ref().is_some_and(|tier| tier.empty_memory(&self.inner.log, within))
    }

    /// Whether writers should wait, because they write faster than the device takes; [`Store::on_room`] tells when not any more.
    #[inline]
    #[must_use]
    pub fn is_choked(&self) -> bool {
        self.inner.tier.as_ref().is_some_and(|tier| tier.is_choked(self.inner.log.pages.resident()))
    }

    /// Sets what is called, by a background thread, when writers that found [`Store::is_choked`] may go on.
    pub fn on_room(&self, call: impl Fn() + Send + Sync + 'static) {
        if let Some(tier) = &self.inner.tier {
            tier.on_room(Box::new(call));
        }
    }

    /// Sets what gives way when the budget is used up, and how use is turned into heat for that. With a device nothing gives way:
    /// it takes what does not fit.
    pub fn set_eviction(&self, policy: EvictionPolicy) {
        if self.inner.eviction.policy() != policy {
            self.inner.eviction.set_policy(policy);
        }
        self.set_heat_rule(if self.inner.tier.is_some() { HeatRule::Uses } else { policy.heat_rule() });
        self.inner.refresh_over_limit();
        self.inner.waker.wake();
    }

    /// Sets the time in which frequencies go down by one step while nothing needs to be evicted; 0: they do not.
    pub fn set_frequency_decay_ms(&self, milliseconds: i64) {
        self.inner.eviction.set_decay_ms(milliseconds);
    }

    /// Sets how use is turned into heat.
    pub fn set_heat_rule(&self, rule: HeatRule) {
        self.inner.heat_rule.store(rule as u8, Ordering::Relaxed);
    }

    /// Whether more memory is used than the budget allows and nothing can be evicted. Kept up to date as the log grows and about ten times a second.
    #[inline]
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.inner.over_limit.load(Ordering::Relaxed)
    }

    /// Compares with the budget at once.
    pub fn refresh_over_limit(&self) {
        self.inner.refresh_over_limit();
    }

    /// Whether the background removes expired records; it does unless told otherwise. For tests of what happens without it.
    pub fn set_reclaiming(&self, reclaiming: bool) {
        self.inner.reclaiming.store(reclaiming, Ordering::Relaxed);
    }

    /// Granularity in bytes at which the log takes memory.
    #[must_use]
    pub const fn chunk_bytes() -> usize {
        CHUNK_BYTES
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::Release);
        self.inner.waker.wake();
        if let Some(tier) = &self.inner.tier {
            tier.waker.wake();
            tier.steward_waker.wake();
            tier.examiner_waker.wake();
        }
        for thread in self.background.drain(..) {
            // A listener that held the last reference drops the store on a thread of its own, which cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
