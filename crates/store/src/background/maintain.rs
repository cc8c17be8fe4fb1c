//! Maintenance: what the background thread does, in bounded steps, so that sessions never have to.
//!
//! It keeps pages ready in front of the tail, splits and merges buckets to follow the number of keys, files and reclaims
//! expiries, frees the records of emptied namespaces, evacuates sparse pages, frees large values, moves the epoch, tells of
//! removed keys and compares memory with the budget. It sleeps until a session wakes it or the expiry wheel turns.

use super::evacuate::{self, EvacuationPhase};
use super::evict::{Ageing, age_at_rest, evict_ahead};
use super::mixed::sweep_mixed_pages;
use super::pace::Pace;
use super::reclaim::{rebuild_wheel, reclaim_expired};
use crate::counters::add;
use crate::expiry::wheel::{TICK_MS, Wheel};
use crate::index::{BUCKETS_MIN, KEYS_PER_BUCKET, Resize, Resized};
use crate::session::Session;
use crate::session::remove::{drop_latched, uncount};
use crate::shared::Inner;
use crate::tier::stage::{Fetcher, Lookup, Stage};
use almandine_epoch::Run;
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys per bucket below which it shrinks.
const KEYS_PER_BUCKET_MIN: u64 = 2;
/// Buckets split or merged per epoch.
const RESIZE_GROUP: u64 = 16;
/// Growth hurries when it is behind by more than one bucket in so many.
const HURRY_SHARE: u64 = 8;
/// Buckets split or merged per step, before other work gets its turn.
const RESIZE_PER_STEP: u64 = 8192;
/// Buckets made resident ahead of growth: 2 MiB, one huge page.
const BUCKETS_AHEAD: u64 = 1 << 15;
/// Keys from which overflow buckets are made resident ahead of use.
const PREFAULT_KEYS_MIN: u64 = 1000;
/// Buckets swept per epoch and per step.
const SWEEP_GROUP: u64 = 32;
const SWEEP_PER_STEP: u64 = 1 << 16;
/// Longest sleep while there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// Sleep between steps while expiries are pending or memory is limited.
const TICK: Duration = Duration::from_millis(TICK_MS as u64 / 2);

/// A sweep of emptied namespaces under way.
enum Sweep {
    Idle,
    /// Waiting until no session can insert into them any more.
    Settling {
        namespaces: Vec<u16>,
        epoch: u64,
    },
    Running {
        namespaces: Vec<u16>,
        next: u64,
    },
}

/// The background's state.
pub(crate) struct Maintenance {
    store: Arc<Inner>,
    session: Session,
    pace: Pace,
    resize: Resize,
    wheel: Wheel,
    ageing: Ageing,
    evacuation: Run<EvacuationPhase>,
    sweep: Sweep,
    /// Buckets up to this number have been made resident.
    resident_buckets: u64,
    /// Buckets given up by shrinking and the epoch after which their memory can go.
    surplus: Option<(u64, u64)>,
}

impl Maintenance {
    pub(crate) fn new(store: &Arc<Inner>) -> Option<Self> {
        Some(Self {
            store: Arc::clone(store),
            session: Session::open(store)?,
            pace: Pace::notifying(store),
            resize: Resize::new(),
            wheel: Wheel::new(),
            ageing: Ageing::new(),
            evacuation: evacuate::start(store)?,
            sweep: Sweep::Idle,
            resident_buckets: store.index.len(),
            surplus: None,
        })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        // Not being allowed to only means that growth competes with the workers on equal terms.
        let _ = thread::rank_behind_workers();
        while !self.store.background.stop.load(Ordering::Acquire) {
            let busy = self.step(clock::unix_ms());
            if !busy {
                let pending = self.wheel.len() != 0 || self.store.counters.totals().volatile != 0;
                self.store.background.waker.wait(if pending { TICK } else { IDLE });
            }
        }
    }

