//! Pages that leave memory: what of them stays as a copy, or moves to the tail.

use crate::background::compact::evacuate::move_record;
use crate::background::pace::Pace;
use crate::log::{Log, PageState};
use crate::record::Header;
use crate::session::Session;
use crate::session::cold::copies::{copy_to_cache, is_warm};
use crate::session::found::Found;
use crate::shared::Shared;
use crate::tier::CopyReads;
use std::sync::Arc;

/// Records between two looks at the clock.
const GROUP: usize = 64;
/// Records of a page that are looked at to learn whether any is warm.
const SAMPLE: usize = 96;

/// Prepares a page of cached copies, or a flushed one, to leave memory: what is warm is copied, entries that point to
/// other copies go back to their originals.
pub(in crate::background) fn empty_of_copies(session: &mut Session, page: u64, pace: &mut Pace) {
    let store = Arc::clone(&session.store);
    let cached = store.log.pages.state(page) == PageState::Cache;
    let Some(tier) = &store.tier else { return };
    let mut live = Vec::new();
    session.enter(session.now_ms());
    // SAFETY: the page leaves memory only after this, on this thread; the epoch is held.
    unsafe { store.log.walk_page(page, |address, _, _| live.push(address)) };
    let all_evicted = tier.emptying.includes(page);
    if !cached && (all_evicted || tier.copy_reads() == CopyReads::None || !any_warm(&store, &live)) {
        session.leave();
        return;
    }
    session.leave();
    // At most half of a page stays, so that there is always more room afterwards than before.
    let mut stay = if all_evicted { 0 } else { live.len() / 2 };
    for group in live.chunks(GROUP) {
        pace.yield_to_workers(true);
        session.enter(session.now_ms());
        for &address in group {
            stay -= usize::from(evict_record(session, &store, address, cached, stay != 0));
        }
        session.leave();
    }
}

fn any_warm(store: &Shared, live: &[u64]) -> bool {
    let step = (live.len() / SAMPLE).max(1);
    let heat = store.tier.as_ref().map_or(u64::MAX, |tier| tier.admission.heat());
    live.iter().step_by(step).any(|&address| {
        // SAFETY: as in the caller.
        let record = unsafe { store.log.record(address) };
        let header = record.header();
        !header.has(Header::DEAD) && is_warm(store, store.hash_of(record, header), address, heat)
    })
}

/// Lets one record leave memory; whether a copy of it stayed.
fn evict_record(session: &mut Session, store: &Shared, address: u64, cached: bool, may_stay: bool) -> bool {
    // SAFETY: as in the caller.
    let record = unsafe { store.log.record(address) };
    let header = record.header();
    if header.has(Header::DEAD) {
        return false;
    }
    let hash = store.hash_of(record, header);
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    let mut stayed = false;
    if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
        let header = record.header();
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: an entry leads to a live record");
        debug_assert_eq!(header.has(Header::CACHED), cached, "INV-TIER-2: copies are on pages of their own");
        let original = if cached { record.original(header) } else { address };
        let heat = store.tier.as_ref().map_or(u64::MAX, |tier| tier.admission.heat());
        let warm = position.entry().heat() >= heat && !header.has(Header::HEAP_KEY);
        if may_stay && warm {
            stayed = copy_to_cache(store, &mut session.local, &Found { number, hash, position, record, header }, original);
            position.cool();
        }
        if cached && !stayed {
            position.point_to(store.index.tag(number, hash), original);
        }
    }
    stayed
}

/// Moves all live records of a closed page to the tail. False if the log had no room for all of them.
pub(in crate::background) fn empty_page(session: &mut Session, page: u64, pace: &mut Pace) -> bool {
    let store = Arc::clone(&session.store);
    let mut live = Vec::new();
    session.enter(session.now_ms());
    // SAFETY: a closed page is released only by the flusher, which is what runs this.
    unsafe { store.log.walk_page(page, |address, _, _| live.push(address)) };
    session.leave();
    for group in live.chunks(GROUP) {
        pace.yield_to_workers(true);
        session.enter(session.now_ms());
        for &address in group {
            move_record(session, &store, address);
        }
        session.leave();
    }
    let mut left = 0;
    // SAFETY: as above.
    unsafe { store.log.walk_page(page, |_, _, _| left += 1) };
    debug_assert!(left != 0 || store.log.pages.state(page) == PageState::Closing, "INV-TIER-1: what is emptied was closed");
    debug_assert!(Log::page_of(store.log.read_only()) > page, "INV-TIER-1: what leaves is read-only");
    left == 0
}
