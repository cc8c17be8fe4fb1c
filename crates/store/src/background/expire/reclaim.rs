//! Reclaiming: what the wheel brings up is looked at; due records are removed, others are filed anew.

use crate::background::pace::Pace;
use crate::expiry::feed::Notice;
use crate::expiry::wheel::Wheel;
use crate::index::Index;
use crate::session::remove::unlink;
use crate::session::{Session, Slot};
use std::sync::Arc;

/// Keys whose buckets and records are fetched together.
pub(in crate::background) const GROUP: usize = 32;
/// Hashes that one step looks at, before other work gets its turn: a cell of the wheel may hold the keys of hours.
const HASHES_PER_STEP: usize = 1 << 16;

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
    if store.is_kept_out(&session.local) {
        wheel.file(Notice { hash, at_ms: now_ms + 1 });
        return;
    }
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
    store.end_unit(&mut session.local);
    drop(latch);
    for (namespace, key) in elements {
        let key = session.key(namespace, &key);
        // Looking at it removes them.
        if session.entry(key).map(Slot::expire_elements).is_err() {
            session.cold().take_wanted();
        }
    }
}

/// Asks the cache for the records of some hashes.
pub(in crate::background) fn prefetch(session: &Session, hashes: impl Iterator<Item = u64> + Clone) {
    hashes.clone().for_each(|hash| session.prefetch_bucket(hash));
    hashes.filter(|&hash| !session.prefetch_record(hash)).for_each(|hash| session.prefetch_overflow(hash));
}
