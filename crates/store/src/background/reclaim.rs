//! Reclaiming: what the wheel brings up is looked at; due records are removed, others are filed anew.

use super::pace::Pace;
use crate::expiry::feed::Notice;
use crate::expiry::wheel::Wheel;
use crate::index::Index;
use crate::session::Session;
use crate::session::remove::unlink;
use std::sync::Arc;

/// Keys whose buckets and records are fetched together.
const GROUP: usize = 32;
/// Hashes that one step looks at, before other work gets its turn: a cell of the wheel may hold the keys of hours.
const HASHES_PER_STEP: usize = 1 << 16;
/// Stale entries that the wheel may hold beyond its live ones before it is rebuilt, at most,
const STALE_SLACK: usize = if cfg!(test) { 1 << 8 } else { 1 << 20 };
/// and as one part in this number of the budget, but not fewer than these.
const STALE_SHARE: usize = 512;
const STALE_SLACK_MIN: usize = if cfg!(test) { STALE_SLACK } else { 1 << 10 };

/// Handles what is due at `now_ms`. The session is not inside a batch. Returns whether there is more than a step does.
pub(crate) fn reclaim_expired(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace, now_ms: i64) -> bool {
    let mut left = HASHES_PER_STEP;
    while left != 0 {
        let Some(hashes) = wheel.take_due(now_ms, left) else { return false };
        debug_assert!(hashes.len() <= left, "other work gets its turn after a step's hashes");
        left -= hashes.len();
        for group in hashes.chunks(GROUP) {
            pace.yield_to_workers(false);
            session.enter(now_ms);
            prefetch(session, group.iter().copied());
            for &hash in group {
                reclaim_one(session, wheel, hash);
            }
            session.leave();
        }
        session.surrender_free_space();
    }
    true
}

/// Removes the expired records of this hash; files the others with an expiry anew.
fn reclaim_one(session: &mut Session, wheel: &mut Wheel, hash: u64) {
    let now_ms = session.local.now_ms;
    let store = Arc::clone(&session.store);
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    debug_assert_eq!(Index::bucket_of(hash, store.index.len()), number);
    let (mut known, mut elements) = (false, Vec::new());
    loop {
        elements.clear();
        let mut refile = None;
        let head = session.local.head;
        let mut cold = false;
        let due = store.index.find_latched(number, hash, |address| {
            if address < head {
                cold = true;
                return None;
            }
            // SAFETY: read from a latched bucket inside the epoch.
            let record = unsafe { store.log.record(address) };
            let header = record.header();
            if store.hash_of(record, header) != hash {
                return None;
            }
            known = true;
            if record.is_expired(header, now_ms) {
                return Some((record, header));
            }
            match store.next_due(record, header) {
                // Looked up again below: the key's latch is another one than this walk's.
                Some(due) if due <= now_ms => elements.push((header.namespace(), store.key_of(record, header).to_vec())),
                due => refile = [refile, record.expiry(header), due].into_iter().flatten().min(),
            }
            None
        });
        match due {
            Some((position, (record, header))) => {
                debug_assert!(record.is_expired(header, now_ms), "INV-EXP-1: only what is due is removed");
                store.note_expired(&mut session.local, record, header);
                unlink(&store, &mut session.local, number, position, record, header);
            }
            None => {
                if let Some(at_ms) = refile {
                    debug_assert!(at_ms > now_ms, "INV-EXP-1: what is filed anew is not due");
                    wheel.file(Notice { hash, at_ms });
                }
                if cold
                    && !known
                    && let Some(tier) = &store.tier
                {
                    tier.is_due_cold(hash);
                }
                break;
            }
        }
    }
    drop(latch);
    for (namespace, key) in elements {
        let key = session.key(namespace, &key);
        // Looking at it removes them.
        drop(session.entry_of_elements(key));
    }
}

