//! Reclaiming: what the wheel brings up is looked at; due records are removed, others are filed anew.

use super::pace::Pace;
use crate::expiry::feed::Notice;
use crate::expiry::wheel::Wheel;
use crate::index::Index;
use crate::record::Header;
use crate::session::Session;
use crate::session::remove::unlink;

/// Keys whose buckets and records are fetched together.
const GROUP: usize = 32;
/// Stale entries that the wheel may hold beyond its live ones before it is rebuilt.
const STALE_SLACK: usize = 1 << 20;

/// Handles everything that is due at `now_ms`. The session is not inside a batch.
pub(crate) fn reclaim_expired(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace, now_ms: i64) {
    while let Some(turn) = wheel.turn(now_ms) {
        for group in turn.hashes.chunks(GROUP) {
            pace.yield_to_workers(false);
            session.enter(now_ms);
            group.iter().for_each(|&hash| session.prefetch_bucket(hash));
            group.iter().filter(|&&hash| !session.prefetch_record(hash)).for_each(|&hash| session.prefetch_overflow(hash));
            for &hash in group {
                reclaim_one(session, wheel, hash);
            }
            session.leave();
        }
        session.surrender_free_space();
    }
}

/// Removes the expired records of this hash; files the others with an expiry anew.
fn reclaim_one(session: &mut Session, wheel: &mut Wheel, hash: u64) {
    let now_ms = session.local.now_ms;
    let store = std::sync::Arc::clone(&session.store);
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    debug_assert_eq!(Index::bucket_of(hash, store.index.len()), number);
    loop {
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
            if !header.has(Header::EXPIRY)
                || header.is_tombstone()
                || store.hash(header.namespace(), store.key_of(record, header)) != hash
            {
                return None;
            }
            if record.is_expired(header, now_ms) {
                return Some((record, header));
            }
            refile = record.expiry(header);
            None
        });
        match due {
            Some((position, (record, header))) => {
                store.note_expired(&session.local, record, header);
                unlink(&store, &mut session.local, number, position, record, header);
            }
            None => {
                if let Some(at_ms) = refile {
                    debug_assert!(at_ms > now_ms, "INV-EXP-1: what is filed anew is not due");
                    wheel.file(Notice { hash, at_ms });
                }
                if cold && let Some(tier) = &store.tier {
                    // The record may be on the device: the resolver looks, and files what is not due anew.
                    tier.ask(hash);
                }
                break;
            }
        }
    }
}

/// Rebuilds the wheel from the records when most of its entries are stale.
pub(crate) fn rebuild_wheel(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace) {
    let volatile = session.store.counters.totals().volatile.max(0) as usize;
    // With a device a rebuild would have to read records back; their notices come up one by one.
    if wheel.len() < 2 * volatile + STALE_SLACK || session.store.tier.is_some() {
        return;
    }
    wheel.clear();
    // Bucket by bucket, not page by page: a record that is moved meanwhile stays in its bucket, so none is missed. An expiry
    // that changes after the visit has a notice of its own in the feed, or keeps the one filed here (INV-EXP-1).
    let store = std::sync::Arc::clone(&session.store);
    let mut entries = Vec::with_capacity(GROUP);
    for number in 0..store.index.len() {
        pace.yield_to_workers(false);
        session.enter(session.local.now_ms);
        let latch = store.index.latch_shared(number);
        entries.clear();
        store.index.collect(number, &mut entries);
        for entry in &entries {
            // SAFETY: read from a latched bucket inside the epoch.
            let record = unsafe { store.log.record(entry.address()) };
            let header = record.header();
            if let Some(at_ms) = record.expiry(header) {
                wheel.file(Notice { hash: store.hash(header.namespace(), store.key_of(record, header)), at_ms });
            }
        }
        drop(latch);
        session.leave();
    }
}
