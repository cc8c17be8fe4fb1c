//! The sweep: a session takes buckets from the hand, cools their entries, and removes those that are cold.
//!
//! Cooling is a compare-and-swap on the entry without any latch: another change of the entry meanwhile wins. A victim is looked
//! up again under its bucket's latch. Work per call is bounded in buckets; no thread waits for another.

use crate::evict::{AGE_MAX, EvictionOrder, EvictionPolicy, PROVEN};
use crate::expiry::feed::Notice;
use crate::index::entry::Entry;
use crate::record::{Header, Record, WORD};
use crate::session::found::Found;
use crate::session::remove::unlink;
use crate::session::thread_state::{self, QUANTUM_BYTES_MAX, ThreadState};
use crate::session::view::View;
use crate::shared::Shared;
use std::ops::Range;

/// Buckets taken from the hand at once.
const GROUP: u64 = 8;
/// By frequency, an entry cools down once in this number of passes,
const COOLING_CHANCE: u64 = 10;
/// and always when this number of entries in a row were no victims.
const PATIENCE: u64 = 64;
/// With fewer than one volatile key in this number, heat does not protect them from policies for volatile keys.
const SCARCE: i64 = 64;
/// Least bytes that a call tries to free.
const GOAL_BYTES_MIN: u64 = 2 * QUANTUM_BYTES_MAX;
/// Buckets that a session passes in one call while the budget is barely exceeded.
const CALL_BUCKETS: u64 = 1024;

/// What one call looks for.
struct Search {
    policy: EvictionPolicy,
    /// Whether heat counts.
    any_heat: bool,
    /// Entries since the last victim.
    in_vain: u64,
}

/// Looks at the budget after having allocated, and makes room if it is exceeded. Inside the epoch, without
/// latches.
#[cold]
pub(crate) fn make_room(store: &Shared, local: &mut ThreadState) {
    let allocated = std::mem::take(&mut local.allocated.words) as u64 * WORD as u64;
    local.allocated.quantum_words = thread_state::quantum_words(store.budget_bytes());
    let excess = store.excess_bytes();
    if excess > 0 && !store.consumers.copying.is_full() && store.eviction_policy().order != EvictionOrder::Never {
        let budget = store.budget_bytes().max(1);
        // The further beyond the budget, the more buckets: half a per cent doubles the effort.
        let effort = (excess.saturating_mul(200) / budget).min(6);
        let goal = excess.min(GOAL_BYTES_MIN.max(2 * allocated));
        evict(store, local, goal, CALL_BUCKETS << effort, effort < 2);
    }
    if store.wants_eviction_ahead() {
        store.background.waker.wake();
    }
    store.refresh_over_limit();
}

/// Evicts until `goal` bytes are free or `buckets` buckets were passed. Returns the bytes freed. Inside the epoch, without
/// latches. `in_order`: rather find nothing than what is not next in the order of expiry.
pub(crate) fn evict(store: &Shared, local: &mut ThreadState, goal: u64, buckets: u64, in_order: bool) -> u64 {
    let policy = store.eviction_policy();
    let mut freed = 0;
    if policy.order == EvictionOrder::Expiry {
        while freed < goal
            && let Some(notice) = store.eviction.soonest.pop()
        {
            freed += evict_noticed(store, local, notice);
        }
        if in_order {
            return freed;
        }
    }
    debug_assert!(store.tier.is_none() || policy.order == EvictionOrder::Never, "with a device nothing is evicted");
    let totals = store.counters.totals();
    let scarce = policy.volatile_only && totals.volatile.saturating_mul(SCARCE) < totals.live;
    let any_heat = scarce || matches!(policy.order, EvictionOrder::Random | EvictionOrder::Expiry);
    let mut search = Search { policy, any_heat, in_vain: 0 };
    let (mut passed, mut next) = (0, None);
    while freed < goal && passed < buckets && policy.order != EvictionOrder::Never {
        let len = store.index.len();
        let range = match policy.order {
            EvictionOrder::Random => random_range(next.take(), len, || local.heat.random()),
            _ => store.eviction.take_range(len, GROUP),
        };
        passed += range.end - range.start;
        let before = freed;
        freed += evict_in(store, local, &mut search, range.clone());
        // Or the few that may go in a sparse index would be met by luck only.
        next = (freed == before).then_some(range.end);
        if freed == before {
            store.eviction.passed_in_vain(range.end - range.start);
        }
    }
    freed
}

/// A random bucket, or those that follow the ones where nothing was found, from the first on behind the last.
fn random_range(next: Option<u64>, len: u64, random: impl FnOnce() -> u64) -> Range<u64> {
    match next {
        None => {
            let number = random() % len;
            number..number + 1
        }
        Some(next) if next < len => next..len.min(next + GROUP),
        Some(_) => 0..GROUP.min(len),
    }
}

