//! Rebuilding the wheel when most of its entries are stale, in bounded steps.
//!
//! A hash keeps one notice: at its record's expiry if the record is in memory, else the first of those that it has. It keeps none
//! if no entry can be its own. So all notices of a hash have to be at hand together. The wheel is walked through once for each part
//! of the hashes, a sixty-fourth of all where there are many: it is taken out, and filed again without what is stale. What is taken
//! out is a thirty-second of the wheel's memory, or little, and comes up when it is filed again. Entries that move between cells
//! meanwhile may be left out: then a hash keeps two, until the next rebuild.

use crate::background::expire::reclaim::{GROUP, prefetch};
use crate::background::pace::Pace;
use crate::expiry::feed::Notice;
use crate::expiry::wheel::{Walk, Wheel};
use crate::session::Session;

/// Stale entries that the wheel may hold beyond its live ones before it is rebuilt, at most,
const STALE_SLACK: usize = if cfg!(test) { 1 << 8 } else { 1 << 20 };
/// and as one part in this number of the budget, but not fewer than these.
const STALE_SHARE: usize = 512;
const STALE_SLACK_MIN: usize = if cfg!(test) { STALE_SLACK } else { 1 << 10 };
/// The hashes are divided by their highest bits: one part for this number of entries, but at most `PARTS_MAX` parts.
const PART: usize = 1 << 16;
const PARTS_MAX: usize = 64;
/// Heaps of a part, by the next bits. Each is small enough to be sorted in a step.
const HEAPS: usize = 256;
/// What a step does: entries and cells that it walks over, and look-ups, each of which counts as several of those.
const WORK_PER_STEP: usize = 1 << 18;
const LOOK_UP: usize = 16;
/// Entries and cells between two looks at the clock.
const WALK: usize = 1 << 14;

/// A rebuild, under way or not.
#[derive(Default)]
pub(in crate::background) struct Rebuild {
    under_way: Option<Part>,
    /// Into how many parts the hashes are divided; a power of two.
    parts: u64,
    heaps: Vec<Vec<Notice>>,
}

/// How far a rebuild is.
#[derive(Clone, Copy)]
enum Part {
    /// This number of the soonest are to be filed among the others.
    Soonest(usize),
    /// The entries of a part are taken out.
    Taken(u64, Walk),
    /// Those that are not stale are filed again, from this heap on.
    Filed(u64, usize),
}

impl Rebuild {
    /// Bytes of what is taken out.
    pub(in crate::background) fn memory_bytes(&self) -> usize {
        self.heaps.iter().map(Vec::capacity).sum::<usize>() * size_of::<Notice>()
    }

    /// Begins a rebuild if most entries are stale, or goes on with one. The session is not inside a batch. Returns how much was
    /// done.
    pub(in crate::background) fn step(&mut self, session: &mut Session, wheel: &mut Wheel, pace: &mut Pace) -> usize {
        if self.under_way.is_none() {
            if !is_stale(session, wheel) {
                return 0;
            }
            self.under_way = Some(Part::Soonest(wheel.soonest_len()));
            self.parts = (wheel.len() / PART).next_power_of_two().min(PARTS_MAX) as u64;
            self.heaps.resize_with(HEAPS, Vec::new);
        }
        let mut done = 0;
        while let Some(part) = self.under_way.filter(|_| done < WORK_PER_STEP) {
            pace.yield_to_workers(false);
            let (next, work) = match part {
                Part::Soonest(0) => (Some(Part::Taken(0, Walk::default())), 0),
                Part::Soonest(count) => {
                    let filed = wheel.file_soonest(count.min(WALK));
                    (Some(Part::Soonest(if filed == 0 { 0 } else { count - filed })), filed)
                }
                Part::Taken(part, walk) => self.take(wheel, part, walk),
                Part::Filed(part, HEAPS) => ((part + 1 < self.parts).then_some(Part::Taken(part + 1, Walk::default())), 1),
                Part::Filed(part, heap) => {
                    let notices = std::mem::take(&mut self.heaps[heap]);
                    (Some(Part::Filed(part, heap + 1)), 1 + LOOK_UP * file_anew(session, wheel, pace, notices))
                }
            };
            debug_assert!(work != 0 || matches!(part, Part::Soonest(0)), "a rebuild gets on");
            self.under_way = next;
            done += work;
        }
        if self.under_way.is_none() {
            self.heaps = Vec::new();
            wheel.keep();
        }
        done
    }

