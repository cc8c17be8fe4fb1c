//! Maintenance: what the background thread does, in bounded steps, so that sessions never have to.
//!
//! It keeps pages ready in front of the tail, splits and merges buckets to follow the number of keys, files and reclaims
//! expiries, frees the records of emptied namespaces, evacuates sparse pages, frees large values, moves the epoch, tells of
//! removed keys and compares memory with the budget. It sleeps until a session wakes it or the expiry wheel turns.

use super::evict::{Ageing, age_at_rest, evict_ahead};
use super::pace::Pace;
use super::sweep::Sweeper;
use crate::background::compact::evacuate::{self, EvacuationPhase};
use crate::background::expire::rebuild::Rebuild;
use crate::background::expire::reclaim::reclaim_expired;
use crate::background::idle::Idle;
use crate::expiry::wheel::{TICK_MS, Wheel};
use crate::free::ForgetClosed;
use crate::index::{BUCKETS_MIN, KEYS_PER_BUCKET, Resize, Resized};
use crate::log::{PAGE_WORDS, PAGES_AHEAD};
use crate::session::Session;
use crate::session::remove::{Damaged, drop_lost};
use crate::shared::Shared;
use crate::tier::read::stage::{Fetcher, Lookup, Stage, Why};
use almandine_epoch::Run;
use almandine_io::{allocator, clock, thread};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys per bucket below which it shrinks.
const KEYS_PER_BUCKET_MIN: u64 = 2;
/// Buckets split or merged per epoch.
const RESIZE_GROUP: u64 = 16;
/// Growth hurries when it is behind by more than one bucket in this number.
const HURRY_SHARE: u64 = 8;
/// Buckets split or merged per step, before other work gets its turn.
const RESIZE_PER_STEP: u64 = 8192;
/// Buckets made resident ahead of growth: 2 MiB, one huge page.
const BUCKETS_AHEAD: u64 = 1 << 15;
/// Keys from which overflow buckets are made resident ahead of use.
const PREFAULT_KEYS_MIN: u64 = 1000;
/// Pages that the log may have in memory from which on one is kept ready for cached copies.
const CACHE_AHEAD_PAGES_MIN: u64 = 32;
/// Milliseconds for which growth rests after the device has not given it a record.
const GROWTH_REST_MS: u64 = 1_000;
/// How often the shared free space is searched for pieces of closed pages at rest, and batches searched per step.
const FORGET_EVERY_MS: i64 = 1000;
const FORGET_BATCHES_PER_STEP: usize = 4096;
/// Sleep between steps while expiries are pending or memory is limited.
const TICK: Duration = Duration::from_millis(TICK_MS as u64 / 2);

/// The walk that drops what the shared free space has of pages that were closed.
#[derive(Default)]
struct Forgetting {
    /// Most pages that were resident since the last walk.
    resident_most: u64,
    walk: Option<ForgetClosed>,
    next_ms: i64,
}

/// The background's state.
pub(crate) struct Maintenance {
    store: Arc<Shared>,
    session: Session,
    pace: Pace,
    resize: Resize,
    wheel: Wheel,
    rebuild: Rebuild,
    ageing: Ageing,
    evacuation: Run<EvacuationPhase>,
    sweeper: Sweeper,
    /// Buckets up to this number have been made resident.
    resident_buckets: u64,
    /// The page that was made resident last.
    prefaulted: Option<u64>,
    forgetting: Forgetting,
    /// Calls for the release of free memory that were followed.
    releases_asked: u64,
    /// Buckets given up by shrinking and the epoch after which their memory can go.
    surplus: Option<(u64, u64)>,
    /// When the device last could not give a record that growth needs.
    growth_failed_ms: Option<i64>,
}

