//! Resolving: the resolver reads what sessions did not want to wait for.
//!
//! A key that was overwritten or removed without a look has entries on the device that may be older records of it; an expiry may
//! have come up for a record that only the device has. It stages all records that share the hash's tag, and then, under
//! the latch, drops the superseded and the expired ones, files the expiries of the others anew, and drops tombstones that have
//! nothing left to hide. What the device could not answer is asked again later (`retry`).

use super::retry::RetryQueue;
use crate::expiry::feed::Notice;
use crate::record::{Header, Record};
use crate::session::Session;
use crate::session::remove::{drop_latched, uncount, unlink};
use crate::shared::Inner;
use crate::tier::Tier;
use crate::tier::stage::{Fetcher, Lookup, Stage};
use crate::tier::statistics::bump;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Questions that are answered together.
const GROUP: usize = 64;

/// Outcome of resolving one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// All records were compared.
    Done,
    /// Some were not at hand.
    Pending,
    /// Some cannot be read.
    Unreadable,
}

/// A record that may be of the hash in question.
#[derive(Clone, Copy)]
struct Candidate {
    address: u64,
    record: Record,
    header: Header,
    cold: bool,
}

/// Publishes how much is in the retry queue.
fn note_retries(tier: &Tier, retries: &RetryQueue) {
    tier.blind.retries.store(retries.overwritten(), Ordering::Relaxed);
    tier.blind.retry_bytes.store(retries.memory_bytes(), Ordering::Relaxed);
}

/// Answers some of the open questions, or of those in the retry queue when they are due. Returns whether there may be more.
pub(super) fn resolve(session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, retries: &mut RetryQueue, now_ms: i64) -> bool {
    end_dropped(session, tier, retries);
    let again = retries.is_due(now_ms);
    let mut questions = Vec::with_capacity(GROUP);
    while questions.len() < GROUP
        && let Some(question) = if again { retries.pop() } else { tier.blind.questions.pop() }
    {
        questions.push(question);
    }
    if questions.is_empty() {
        return false;
    }
    let hashes: Vec<u64> = questions.iter().map(|question| question.hash).collect();
    let resolutions = resolve_hashes(session, tier, fetcher, now_ms, &hashes);
    if again {
        retries.asked(now_ms, resolutions.contains(&Resolution::Done));
    }
    for (question, resolution) in questions.into_iter().zip(resolutions) {
        match resolution {
            Resolution::Done => {
                tier.blind.unresolved.fetch_sub(question.overwritten.into(), Ordering::Relaxed);
            }
            // A record left memory between the look and the latch.
            Resolution::Pending => tier.blind.questions.push(question),
            // It stays open for as long as the device cannot say.
            Resolution::Unreadable => retries.keep(question, now_ms),
        }
    }
    note_retries(tier, retries);
    true
}

/// Ends the questions about namespaces that were emptied: their records are counted no more, readable or not.
fn end_dropped(session: &Session, tier: &Tier, retries: &mut RetryQueue) {
    if retries.is_empty() {
        return;
    }
    let swept = retries.swept(session.store.background.progress.namespaces_swept.load(Ordering::Relaxed));
    if swept || session.store.namespaces.any_dropped() {
        let ended = retries.end(|question| session.store.namespaces.is_dropped(question.namespace));
        tier.blind.unresolved.fetch_sub(ended, Ordering::Relaxed);
        note_retries(tier, retries);
    }
}

/// Resolves hashes.
pub(super) fn resolve_hashes(
    session: &mut Session,
    tier: &Tier,
    fetcher: &mut Fetcher,
    now_ms: i64,
    hashes: &[u64],
) -> Vec<Resolution> {
    let store = Arc::clone(&session.store);
    let mut wanted = Vec::new();
    session.enter(now_ms);
    let head = session.local.head;
    for &hash in hashes {
        let latch = store.index.lock_shared(hash);
        let number = latch.number();
        let _ = store.index.find_latched(number, hash, |address| {
            if address < head {
                wanted.push(address);
            }
            None::<()>
        });
        drop(latch);
    }
    session.leave();
    let mut stage = Stage::default();
    tier.stage_blocking(&mut stage, &mut wanted, true, fetcher);
    session.enter(now_ms);
    session.attach_quietly(stage);
    let resolutions = hashes.iter().map(|&hash| resolve_one(session, &store, tier, hash)).collect();
    let mut stage = session.detach_quietly();
    session.leave();
    fetcher.reclaim(&mut stage);
    resolutions
}

