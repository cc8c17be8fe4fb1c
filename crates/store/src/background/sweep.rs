//! Sweeping emptied namespaces: their records are freed, then their numbers are used again (INV-NS-1).
//!
//! A namespace that never had many keys knows in which regions of the scan's order they are (INV-SCAN-2): only the buckets of these
//! are looked at, so that emptying a small database costs what it holds, whatever lies beside it. Else the whole index is swept.

use super::pace::Pace;
use crate::counters::add;
use crate::index::Resize;
use crate::index::entry::Entry;
use crate::session::Session;
use crate::session::remove::{drop_latched, uncount};
use crate::session::scan::range_len;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buckets swept per epoch and per step.
const GROUP: u64 = 32;
const PER_STEP: u64 = 1 << 16;

/// The sweep of emptied namespaces, under way or not.
#[derive(Default)]
pub(super) struct Sweeper(Sweep);

#[derive(Default)]
enum Sweep {
    #[default]
    Idle,
    /// Waiting until no session can insert into them any more.
    Settling { namespaces: Vec<u16>, epoch: u64 },
    /// Through all buckets.
    All { namespaces: Vec<u16>, next: u64 },
    /// Through the regions in which the namespaces have keys.
    Noted { namespaces: Vec<u16>, walk: Noted },
    /// The compactor looks at records on the device.
    Cold { namespaces: Vec<u16> },
}

/// A walk through the regions of one namespace after the other.
#[derive(Default)]
struct Noted {
    namespace: usize,
    /// In the order of scans.
    position: u64,
    /// Addresses in pages of several namespaces on the device: only their records tell whose they are.
    cold: Vec<u64>,
}

impl Sweeper {
    /// Whether it goes through the buckets in the order of their numbers, which must not be merged meanwhile.
    pub(super) fn is_walking(&self) -> bool {
        matches!(self.0, Sweep::All { .. })
    }

    /// Goes on. Returns whether there is more to do at once.
    pub(super) fn step(&mut self, session: &mut Session, resize: &mut Resize, pace: &mut Pace) -> bool {
        let store = Arc::clone(&session.store);
        let (next, busy) = match std::mem::take(&mut self.0) {
            Sweep::Idle if !store.namespaces.any_dropped() => (Sweep::Idle, false),
            Sweep::Idle => (Sweep::Settling { namespaces: store.namespaces.take_dropped(), epoch: store.epoch.bump() }, true),
            Sweep::Settling { namespaces, epoch } if store.epoch.safe() < epoch => (Sweep::Settling { namespaces, epoch }, true),
            Sweep::Settling { namespaces, .. } => {
                debug_assert!(namespaces.iter().all(|it| store.namespaces.is_dropped(*it)), "INV-NS-1: what is swept was dropped");
                // Nothing is inserted any more, so what is known stays known.
                let known = namespaces.iter().all(|namespace| store.namespaces.regions.are_known(*namespace));
                let noted = || Sweep::Noted { namespaces: Vec::new(), walk: Noted::default() };
                let walk = if known { noted() } else { Sweep::All { namespaces: Vec::new(), next: 0 } };
                (walk.with(namespaces), true)
            }
            Sweep::All { namespaces, next } => {
                let end = store.index.len();
                let stop = (next + PER_STEP).min(end);
                sweep_buckets(session, resize, pace, next..stop);
                let next =
                    if stop == end { end_walk(&store, session, namespaces, None) } else { Sweep::All { namespaces, next: stop } };
                (next, true)
            }
            Sweep::Noted { namespaces, mut walk } => {
                let ended = sweep_noted(session, pace, &namespaces, &mut walk);
                let next =
                    if ended { end_walk(&store, session, namespaces, Some(walk.cold)) } else { Sweep::Noted { namespaces, walk } };
                (next, true)
            }
            Sweep::Cold { namespaces } => match store.tier.as_ref().and_then(|tier| tier.mixed.take_result()) {
                // The compactor wakes this thread.
                None => (Sweep::Cold { namespaces }, false),
                Some(complete) => {
                    end_sweep(&store, session, namespaces, complete);
                    (Sweep::Idle, true)
                }
            },
        };
        self.0 = next;
        busy
    }
}

impl Sweep {
    fn with(self, namespaces: Vec<u16>) -> Self {
        match self {
            Self::All { next, .. } => Self::All { namespaces, next },
            Self::Noted { walk, .. } => Self::Noted { namespaces, walk },
            other => other,
        }
    }
}

/// All buckets have been looked at that may have records of the namespaces. `cold`: addresses on the device that may be theirs;
/// `None`: all of the pages that have records of several namespaces may have some.
fn end_walk(store: &Shared, session: &Session, namespaces: Vec<u16>, cold: Option<Vec<u64>>) -> Sweep {
    debug_assert!(
        cold.is_none() || namespaces.iter().all(|it| store.namespaces.regions.are_known(*it)),
        "INV-SCAN-2: what is known is all"
    );
    match &store.tier {
        Some(tier) if cold.as_ref().is_none_or(|cold| !cold.is_empty()) => {
            tier.mixed.ask(cold);
            tier.wakers.compactor.wake();
            Sweep::Cold { namespaces }
        }
        _ => {
            end_sweep(store, session, namespaces, true);
            Sweep::Idle
        }
    }
}