fn evict_in(store: &Shared, local: &mut ThreadState, search: &mut Search, range: Range<u64>) -> u64 {
    let mut victims = std::mem::take(&mut local.victims);
    victims.clear();
    range.clone().for_each(|number| store.index.prefetch_bucket(number));
    for number in range {
        store.index.visit(number, |position, entry| {
            let (victim, cooler) = search.judge(entry, || local.heat.random());
            if victim {
                store.log.prefetch(entry.address());
                victims.push((number, entry));
            }
            if let Some(heat) = cooler {
                position.set_heat(entry, heat);
            }
        });
    }
    let one_only = search.policy.order == EvictionOrder::Random;
    if one_only && !victims.is_empty() {
        // The first that may go, from a random one on.
        let first = local.heat.random() as usize % victims.len();
        victims.rotate_left(first);
    }
    let mut freed = 0;
    for &(number, entry) in &victims {
        freed += evict_entry(store, local, search.policy, number, entry);
        if one_only && freed != 0 {
            break;
        }
    }
    local.victims = victims;
    freed
}

/// Removes the record of `entry` unless it was moved, used or is not to be evicted. Returns its bytes.
fn evict_entry(store: &Shared, local: &mut ThreadState, policy: EvictionPolicy, number: u64, entry: Entry) -> u64 {
    debug_assert_eq!(local.head, 0, "INV-TIER-1: where records are evicted all of them are in memory");
    let _latch = store.index.latch(number);
    let mut freed = 0;
    if number >= store.index.len() || store.is_kept_out(local) {
        // The index has shrunk since: the bucket's entries are in another one.
        return 0;
    }
    if let Some(position) = store.index.find_any(number, |address| address == entry.address())
        && position.entry().heat() == entry.heat()
    {
        // SAFETY: read from a latched bucket inside the epoch.
        let record = unsafe { store.log.record(entry.address()) };
        let header = record.header();
        if !policy.volatile_only || header.has(Header::EXPIRY) {
            freed = memory_bytes(record, header);
            let hash = store.hash(header.namespace(), store.key_of(record, header));
            count_eviction(store, local, &Found { number, hash, position, record, header }, policy.order);
            unlink(store, local, number, position, record, header);
            store.end_unit(local);
        }
    }
    freed
}

fn count_eviction(store: &Shared, local: &mut ThreadState, found: &Found<'_>, order: EvictionOrder) {
    let Found { hash, position, record, header, .. } = *found;
    debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: an entry leads to a live record");
    if store.namespaces.is_dropped(header.namespace()) {
        return;
    }
    if record.is_expired(header, local.now_ms) {
        store.note_expired(local, record, header);
    } else {
        store.note_evicted(local, record, header);
    }
    store.eviction.evicted(hash, position.entry().heat(), order);
}

/// Evicts the record that a notice is about, unless it has been given more time. Returns its bytes.
fn evict_noticed(store: &Shared, local: &mut ThreadState, notice: Notice) -> u64 {
    debug_assert_eq!(local.head, 0, "INV-TIER-1: where records are evicted all of them are in memory");
    let latch = store.index.lock_exclusive(notice.hash);
    let number = latch.number();
    let found = store.index.find_latched(number, notice.hash, |address| {
        // SAFETY: read from a latched bucket inside the epoch.
        let record = unsafe { store.log.record(address) };
        let header = record.header();
        let same = header.has(Header::EXPIRY) && store.hash(header.namespace(), store.key_of(record, header)) == notice.hash;
        same.then_some((record, header))
    });
    let mut freed = 0;
    if let Some((position, (record, header))) = found {
        match record.expiry(header) {
            Some(at_ms) if at_ms > notice.at_ms || store.is_kept_out(local) => {
                // Its notice is used up, so it needs another (INV-EXP-1).
                store.expiry.feed.push(local.thread, Notice { hash: notice.hash, at_ms });
            }
            _ => {
                freed = memory_bytes(record, header);
                let found = Found { number, hash: notice.hash, position, record, header };
                count_eviction(store, local, &found, store.eviction_policy().order);
                unlink(store, local, number, position, record, header);
                store.end_unit(local);
            }
        }
    }
    freed
}

impl Search {
    /// Whether the entry is evicted, else what it cools down to.
    fn judge(&mut self, entry: Entry, random: impl FnOnce() -> u64) -> (bool, Option<u64>) {
        debug_assert_ne!(entry, Entry::EMPTY, "INV-INDEX-3: nothing is evicted where nothing is");
        let heat = entry.heat();
        let by_frequency = self.policy.order == EvictionOrder::Frequency;
        let cold = if by_frequency { heat == 0 } else { heat & AGE_MAX == 0 };
        if self.any_heat || cold {
            self.in_vain = 0;
            return (true, None);
        }
        self.in_vain += 1;
        let cools = !by_frequency || self.in_vain > PATIENCE || random().is_multiple_of(COOLING_CHANCE);
        (false, cools.then_some(heat - 1))
    }
}

const _: () = assert!(PROVEN > AGE_MAX, "cooling by one leaves the mark alone while the age is not 0");

fn memory_bytes(record: Record, header: Header) -> u64 {
    View::latched(record, header).memory_bytes() as u64
}