/// Settles the entries of one hash, with the stage attached.
fn resolve_one(session: &mut Session, store: &Inner, tier: &Tier, hash: u64) -> Resolution {
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    let (mut candidates, resolution) = candidates(session, store, number, hash);
    let open = resolution != Resolution::Done;
    // Newest first: what comes later of the same key is superseded.
    candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse((!candidate.cold, candidate.address)));
    let mut dropped = vec![false; candidates.len()];
    for newer in 0..candidates.len() {
        for older in newer + 1..candidates.len() {
            let (new, old) = (candidates[newer], candidates[older]);
            if !dropped[newer] && !dropped[older] && old.cold && same_key(store, new, old) {
                debug_assert!(!new.cold || new.address > old.address, "INV-TIER-2: the highest address counts");
                dropped[older] = true;
                bump(&tier.counters.overwrites_resolved, 1);
                drop_superseded(session, store, number, old);
            }
        }
    }
    for candidate in candidates.iter().zip(&dropped).filter(|(_, dropped)| !**dropped).map(|(candidate, _)| *candidate) {
        settle_newest(session, store, number, hash, candidate, open);
    }
    resolution
}

fn candidates(session: &Session, store: &Inner, number: u64, hash: u64) -> (Vec<Candidate>, Resolution) {
    let mut found = Vec::new();
    let mut resolution = Resolution::Done;
    let _ = store.index.find_latched(number, hash, |address| {
        if address >= session.local.head {
            // SAFETY: read from a latched bucket inside the epoch.
            let record = unsafe { store.log.record(address) };
            found.push(Candidate { address, record, header: record.header(), cold: false });
        } else {
            match session.staged(address) {
                Lookup::Ready(record, header) => found.push(Candidate { address, record, header, cold: true }),
                Lookup::Absent => resolution = Resolution::Pending,
                Lookup::Failed if resolution == Resolution::Done => resolution = Resolution::Unreadable,
                Lookup::Failed => {}
            }
        }
        None::<()>
    });
    (found, resolution)
}

fn drop_superseded(session: &mut Session, store: &Inner, number: u64, old: Candidate) {
    if let Some(position) = store.index.find_any(number, |address| address == old.address) {
        // What a sweep could not read it has taken off the counts all the same.
        if !old.header.is_tombstone() && !store.namespaces.is_dropped(old.header.namespace()) {
            uncount(store, &session.local, old.header);
        }
        drop_latched(store, &mut session.local, number, position, old.record, old.header);
    }
}

/// What becomes of the newest record of its key.
fn settle_newest(session: &mut Session, store: &Inner, number: u64, hash: u64, candidate: Candidate, open: bool) {
    let Candidate { address, record, header, .. } = candidate;
    let Some(position) = store.index.find_any(number, |at| at == address) else { return };
    if store.namespaces.is_dropped(header.namespace()) {
        if candidate.cold {
            drop_latched(store, &mut session.local, number, position, record, header);
        }
    } else if header.is_tombstone() {
        if !open {
            drop_latched(store, &mut session.local, number, position, record, header);
        }
    } else if !candidate.cold || open {
        // In memory the wheel has it. And while a record is not at hand that may be newer, this one is not to be removed: the
        // tombstone that would take its place would outrank that one (INV-TIER-2).
    } else if record.is_expired(header, session.now_ms()) {
        store.note_expired(&session.local, record, header);
        unlink(store, &mut session.local, number, position, record, header);
    } else if let Some(at_ms) = record.expiry(header)
        && store.hash_of(record, header) == hash
        && store.expiry.feed.push(session.local.thread, Notice { hash, at_ms })
    {
        store.background.waker.wake();
    }
}

fn same_key(store: &Inner, left: Candidate, right: Candidate) -> bool {
    left.header.namespace() == right.header.namespace()
        && store.key_of(left.record, left.header) == store.key_of(right.record, right.header)
}