/// Nothing of these namespaces is in the index any more, but for entries that could not be read if the sweep was not `complete`.
fn end_sweep(store: &Shared, session: &Session, namespaces: Vec<u16>, complete: bool) {
    for &namespace in &namespaces {
        let (records, with_expiry) = store.counters.namespace_totals(namespace);
        debug_assert!(records == 0 || store.tier.is_some(), "INV-NS-1: swept means empty");
        // Records on the device were dropped without a look, so what the namespace still counts is taken off the sums at once.
        let counters = store.thread(&session.local);
        add(&counters.live, -(records as i64));
        add(&counters.volatile, -(with_expiry as i64));
        store.counters.clear_namespace(namespace);
        store.namespaces.regions.clear(namespace);
    }
    // Behind the counts and before the release: a namespace that counts as swept has no records, and one that does not is waiting.
    store.background.progress.namespaces_swept.fetch_add(namespaces.len() as u64, Ordering::Release);
    // Entries of pages that cannot be read stay behind: their namespaces are not used again.
    if complete {
        store.consumers.begin_generations(&namespaces);
        store.namespaces.release(namespaces);
    } else {
        store.namespaces.give_up(&namespaces);
    }
}

/// Frees all records of dropped namespaces in some buckets. Growth during a sweep only moves entries to buckets behind the end,
/// which the sweep reaches too; shrinking would move them to swept ones and waits.
fn sweep_buckets(session: &mut Session, resize: &mut Resize, pace: &mut Pace, buckets: std::ops::Range<u64>) {
    let store = Arc::clone(&session.store);
    debug_assert!(buckets.start <= buckets.end, "INV-NS-1: a sweep goes upwards");
    let mut first = buckets.start;
    while first < buckets.end {
        pace.yield_to_workers(false);
        let last = (first + GROUP).min(buckets.end);
        session.enter(0);
        resize.entries_ahead(&store.index, first, last - first, |address| store.log.prefetch(address));
        for number in first..last {
            let _latch = store.index.latch(number);
            sweep_bucket(&store, session, number);
        }
        session.leave();
        first = last;
    }
    session.surrender_free_space();
}

/// Frees records of namespaces that know where they are. Returns whether it has come to the end of the last one. It goes in the
/// order of scans, so that what it has passed stays passed while buckets split and merge (INV-SCAN-1).
fn sweep_noted(session: &mut Session, pace: &mut Pace, namespaces: &[u16], walk: &mut Noted) -> bool {
    let store = Arc::clone(&session.store);
    debug_assert!(walk.namespace <= namespaces.len(), "INV-NS-1: each of the namespaces is swept");
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..PER_STEP / GROUP {
        pace.yield_to_workers(false);
        session.enter(0);
        for _ in 0..GROUP {
            let Some(&namespace) = namespaces.get(walk.namespace) else { break };
            let Some(position) = store.namespaces.regions.next(namespace, walk.position) else {
                (walk.namespace, walk.position) = (walk.namespace + 1, 0);
                continue;
            };
            let latch = store.index.lock_exclusive(position.reverse_bits());
            let number = latch.number();
            let range = range_len(number, store.index.len());
            sweep_bucket(&store, session, number);
            entries.clear();
            store.index.collect(number, &mut entries);
            let head = session.local.head;
            walk.cold.extend(entries.iter().map(|entry| entry.address()).filter(|address| *address < head));
            drop(latch);
            walk.position = (position & !(range - 1)).wrapping_add(range);
            debug_assert!(walk.position == 0 || walk.position > position, "INV-SCAN-1: a sweep goes forward");
            if walk.position == 0 {
                walk.namespace += 1;
            }
        }
        session.leave();
        if walk.namespace == namespaces.len() {
            if let Some(tier) = &store.tier {
                walk.cold.retain(|address| tier.is_mixed_page(*address));
            }
            session.surrender_free_space();
            return true;
        }
    }
    session.surrender_free_space();
    false
}

/// Frees the records of dropped namespaces in one latched bucket, as far as they are in memory or on pages of one namespace.
fn sweep_bucket(store: &Shared, session: &mut Session, number: u64) {
    let head = session.local.head;
    debug_assert!(store.index.bucket(number).is_latched_exclusively(), "INV-LATCH-1: who drops entries holds the latch");
    store.background.progress.buckets_swept.fetch_add(1, Ordering::Relaxed);
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
        uncount(store, &session.local, record.header());
        drop_latched(store, &mut session.local, number, position, record, record.header());
    }
    if let Some(tier) = &store.tier {
        let doomed = |address: u64| address < head && tier.is_dropped_page(&store.namespaces, address);
        while let Some(position) = store.index.find_any(number, doomed) {
            tier.pages.count_dead_typical(position.entry().address());
            store.index.remove(number, position);
        }
    }
}