    fn take(&mut self, wheel: &mut Wheel, part: u64, mut walk: Walk) -> (Option<Part>, usize) {
        debug_assert!(part < self.parts && self.parts.is_power_of_two(), "INV-EXP-1: each hash is of one part");
        let (heaps, mut left) = (&mut self.heaps, WALK);
        let (mask, heap) = (self.parts - 1, |hash: u64| (hash >> 50) as usize % HEAPS);
        let ended =
            wheel.extract(&mut walk, &mut left, |hash| hash >> 58 & mask == part, |notice| heaps[heap(notice.hash)].push(notice));
        (Some(if ended { Part::Filed(part, 0) } else { Part::Taken(part, walk) }), WALK - left)
    }
}

/// Whether most entries of the wheel are stale.
fn is_stale(session: &Session, wheel: &mut Wheel) -> bool {
    let volatile = session.store.counters.totals().volatile.max(0) as usize;
    let slack = match session.store.budget_bytes() {
        0 => STALE_SLACK,
        budget => (budget as usize / (STALE_SHARE * size_of::<u64>())).clamp(STALE_SLACK_MIN, STALE_SLACK),
    };
    wheel.len() >= (2 * volatile + slack).max(2 * wheel.kept())
}

/// Files what is needed of some notices, among which are all of their hashes. Returns how many hashes were looked up.
fn file_anew(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace, mut notices: Vec<Notice>) -> usize {
    notices.sort_unstable_by_key(|notice| (notice.hash, notice.at_ms));
    notices.dedup_by_key(|notice| notice.hash);
    debug_assert!(notices.is_sorted_by(|one, next| one.hash < next.hash), "INV-EXP-1: a hash keeps one notice");
    for group in notices.chunks(GROUP) {
        pace.yield_to_workers(false);
        session.enter(session.now_ms());
        prefetch(session, group.iter().map(|notice| notice.hash));
        group.iter().filter_map(|&notice| valid_notice(session, notice)).for_each(|notice| wheel.file(notice));
        session.leave();
    }
    notices.len()
}