    /// One round of everything. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        store.removals.notify();
        loop {
            // Inside the epoch: a page that the flusher passes meanwhile is not released before this is done with it.
            self.session.enter(now_ms);
            let prepared = store.log.prepare_ahead(store.pages_ahead());
            self.session.leave();
            if !prepared {
                break;
            }
            self.pace.yield_to_workers(false);
        }
        let mut busy = self.resize_index();
        store.expiry.feed.drain(|notice| self.wheel.file(notice));
        if store.expiry.reclaiming.load(Ordering::Relaxed) {
            reclaim_expired(&mut self.session, &mut self.wheel, &mut self.pace, now_ms);
        }
        rebuild_wheel(&mut self.session, &mut self.wheel, &mut self.pace);
        store.background.progress.wheel_bytes.store(self.wheel.memory_bytes() as u64, Ordering::Relaxed);
        busy |= evict_ahead(&mut self.session, &mut self.wheel, &mut self.pace, now_ms);
        busy |= age_at_rest(&mut self.session, &mut self.ageing);
        busy |= self.sweep_namespaces();
        let _ = self.evacuation.poll();
        busy |= self.evacuation.phase() != EvacuationPhase::Rest;
        self.shift_read_only();
        store.collect_garbage();
        self.session.surrender_free_space();
        if store.epoch.pending() != 0 {
            store.epoch.drain();
            busy |= store.epoch.pending() != 0 && store.epoch.safe() + 1 < store.epoch.current();
        }
        store.refresh_over_limit();
        store.removals.notify();
        busy
    }

    fn resize_index(&mut self) -> bool {
        let live = self.store.counters.totals().live.max(0) as u64;
        let buckets = self.store.index.len();
        if live >= PREFAULT_KEYS_MIN {
            self.store.index.prefault_overflow_ahead();
        }
        if live > buckets * KEYS_PER_BUCKET {
            self.grow(live)
        } else if live < buckets * KEYS_PER_BUCKET_MIN && buckets > self.floor() && !matches!(self.sweep, Sweep::Running { .. }) {
            self.shrink(live)
        } else {
            self.release_surplus();
            false
        }
    }

    fn floor(&self) -> u64 {
        BUCKETS_MIN.max(self.store.options.keys_expected / KEYS_PER_BUCKET)
    }

    fn grow(&mut self, live: u64) -> bool {
        self.surplus = None;
        let index = &self.store.index;
        let wanted = live.div_ceil(KEYS_PER_BUCKET);
        let mut done = 0;
        while index.len() < wanted && done < RESIZE_PER_STEP {
            self.pace.yield_to_workers(wanted > index.len() + index.len() / HURRY_SHARE);
            if index.len() + RESIZE_GROUP > self.resident_buckets {
                index.prefault_ahead(self.resident_buckets, BUCKETS_AHEAD);
                self.resident_buckets += BUCKETS_AHEAD;
            }
            self.session.enter(0);
            let head = self.session.local.head;
            let first = Resize::next_source(index);
            let store = &self.store;
            self.resize.entries_ahead(index, first, RESIZE_GROUP, |address| {
                if address >= head {
                    store.log.prefetch(address);
                }
            });
            for _ in 0..RESIZE_GROUP {
                match self.resize.grow(index, |address| store.hash_at(address, head)) {
                    Resized::Done => done += 1,
                    Resized::Full => {
                        self.session.leave();
                        return false;
                    }
                    Resized::Unknown(address) => {
                        self.session.leave();
                        self.learn(address);
                        return true;
                    }
                }
            }
            self.session.leave();
        }
        self.store.background.progress.buckets_split.fetch_add(done, Ordering::Relaxed);
        self.store.index.len() < wanted
    }

    /// Reads a record on the device to learn its key's hash, of which its entry knows nothing any more.
    fn learn(&mut self, address: u64) {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return };
        let (mut stage, mut fetcher) = (Stage::default(), Fetcher::default());
        tier.stage_blocking(&mut stage, &mut vec![address], true, &mut fetcher);
        if let Lookup::Ready(record, header) = stage.get(address) {
            let hash = store.hash_of(record, header);
            self.session.enter(0);
            let latch = store.index.lock_exclusive(hash);
            let number = latch.number();
            if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
                position.point_to(store.index.tag(number, hash), address);
            }
            drop(latch);
            self.session.leave();
        } else {
            // Unreadable, or moved meanwhile. Growth is tried again with the next step; until then buckets are longer.
            self.pace.yield_to_workers(false);
        }
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
            self.store.index.release_range(from, top);
            self.resident_buckets = from;
            self.surplus = None;
        }
    }

    fn sweep_namespaces(&mut self) -> bool {
        match std::mem::replace(&mut self.sweep, Sweep::Idle) {
            Sweep::Idle => {
                if !self.store.namespaces.any_dropped() {
                    return false;
                }
                let namespaces = self.store.namespaces.take_dropped();
                self.sweep = Sweep::Settling { namespaces, epoch: self.store.epoch.bump() };
            }
            Sweep::Settling { namespaces, epoch } => {
                let settled = self.store.epoch.safe() >= epoch;
                self.sweep = if settled { Sweep::Running { namespaces, next: 0 } } else { Sweep::Settling { namespaces, epoch } };
            }
            Sweep::Running { namespaces, next } => {
                let end = self.store.index.len();
                let stop = (next + SWEEP_PER_STEP).min(end);
                self.sweep_buckets(next, stop);
                if stop == end {
                    let complete = sweep_mixed_pages(&mut self.session);
                    self.store.background.progress.namespaces_swept.fetch_add(namespaces.len() as u64, Ordering::Relaxed);
                    for &namespace in &namespaces {
                        let (records, with_expiry) = self.store.counters.namespace_totals(namespace);
                        debug_assert!(records == 0 || self.store.tier.is_some(), "INV-NS-1: swept means empty");
                        // Records on the device were dropped without a look, so what the namespace still counts is taken off the sums at once.
                        let counters = self.store.thread(&self.session.local);
                        add(&counters.live, -(records as i64));
                        add(&counters.volatile, -(with_expiry as i64));
                        self.store.counters.clear_namespace(namespace);
                    }
                    // Entries of pages that cannot be read stay behind: their namespaces are not used again.
                    if complete {
                        self.store.namespaces.release(namespaces);
                    } else {
                        self.store.namespaces.give_up(&namespaces);
                    }
                } else {
                    self.sweep = Sweep::Running { namespaces, next: stop };
                }
            }
        }
        true
    }

    /// Frees all records of dropped namespaces in some buckets. Growth during a sweep only moves entries to buckets behind
    /// the end, which the sweep reaches too; shrinking would move them to swept ones and waits.
    fn sweep_buckets(&mut self, from: u64, to: u64) {
        let store = Arc::clone(&self.store);
        let mut first = from;
        while first < to {
            self.pace.yield_to_workers(false);
            let last = (first + SWEEP_GROUP).min(to);
            self.session.enter(0);
            self.resize.entries_ahead(&store.index, first, last - first, |address| store.log.prefetch(address));
            for number in first..last {
                let _latch = store.index.latch(number);
                let head = self.session.local.head;
                let doomed = |address: u64| {
                    if address < head {
                        return false;
                    }
                    // SAFETY: read from a latched bucket inside the epoch.
                    let header = unsafe { store.log.record(address) }.header();
                    store.namespaces.is_dropped(header.namespace())
                };
                while let Some(position) = store.index.find_any(number, doomed) {
                    // SAFETY: as above.
                    let record = unsafe { store.log.record(position.entry().address()) };
                    uncount(&store, &self.session.local, record.header());
                    drop_latched(&store, &mut self.session.local, number, position, record, record.header());
                }
                if let Some(tier) = &store.tier {
                    let doomed = |address: u64| address < head && tier.is_dropped_page(&store.namespaces, address);
                    while let Some(position) = store.index.find_any(number, doomed) {
                        tier.pages.count_dead_typical(position.entry().address());
                        store.index.remove(number, position);
                    }
                }
            }
            self.session.leave();
            first = last;
        }
        self.session.surrender_free_space();
    }

    /// Keeps the configured part of the log mutable.
    fn shift_read_only(&self) {
        let fraction = self.store.options.mutable_fraction;
        if fraction < 1.0 && self.store.tier.is_none() {
            let words = self.store.counters.totals().taken_words.max(0) as f64;
            let mutable = (words * fraction) as u64;
            self.store.log.shift_read_only(self.store.log.tail_address().saturating_sub(mutable));
        }
    }
}