impl Maintenance {
    pub(crate) fn new(store: &Arc<Shared>) -> Option<Self> {
        Some(Self {
            store: Arc::clone(store),
            session: Session::open(store)?,
            pace: Pace::new(store.options.background),
            resize: Resize::new(),
            wheel: Wheel::new(),
            rebuild: Rebuild::default(),
            ageing: Ageing::new(),
            evacuation: evacuate::start(store)?,
            sweeper: Sweeper::default(),
            resident_buckets: store.index.len(),
            prefaulted: None,
            forgetting: Forgetting::default(),
            releases_asked: allocator::releases_asked(),
            surplus: None,
            growth_failed_ms: None,
        })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        // Not being allowed to only means that growth competes with the workers on equal terms.
        let _ = thread::rank_behind_workers(thread::Rank::Background);
        let mut idle = Idle::default();
        while !self.store.background.stop.load(Ordering::Acquire) {
            if self.step(clock::unix_ms()) {
                idle.end();
                continue;
            }
            let pending = self.wheel.len() != 0 || self.store.counters.totals().volatile != 0;
            self.store.background.waker.wait(if pending { TICK } else { idle.sleep(&self.store) });
        }
    }

    /// One round of everything. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let mut busy = self.prepare_pages(now_ms);
        if store.consumers.copying.touch_ahead() {
            self.pace.yield_to_workers(true);
            busy = true;
        }
        busy |= self.resize_index(now_ms);
        store.expiry.feed.drain(|notice| self.wheel.file(notice));
        if store.expiry.reclaiming.load(Ordering::Relaxed) && !self.session.holds_expiry() {
            busy |= reclaim_expired(&mut self.session, &mut self.wheel, &mut self.pace, now_ms);
        }
        busy |= self.rebuild.step(&mut self.session, &mut self.wheel, &mut self.pace) != 0;
        let wheel_bytes = self.wheel.memory_bytes() + self.rebuild.memory_bytes();
        store.background.progress.wheel_bytes.store(wheel_bytes as u64, Ordering::Relaxed);
        busy |= evict_ahead(&mut self.session, &mut self.wheel, &mut self.pace, now_ms);
        busy |= age_at_rest(&mut self.session, &mut self.ageing);
        busy |= self.sweeper.step(&mut self.session, &mut self.resize, &mut self.pace);
        let _ = self.evacuation.poll();
        busy |= self.evacuation.phase() != EvacuationPhase::Rest;
        store.move_ceiling();
        self.shift_read_only();
        busy |= store.background.garbage.collect();
        self.session.surrender_free_space();
        busy |= self.forget_closed_pages(busy, now_ms);
        if store.epoch.pending() != 0 {
            store.epoch.drain();
            busy |= store.epoch.pending() != 0 && store.epoch.safe() + 1 < store.epoch.current();
        }
        store.refresh_over_limit();
        if cfg!(debug_assertions) {
            self.session.check_sample(now_ms);
        }
        busy
    }

    /// Makes pages ready in front of the tail, and one for cached copies. They become resident outside the epoch: that may take
    /// milliseconds, in which sessions could not use the space again that they free, and would need yet more pages. Returns
    /// whether sessions took as many meanwhile.
    fn prepare_pages(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        if store.tier.as_ref().is_some_and(|tier| tier.limit_pages() >= CACHE_AHEAD_PAGES_MIN)
            && let Some(page) = store.log.vacant_cache_page()
        {
            store.log.prefault_page(page);
            self.session.enter(now_ms);
            store.log.open_cache_ahead(page);
            self.session.leave();
            store.log.forget_prefault(page);
        }
        // The flusher may have been about to say that it had given the page up when that was asked first.
        if let Some(page) = self.prefaulted.take() {
            store.log.forget_prefault(page);
        }
        for _ in 0..=PAGES_AHEAD {
            let Some(page) = store.log.vacant_ahead(store.pages_ahead()) else { return false };
            store.log.prefault_page(page);
            // Inside the epoch: a page that the flusher passes meanwhile is not released before this is done with it.
            self.session.enter(now_ms);
            if store.log.vacant_ahead(store.pages_ahead()) == Some(page) {
                store.log.pages.open(page);
            }
            self.session.leave();
            store.log.forget_prefault(page);
            self.prefaulted = Some(page);
            self.pace.yield_to_workers(false);
        }
        true
    }

    /// When pages have gone, drops what the shared free space still has of them, a part per step: at once when it was half of
    /// all pages, else now and then when there is nothing else to do.
    fn forget_closed_pages(&mut self, busy: bool, now_ms: i64) -> bool {
        let (resident, forgetting) = (self.store.log.pages.resident(), &mut self.forgetting);
        forgetting.resident_most = forgetting.resident_most.max(resident);
        let gone = forgetting.resident_most - resident;
        let due = gone > forgetting.resident_most / 2 || gone > 0 && !busy && now_ms >= forgetting.next_ms;
        if forgetting.walk.is_none() && due {
            forgetting.resident_most = resident;
            forgetting.next_ms = now_ms + FORGET_EVERY_MS;
            forgetting.walk = Some(ForgetClosed::new());
        }
        let store = &self.store;
        let more = forgetting.walk.as_mut().is_some_and(|walk| walk.step(&store.shared_free, &store.log, FORGET_BATCHES_PER_STEP));
        if !more && forgetting.walk.take().is_some() || self.releases_asked != allocator::releases_asked() {
            self.releases_asked = allocator::releases_asked();
            allocator::release_all();
        }
        more
    }

    fn resize_index(&mut self, now_ms: i64) -> bool {
        let live = self.store.counters.totals().live.max(0) as u64;
        let buckets = self.store.index.len();
        if live >= PREFAULT_KEYS_MIN {
            self.store.index.prefault_overflow_ahead();
        }
        if live > buckets * KEYS_PER_BUCKET {
            self.growth_failed_ms = self.growth_failed_ms.filter(|&failed| now_ms.abs_diff(failed) < GROWTH_REST_MS);
            self.growth_failed_ms.is_none() && self.grow(live, now_ms)
        } else if live < buckets * KEYS_PER_BUCKET_MIN && buckets > self.floor() && !self.sweeper.is_walking() {
            self.shrink(live)
        } else {
            self.release_surplus();
            false
        }
    }

    fn floor(&self) -> u64 {
        BUCKETS_MIN.max(self.store.options.keys_expected / KEYS_PER_BUCKET)
    }

    fn grow(&mut self, live: u64, now_ms: i64) -> bool {
        self.surplus = None;
        let wanted = live.div_ceil(KEYS_PER_BUCKET);
        let mut done = 0;
        let mut last = Resized::Done;
        while last == Resized::Done && self.store.index.len() < wanted && done < RESIZE_PER_STEP {
            let buckets = self.store.index.len();
            self.pace.yield_to_workers(wanted > buckets + buckets / HURRY_SHARE);
            if buckets + RESIZE_GROUP > self.resident_buckets {
                self.store.index.prefault_ahead(self.resident_buckets, BUCKETS_AHEAD);
                self.resident_buckets += BUCKETS_AHEAD;
            }
            last = self.grow_group(&mut done);
        }
        self.store.background.progress.buckets_split.fetch_add(done, Ordering::Relaxed);
        match last {
            Resized::Done => self.store.index.len() < wanted,
            Resized::Full => false,
            Resized::Unknown(address) => self.learn(address, now_ms),
        }
    }

    /// Splits some buckets in one epoch.
    fn grow_group(&mut self, done: &mut u64) -> Resized {
        let store = &self.store;
        self.session.enter(0);
        let head = self.session.local.head;
        let first = Resize::next_source(&store.index);
        self.resize.entries_ahead(&store.index, first, RESIZE_GROUP, |address| {
            if address >= head {
                store.log.prefetch(address);
            }
        });
        let mut last = Resized::Done;
        for _ in 0..RESIZE_GROUP {
            last = self.resize.grow(&store.index, |address| store.hash_at(address, head));
            if last != Resized::Done {
                break;
            }
            *done += 1;
        }
        self.session.leave();
        last
    }

    /// Reads a record on the device to learn its key's hash, of which its entry knows nothing any more. A damaged one is given
    /// up: no command can find it. Returns false when the device does not answer; then growth rests, and buckets are longer
    /// meanwhile.
    fn learn(&mut self, address: u64, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        let (mut stage, mut fetcher) = (Stage::default(), Fetcher::default());
        tier.stage_blocking(&mut stage, &mut vec![address], Why::BACKGROUND, &mut fetcher);
        let hash = match stage.get(address) {
            Lookup::Ready(record, header) => Some(store.hash_of(record, header)),
            Lookup::Damaged => None,
            // It has moved: its new entry knows more.
            Lookup::Absent => return true,
            Lookup::Failed => {
                self.growth_failed_ms = Some(now_ms);
                return false;
            }
        };
        self.session.enter(0);
        // No other thread resizes, so the entry is where growth has found it.
        let number = Resize::next_source(&store.index);
        let latch = store.index.latch(number);
        if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
            match hash {
                Some(hash) => position.point_to(store.index.tag(number, hash), address),
                None => drop_lost(&store, &mut self.session.local, number, position, Damaged::Unknown),
            }
        }
        store.end_unit(&mut self.session.local);
        drop(latch);
        self.session.leave();
        true
    }

    fn shrink(&mut self, live: u64) -> bool {
        let index = &self.store.index;
        let wanted = (live / (2 * KEYS_PER_BUCKET_MIN)).max(self.floor());
        let before = index.len();
        let mut done = 0;
        while index.len() > wanted && done < RESIZE_PER_STEP {
            self.pace.yield_to_workers(false);
            self.session.enter(0);
            for _ in 0..RESIZE_GROUP {
                if index.len() <= wanted || !self.resize.shrink(index) {
                    break;
                }
                done += 1;
            }
            self.session.leave();
        }
        self.store.background.progress.buckets_merged.fetch_add(done, Ordering::Relaxed);
        let top = self.surplus.map_or(before, |(top, _)| top.max(before)).max(self.resident_buckets);
        self.surplus = Some((top, self.store.epoch.bump()));
        self.store.index.len() > wanted
    }

    /// Gives the memory of merged buckets back once no session can be on them.
    fn release_surplus(&mut self) {
        if let Some((top, epoch)) = self.surplus
            && self.store.epoch.safe() >= epoch
        {
            let from = self.store.index.len();
            debug_assert!(self.store.epoch.safe() >= epoch, "INV-INDEX-1: nobody looks at buckets beyond the count any more");
            self.store.index.release_range(from, top);
            self.resident_buckets = from;
            self.surplus = None;
        }
    }

    /// Keeps the configured part of the log mutable.
    fn shift_read_only(&self) {
        let fraction = self.store.options.mutable_fraction;
        if fraction < 1.0 && self.store.tier.is_none() {
            // Chunks count as they are filled: those that sessions fill now are beside.
            let words = self.store.counters.totals().taken_words.max(0) as u64 + PAGE_WORDS;
            let mutable = (words as f64 * fraction) as u64;
            self.store.log.shift_read_only(self.store.log.tail_address().saturating_sub(mutable));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Options, Put, Storage, Store};
    use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
    use almandine_io::storage::Buffer;

    const NOW_MS: i64 = 1_000_000;

    fn set(session: &mut Session, namespace: u16, name: &str) {
        session.enter(NOW_MS);
        let key = session.key(namespace, name.as_bytes());
        // A new key whose tag is that of one on the device is left out.
        let _ = session.upsert(key, &[b'.'; 900], Put::default());
        session.cold().take_wanted();
        session.leave();
    }

    /// A store with a key on the device that is in the bucket which growth splits first, and whose entry knows nothing of its hash.
    fn store_with_unknown_entry(faulty: &Arc<FaultyDevice>) -> (Store, u64) {
        let storage = Storage {
            pages: Arc::clone(faulty) as Arc<dyn Device>,
            values: Arc::new(MemoryDevice::new()),
            ciphers: Arc::default(),
        };
        let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage), background: false, ..Options::default() };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(16 << 20);
        let (namespace, mut session) = (store.allocate_namespace().expect("a namespace"), store.session().expect("a session"));
        let name = (0..).map(|number| format!("key:{number}")).find(|name| session.hash(namespace, name.as_bytes()) % 1024 == 0);
        let name = name.expect("some key");
        set(&mut session, namespace, &name);
        let index = &store.inner.index;
        let hash = session.hash(namespace, name.as_bytes());
        let tier = store.inner.tier.as_ref().expect("a tier");
        tier.emptying.ask(store.inner.log.tail_page() + 1);
        (0..50).for_each(|_| store.maintain(NOW_MS));
        session.enter(NOW_MS);
        let probed = session.cold().probe(session.key(namespace, name.as_bytes()), crate::Need::Read);
        assert_eq!(probed, Err(crate::Missing::Cold));
        session.leave();
        let wanted = session.cold().take_wanted();
        let latch = index.lock_exclusive(hash);
        let number = latch.number();
        let position = index.find_any(number, |at| wanted.contains(&at)).expect("an entry of a key on the device");
        let mut entry = position.entry();
        while let Some((deeper, _)) = entry.split() {
            entry = deeper;
        }
        position.0.store(entry.0, Ordering::Relaxed);
        index.bucket(number).set_short_tags(true);
        drop(latch);
        // Now there are too many keys for the buckets.
        for number in 0..8_000 {
            set(&mut session, namespace, &format!("more:{number}"));
        }
        (store, hash)
    }

    #[test]
    fn growth_learns_the_hash_of_an_entry_that_knows_nothing_and_rests_while_the_device_fails() {
        let faulty = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new()), 1, FaultPlan::default()));
        let (store, hash) = store_with_unknown_entry(&faulty);
        faulty.set_plan(FaultPlan { read_errors: 1_000_000, ..FaultPlan::default() });
        store.maintain(NOW_MS);
        let asked = store.figures().tier().expect("a device").background_reads;
        (0..50).for_each(|_| store.maintain(NOW_MS));
        assert_eq!(store.figures().index_buckets(), BUCKETS_MIN);
        assert_eq!(store.figures().tier().expect("a device").background_reads, asked, "it rests");
        faulty.set_plan(FaultPlan::default());
        (0..3).for_each(|_| store.maintain(NOW_MS + 1_000));
        assert!(store.figures().index_buckets() > BUCKETS_MIN);
        let mut session = store.session().expect("a session");
        session.enter(NOW_MS);
        assert!(store.inner.index.peek_overflow(hash).is_some() || session.prefetch_record(hash));
        session.leave();
        assert_eq!(store.figures().tier().expect("a device").records_lost, 0);
    }

    #[test]
    fn growth_gives_up_a_damaged_record_whose_entry_knows_nothing() {
        let memory = Arc::new(MemoryDevice::new());
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&memory) as Arc<dyn Device>, 1, FaultPlan::default()));
        let (store, _) = store_with_unknown_entry(&faulty);
        let mut garbage = Buffer::new(2 << 20);
        garbage.fill(0xA5);
        memory.write(2 << 20, &garbage).expect("room");
        let live = store.figures().totals().live;
        (0..3).for_each(|_| store.maintain(NOW_MS));
        assert!(store.figures().index_buckets() > BUCKETS_MIN);
        assert_eq!((store.figures().tier().expect("a device").records_lost, store.figures().totals().live), (1, live - 1));
    }
}