/// The notice that a hash needs instead of the one that it has, if it needs one. An expiry that changes after this look has a
/// notice of its own in the feed, or one that comes up before it (INV-EXP-1).
fn valid_notice(session: &Session, notice: Notice) -> Option<Notice> {
    let (store, head, hash) = (&*session.store, session.local.head, notice.hash);
    let latch = store.index.lock_shared(hash);
    let mut cold = false;
    let found = store.index.find_latched(latch.number(), hash, |address| {
        if address < head {
            cold = true;
            return None;
        }
        // SAFETY: read from a latched bucket inside the epoch.
        let record = unsafe { store.log.record(address) };
        let header = record.header();
        (store.hash_of(record, header) == hash).then(|| store.first_due(record, header))
    });
    drop(latch);
    match found {
        Some((_, at_ms)) => at_ms.map(|at_ms| Notice { hash, at_ms }),
        None => cold.then_some(notice),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Fetcher, Missing, Need, NotSet, Options, Put, Stage, Storage, Store};
    use almandine_device::MemoryDevice;
    use std::sync::Arc;

    const NOW_MS: i64 = 1_000_000;
    const DAY_MS: i64 = 86_400_000;

    fn set(session: &mut Session, namespace: u16, name: &str, expiry_ms: Option<i64>) {
        let mut stage = Stage::default();
        loop {
            session.enter(NOW_MS);
            session.staging().attach(stage);
            let key = session.key(namespace, name.as_bytes());
            let done = session.upsert(key, b"value", Put { expiry_ms, ..Put::default() });
            stage = session.staging().detach();
            session.leave();
            match done {
                Ok(()) => return,
                done => assert_eq!(done, Err(NotSet::Missing(Missing::Cold))),
            }
            session.cold().stage_blocking(&mut session.cold().take_wanted(), &mut stage, &mut Fetcher::default());
        }
    }

    fn delete(session: &mut Session, namespace: u16, name: &str) {
        session.enter(NOW_MS);
        let key = session.key(namespace, name.as_bytes());
        assert_eq!(session.delete(key), Ok(true));
        session.leave();
    }

    /// Keys that come and go, or lose their expiry, leave no more notices behind than there are records.
    fn wheel_bytes_after_churn(storage: Option<Storage>) -> (Store, u16) {
        let tiered = storage.is_some();
        let options = Options { memory_bytes_max: 1 << 30, storage, background: false, ..Options::default() };
        let store = Store::open(options).expect("a store");
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut session = store.session().expect("a session");
        set(&mut session, namespace, "stays", Some(NOW_MS + DAY_MS));
        for round in 0..100 * STALE_SLACK as i64 {
            set(&mut session, namespace, "comes and goes", Some(NOW_MS + DAY_MS + round * 1_000));
            delete(&mut session, namespace, "comes and goes");
            set(&mut session, namespace, "persists", Some(NOW_MS + DAY_MS / 2 + round * 1_000));
            set(&mut session, namespace, "persists", None);
            if round % 64 == 0 {
                store.maintain(NOW_MS);
            }
        }
        store.maintain(NOW_MS);
        let bytes = store.figures().memory().expiry_bytes;
        assert!(bytes < 64 * STALE_SLACK as u64, "{bytes} bytes of notices for one key, tiered: {tiered}");
        (store, namespace)
    }

    #[test]
    fn the_wheel_does_not_grow_with_keys_that_come_and_go() {
        let device = || Arc::new(MemoryDevice::new());
        for storage in [None, Some(Storage { pages: device(), values: device(), ciphers: Arc::default() })] {
            let (store, namespace) = wheel_bytes_after_churn(storage);
            // And the one notice that counts is still there (INV-EXP-1).
            assert_eq!(store.figures().namespace_len(namespace), (2, 1));
            (0..3).for_each(|_| store.maintain(NOW_MS + 2 * DAY_MS));
            assert_eq!(store.figures().namespace_len(namespace), (1, 0));
        }
    }

    #[test]
    fn a_rebuilt_wheel_knows_the_keys_on_the_device() {
        let device = || Arc::new(MemoryDevice::new());
        let options = Options {
            memory_bytes_max: 1 << 30,
            storage: Some(Storage { pages: device(), values: device(), ciphers: Arc::default() }),
            background: false,
            ..Options::default()
        };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(16 << 20);
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut session = store.session().expect("a session");
        let cold = 1_000;
        for number in 0..cold {
            set(&mut session, namespace, &format!("cold:{number}"), Some(NOW_MS + DAY_MS));
        }
        for number in 0..300_000 {
            set(&mut session, namespace, &format!("filler:{number}"), None);
            if number % 1_000 == 0 {
                (0..4).for_each(|_| store.maintain(NOW_MS));
            }
        }
        for _ in 0..100 * STALE_SLACK {
            set(&mut session, namespace, "comes and goes", Some(NOW_MS + DAY_MS));
            delete(&mut session, namespace, "comes and goes");
        }
        session.enter(NOW_MS);
        let probed = session.cold().probe(session.key(namespace, b"cold:0"), Need::Read);
        session.leave();
        assert_eq!(probed, Err(Missing::Cold), "the key is on the device");
        store.maintain(NOW_MS);
        assert!(store.figures().memory().expiry_bytes < 64 * (STALE_SLACK + cold) as u64);
        (0..200).for_each(|_| store.maintain(NOW_MS + 2 * DAY_MS));
        assert_eq!(store.figures().namespace_len(namespace), (300_000, 0));
    }

    /// The most work of a step, the most bytes beside the wheel, and the sum of all work, of a rebuild of a wheel with this
    /// number of entries, of which one in ten is a key's.
    fn rebuild_of(entries: u64) -> (usize, usize, usize) {
        let store = Store::open(Options { memory_bytes_max: 1 << 30, background: false, ..Options::default() }).expect("a store");
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut session = store.session().expect("a session");
        let (mut wheel, mut pace) = (Wheel::new(), Pace::new(false));
        while wheel.take_due(NOW_MS, 1).is_some() {}
        for number in 0..entries {
            let (name, at_ms) = (format!("key:{number}"), NOW_MS + 1_000 + (number as i64 % 1_000) * 20_000);
            let hash = session.hash(namespace, name.as_bytes());
            if number % 10 == 0 {
                set(&mut session, namespace, &name, Some(at_ms));
            }
            wheel.file(Notice { hash, at_ms });
        }
        let (mut rebuild, mut most, mut bytes, mut all) = (Rebuild::default(), 0, 0, 0);
        loop {
            let work = rebuild.step(&mut session, &mut wheel, &mut pace);
            (most, bytes, all) = (most.max(work), bytes.max(rebuild.memory_bytes()), all + work);
            if work == 0 {
                break;
            }
        }
        assert_eq!(wheel.len() as u64, entries.div_ceil(10), "what is left is what keys need");
        (most, bytes, all)
    }

    #[test]
    fn a_step_of_a_rebuild_is_as_long_for_twice_as_many_keys() {
        let (most, bytes, all) = rebuild_of(1 << 18);
        let (most_twice, bytes_twice, all_twice) = rebuild_of(1 << 19);
        assert!(most <= 2 * WORK_PER_STEP && most_twice <= 2 * WORK_PER_STEP, "{most} {most_twice}");
        // Twice the look-ups; the walks through the wheel are twice as many, too, until there are enough parts.
        assert!(all_twice < all * 3, "{all} {all_twice}");
        // A part's entries at a time, and the spare room of vectors.
        assert!(bytes < 3 * PART * size_of::<Notice>() && bytes_twice < 3 * PART * size_of::<Notice>(), "{bytes} {bytes_twice}");
    }
}
