//! Cached copies: warm records of the device in memory, in pages of their own.
//!
//! A cached record carries the address of its original, and the key's index entry points to the copy. Reads find it like any
//! record; a change of the key writes a new record, which makes copy and original garbage. When its page leaves memory a
//! copy that is still warm is copied again; for the others the entry is pointed back to the original.

use crate::counters::add;
use crate::index::entry::Entry;
use crate::record::heap;
use crate::record::{Header, Record};
use crate::session::allocate;
use crate::session::found::Found;
use crate::session::remove::weight;
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use crate::tier::CopyReads;
use crate::tier::read::stage::{Lookup, Stage};
use crate::tier::statistics::bump;

/// Keeps copies of the staged records that are warm enough. Inside a batch, holding no latch.
pub(crate) fn keep_warm(store: &Shared, local: &mut ThreadState, stage: &Stage) {
    if let Some(tier) = &store.tier {
        keep(store, local, stage, tier.admission.heat());
    }
}

/// The same, of those that have at least this heat.
pub(crate) fn keep(store: &Shared, local: &mut ThreadState, stage: &Stage, heat: u64) {
    let Some(tier) = &store.tier else { return };
    debug_assert!(local.held.is_empty(), "INV-LATCH-3: who latches one bucket after the other has no lock plan");
    let mode = tier.copy_reads();
    if mode == CopyReads::None || tier.is_overfull(store.log.pages.resident()) {
        return;
    }
    for address in stage.addresses() {
        let Lookup::Ready(record, header) = stage.get(address) else { continue };
        if header.has(Header::HEAP_KEY) || record.is_expired(header, local.now_ms) {
            continue;
        }
        // A batch keeps its stage while it waits. What was emptied meanwhile would outlive the sweep, which may have been here.
        if store.namespaces.is_dropped(header.namespace()) {
            continue;
        }
        let hash = store.hash_of(record, header);
        if mode == CopyReads::ReadCache && !is_warm(store, hash, address, heat) {
            continue;
        }
        let latch = store.index.lock_exclusive(hash);
        let number = latch.number();
        // If it was replaced since it was read, the entry points elsewhere.
        if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
            let found = Found { number, hash, position, record, header };
            match mode {
                CopyReads::Tail => copy_to_tail(store, local, &found),
                _ => {
                    copy_to_cache(store, local, &found, address);
                }
            }
        }
        drop(latch);
    }
}

/// Writes a new original at the tail and points the entry there.
fn copy_to_tail(store: &Shared, local: &mut ThreadState, found: &Found<'_>) {
    let (record, header, address) = (found.record, found.header, found.address());
    let Ok((target, got)) = allocate::allocate(store, local, Record::packed_units(header, false)) else { return };
    // SAFETY: freshly allocated space of at least the record's size.
    let copy = unsafe { store.log.record(target) };
    record.copy_as_original(header, copy, got);
    own_heap_value(store, local, record, header, copy);
    debug_assert!(target > address, "INV-TIER-2: a record moves upwards, where the newest are");
    found.position.point_to(store.index.tag(found.number, found.hash), target);
    if let Some(tier) = &store.tier {
        tier.pages.count_dead(address, weight(store, record, header));
        bump(&tier.counters.records_cached, 1);
    }
}

/// Points the entry to a cached copy. False when there is no room for one.
pub(crate) fn copy_to_cache(store: &Shared, local: &mut ThreadState, found: &Found<'_>, original: u64) -> bool {
    let (record, header) = (found.record, found.header);
    let units = Record::packed_units(header, true);
    debug_assert!(store.index.bucket(found.number).is_latched_exclusively(), "INV-LATCH-1: who moves a record holds the latch");
    debug_assert!(!header.has(Header::HEAP_KEY) && !header.has(Header::DEAD), "INV-TIER-2: a copy is one of a readable record");
    let Some(target) = allocate::allocate_cached(store, local, units) else { return false };
    // SAFETY: freshly allocated space of the copy's size.
    let copy = unsafe { store.log.record(target) };
    record.copy_as_cached(header, copy, units, original);
    own_heap_value(store, local, record, header, copy);
    found.position.point_to(store.index.tag(found.number, found.hash), target);
    if let Some(tier) = &store.tier {
        bump(&tier.counters.records_cached, 1);
    }
    true
}

/// Gives a copy its own reference to the heap value.
fn own_heap_value(store: &Shared, local: &ThreadState, record: Record, header: Header, copy: Record) {
    if header.has(Header::HEAP_VALUE) {
        // SAFETY: the bucket latch is held (or the record is staged and ours), so the record has its reference.
        let value = unsafe { heap::share(record.value_handle(header)) };
        add(&store.thread(local).heap_bytes, value.memory_bytes() as i64);
        copy.set_value_handle(copy.header(), heap::into_handle(value, store.background.garbage.outliving()));
    }
}

/// Whether the entry of a record has at least this heat. Without a latch: a hint.
pub(crate) fn is_warm(store: &Shared, hash: u64, address: u64, least: u64) -> bool {
    let entered = store.index.begin_read(hash);
    let found = store.index.find_optimistic(entered, |_, entry: Entry| (entry.address() == address).then(|| entry.heat()));
    matches!(found, Ok(Some(heat)) if heat >= least)
}