/// Rebuilds the wheel when most of its entries are stale. A hash keeps one notice: at its record's expiry if the record is in
/// memory, else the first of those that it has. It keeps none if no entry can be its own.
pub(crate) fn rebuild_wheel(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace) {
    let volatile = session.store.counters.totals().volatile.max(0) as usize;
    let slack = match session.store.budget_bytes() {
        0 => STALE_SLACK,
        budget => (budget as usize / (STALE_SHARE * size_of::<u64>())).clamp(STALE_SLACK_MIN, STALE_SLACK),
    };
    if wheel.len() < (2 * volatile + slack).max(2 * wheel.kept()) {
        return;
    }
    for mut part in wheel.drain() {
        part.sort_unstable_by_key(|notice| (notice.hash, notice.at_ms));
        part.dedup_by_key(|notice| notice.hash);
        for group in part.chunks(GROUP) {
            pace.yield_to_workers(false);
            session.enter(session.local.now_ms);
            prefetch(session, group.iter().map(|notice| notice.hash));
            group.iter().filter_map(|&notice| valid_notice(session, notice)).for_each(|notice| wheel.file(notice));
            session.leave();
        }
    }
    wheel.keep();
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

/// Asks the cache for the records of some hashes.
fn prefetch(session: &Session, hashes: impl Iterator<Item = u64> + Clone) {
    hashes.clone().for_each(|hash| session.prefetch_bucket(hash));
    hashes.filter(|&hash| !session.prefetch_record(hash)).for_each(|hash| session.prefetch_overflow(hash));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Fetcher, Met, Need, Options, Put, Session, Stage, Storage, Store};
    use almandine_device::MemoryDevice;
    use std::sync::Arc;

    const NOW_MS: i64 = 1_000_000;
    const DAY_MS: i64 = 86_400_000;

    fn set(session: &mut Session, namespace: u16, name: &str, expiry_ms: Option<i64>) {
        let (mut stage, mut wanted) = (Stage::default(), Vec::new());
        loop {
            session.enter(NOW_MS);
            session.attach(stage);
            let key = session.key(namespace, name.as_bytes());
            let done = session.upsert(key, b"value", Put { expiry_ms, ..Put::default() });
            assert!(done.is_ok() || session.has_missed());
            let met = session.take_met_cold(&mut wanted);
            stage = session.detach();
            session.leave();
            if met == Met::Nothing {
                return;
            }
            session.stage_blocking(&mut wanted, &mut stage, &mut Fetcher::default());
        }
    }

    fn delete(session: &mut Session, namespace: u16, name: &str) {
        session.enter(NOW_MS);
        let key = session.key(namespace, name.as_bytes());
        assert!(session.delete(key));
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
        for round in 0..100 * super::STALE_SLACK as i64 {
            set(&mut session, namespace, "comes and goes", Some(NOW_MS + DAY_MS + round * 1_000));
            delete(&mut session, namespace, "comes and goes");
            set(&mut session, namespace, "persists", Some(NOW_MS + DAY_MS / 2 + round * 1_000));
            set(&mut session, namespace, "persists", None);
            if round % 64 == 0 {
                store.maintain(NOW_MS);
            }
        }
        store.maintain(NOW_MS);
        let bytes = store.memory().expiry_bytes;
        assert!(bytes < 64 * super::STALE_SLACK as u64, "{bytes} bytes of notices for one key, tiered: {tiered}");
        (store, namespace)
    }

    #[test]
    fn the_wheel_does_not_grow_with_keys_that_come_and_go() {
        let device = || Arc::new(MemoryDevice::new());
        for storage in [None, Some(Storage { pages: device(), values: device() })] {
            let (store, namespace) = wheel_bytes_after_churn(storage);
            // And the one notice that counts is still there (INV-EXP-1).
            assert_eq!(store.namespace_len(namespace), (2, 1));
            (0..3).for_each(|_| store.maintain(NOW_MS + 2 * DAY_MS));
            assert_eq!(store.namespace_len(namespace), (1, 0));
        }
    }

    #[test]
    fn a_rebuilt_wheel_knows_the_keys_on_the_device() {
        let device = || Arc::new(MemoryDevice::new());
        let options = Options {
            memory_bytes_max: 1 << 30,
            storage: Some(Storage { pages: device(), values: device() }),
            background: false,
            ..Options::default()
        };
        let store = Store::open(options).expect("a store");
        store.set_budget(16 << 20);
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
        for _ in 0..100 * super::STALE_SLACK {
            set(&mut session, namespace, "comes and goes", Some(NOW_MS + DAY_MS));
            delete(&mut session, namespace, "comes and goes");
        }
        session.enter(NOW_MS);
        let (mut wanted, name) = (Vec::new(), b"cold:0");
        assert!(session.probe(session.key(namespace, name), Need::Read, &mut wanted));
        session.leave();
        assert!(!wanted.is_empty(), "the key is on the device");
        store.maintain(NOW_MS);
        assert!(store.memory().expiry_bytes < 64 * (super::STALE_SLACK + cold) as u64);
        (0..200).for_each(|_| store.maintain(NOW_MS + 2 * DAY_MS));
        assert_eq!(store.namespace_len(namespace), (300_000, 0));
    }
}
