//! The background's part: evicting ahead of need, keeping the ghosts in size, ageing records at rest, and finding what expires
//! soonest.

use super::pace::Pace;
use crate::evict::heat::HeatRule;
use crate::evict::{AGE_MAX, EvictionOrder, JUST_USED, idle};
use crate::expiry::feed::Notice;
use crate::expiry::wheel::{Soonest, Wheel};
use crate::record::Header;
use crate::session::Session;
use crate::session::heat::evict::evict;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buckets per burst of eviction.
const BURST_BUCKETS: u64 = 256;
/// Bursts per step, before other work gets its turn.
const BURSTS_PER_STEP: u64 = 64;
/// Excess, as one part in this number of the budget, above which the background does not rest between bursts.
const HURRY_SHARE: u64 = 100;
/// Keys that are held ready in the order of expiry.
const SOONEST_READY: usize = 4096;
/// Keys whose expiry is looked up for that in one epoch, and in one step.
const LOOK_UPS_PER_EPOCH: usize = 128;
const LOOK_UPS_PER_STEP: usize = 1 << 18;
/// Milliseconds of a lap at rest in a small index, and by frequency.
const LAP_MS: i64 = 4_000;
/// Parts of the budget after each of which all records age while a cache fills.
const FILL_STEPS: u64 = 4;
/// Buckets per step of ageing, at most. Steps are a tenth of a second apart at rest.
const REST_BUCKETS: u64 = 2048;

/// The background's place in a lap at rest.
pub(crate) struct Ageing {
    next: u64,
    lap_start_ms: i64,
    levels: [bool; idle::LEVELS],
    /// How far the budget was used when the last lap began, in [`FILL_STEPS`].
    filled: u64,
}

impl Ageing {
    pub(crate) fn new() -> Self {
        Self { next: 0, lap_start_ms: idle::now_ms(), levels: [false, false, true], filled: 0 }
    }
}

/// Evicts until the budget has some room. Returns whether there is more to do.
pub(crate) fn evict_ahead(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace, now_ms: i64) -> bool {
    let store = Arc::clone(&session.store);
    let more = offer_soonest(session, wheel, pace, now_ms);
    let remembers = matches!(store.eviction_policy().order, EvictionOrder::Recency | EvictionOrder::Frequency);
    let wanted = store.wants_eviction_ahead();
    if wanted || !remembers {
        store.eviction.ghosts.follow(if remembers { store.counters.totals().live.max(0) as u64 } else { 0 });
    }
    if !wanted {
        return more;
    }
    for _ in 0..BURSTS_PER_STEP {
        let hurry = store.excess_bytes() > store.budget_bytes() / HURRY_SHARE;
        pace.yield_to_workers(hurry);
        session.enter(now_ms);
        evict(&store, &mut session.local, store.excess_bytes_ahead(), BURST_BUCKETS, !hurry);
        session.leave();
        if !store.wants_eviction_ahead() {
            break;
        }
    }
    session.surrender_free_space();
    store.refresh_over_limit();
    more || store.wants_eviction_ahead()
}

/// Keeps what expires soonest ready while the policy asks for it and memory is scarce; else takes the notices back. Returns
/// whether there is more to do.
fn offer_soonest(session: &mut Session, wheel: &mut Wheel, pace: &mut Pace, now_ms: i64) -> bool {
    let store = Arc::clone(&session.store);
    let ready = &store.eviction.soonest;
    if store.eviction_policy().order != EvictionOrder::Expiry || !store.is_near_limit() {
        while let Some(notice) = ready.pop() {
            wheel.file(notice);
        }
        return false;
    }
    let mut looked_up = 0;
    while ready.len() < SOONEST_READY {
        match wheel.pop_soonest() {
            Soonest::Known(notice) => ready.push(notice),
            Soonest::Nothing => break,
            Soonest::Unknown if looked_up >= LOOK_UPS_PER_STEP => return true,
            Soonest::Unknown => {
                // A cell may hold the keys of hours: they are looked up in many epochs, and in several steps.
                let hashes = wheel.take_first(LOOK_UPS_PER_EPOCH);
                looked_up += hashes.len();
                pace.yield_to_workers(false);
                session.enter(now_ms);
                hashes.iter().for_each(|&hash| session.prefetch_bucket(hash));
                hashes.iter().filter_map(|&hash| expiry_of(session, hash)).for_each(|notice| wheel.file_exact(notice));
                session.leave();
            }
        }
    }
    false
}

/// The expiry of the record with this hash.
fn expiry_of(session: &Session, hash: u64) -> Option<Notice> {
    let store = &*session.store;
    debug_assert_eq!(session.local.head, 0, "INV-TIER-1: where records are evicted all of them are in memory");
    let latch = store.index.lock_shared(hash);
    let number = latch.number();
    let found = store.index.find_latched(number, hash, |address| {
        // SAFETY: read from a latched bucket inside the epoch.
        let record = unsafe { store.log.record(address) };
        let header = record.header();
        let same = header.has(Header::EXPIRY) && store.hash(header.namespace(), store.key_of(record, header)) == hash;
        if same { record.expiry(header) } else { None }
    });
    found.map(|(_, at_ms)| Notice { hash, at_ms })
}

/// Ages records while nothing needs to be evicted, so that idle times and frequencies follow time.
/// Returns whether there is more to do at once.
pub(crate) fn age_at_rest(session: &mut Session, ageing: &mut Ageing) -> bool {
    let store = Arc::clone(&session.store);
    let rule = HeatRule::from_bits(store.eviction.heat_rule.load(Ordering::Relaxed));
    let lap_ms = match rule {
        // With a device its compactor cools records, so that warm ones can be told.
        _ if store.tier.is_some() => return false,
        HeatRule::Off | HeatRule::Uses => return false,
        HeatRule::Recency => LAP_MS,
        HeatRule::Frequency => store.eviction.decay_ms(),
    };
    let now_ms = idle::now_ms();
    // While a cache fills, laps follow the filling, so that the first that are evicted are told from those in use.
    let filled = if rule == HeatRule::Recency { store.filled(FILL_STEPS) } else { 0 };
    if ageing.next == 0 && filled > ageing.filled && !store.eviction.is_pressed() {
        ageing.lap_start_ms = now_ms;
        ageing.levels = [true; idle::LEVELS];
        ageing.filled = filled;
    } else if ageing.next == 0 {
        ageing.filled = filled;
        if lap_ms == 0 || now_ms - ageing.lap_start_ms < lap_ms {
            return false;
        }
        ageing.lap_start_ms = now_ms;
        ageing.levels = store.eviction.idle.calm_lap();
    }
    let len = store.index.len();
    let end = (ageing.next + REST_BUCKETS).min(len);
    session.enter(session.now_ms());
    for number in ageing.next.min(end)..end {
        store.index.visit(number, |position, entry| {
            let heat = entry.heat();
            let cools = match rule {
                HeatRule::Frequency => heat > 0,
                _ => (1..=AGE_MAX).contains(&(heat & AGE_MAX)) && ageing.levels[(heat & AGE_MAX) as usize - 1],
            };
            debug_assert!(heat <= JUST_USED, "heat stays in its bits");
            if cools {
                position.set_heat(entry, heat - 1);
            }
        });
    }
    session.leave();
    ageing.next = if end == len { 0 } else { end };
    if ageing.next == 0 && rule == HeatRule::Recency {
        store.eviction.idle.lap_ended(&ageing.levels);
    }
    ageing.next != 0 && ageing.levels[0] && filled != 0
}
