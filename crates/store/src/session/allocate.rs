//! Space for records: from freed pieces first, else from the session's chunk of the tail; and its way back.

use crate::counters::add;
use crate::failing;
use crate::free::REMAINDER_MIN;
use crate::full::Full;
use crate::log::{Chunk, Log, PAGE_WORDS};
use crate::record::heap;
use crate::record::{Header, Record, UNITS_MAX};
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use std::sync::atomic::Ordering;

/// Words of a chunk that are counted as taken together, so that memory in use does not grow by a whole chunk at once.
const COUNTED_WORDS: u64 = 512;
/// After this many new words the background is woken: it makes pages ready and grows the index before buckets overflow.
const WAKE_WORDS: u64 = PAGE_WORDS / 4;

/// Space for a record of `units` words: its address, and the words it got (sometimes a little more).
#[inline]
pub(crate) fn allocate(store: &Shared, local: &mut ThreadState, units: usize) -> Result<(u64, usize), Full> {
    debug_assert!((1..=UNITS_MAX).contains(&units), "INV-LOG-2: a record has words");
    debug_assert!(local.participant.is_inside(), "INV-FREE-1: space is taken and used within one epoch");
    if failing::allocation_fails() {
        return Err(Full);
    }
    local.allocated.words += units;
    if let Some((address, got)) = local.free.take(units, &store.log, &store.shared_free) {
        return Ok((address, reuse(store, local, address, got, units)));
    }
    if store.log.is_mutable(local.chunk.next)
        && let Some(address) = local.chunk.take(units)
    {
        return Ok((address, units));
    }
    allocate_uncounted(store, local, units)
}

/// Space from the part of the chunk that is not counted yet, else from a new one.
#[cold]
fn allocate_uncounted(store: &Shared, local: &mut ThreadState, units: usize) -> Result<(u64, usize), Full> {
    let missing = (units as u64).saturating_sub(local.chunk.rest());
    if missing <= local.chunk.uncounted && store.log.is_mutable(local.chunk.next) {
        count_chunk(store, local, missing.max(COUNTED_WORDS));
        return local.chunk.take(units).map(|address| (address, units)).ok_or(Full);
    }
    allocate_from_new_chunk(store, local, units)
}

/// Counts at most `words` more of the chunk as taken.
fn count_chunk(store: &Shared, local: &mut ThreadState, words: u64) {
    let words = words.min(local.chunk.uncounted);
    local.chunk.uncounted -= words;
    local.chunk.end += words;
    add(&store.thread(local).taken_words, words as i64);
}

fn reuse(store: &Shared, local: &mut ThreadState, address: u64, got: usize, units: usize) -> usize {
    debug_assert!(is_dead(store, address, got), "INV-FREE-1: only dead space is used again");
    debug_assert!(got >= units, "INV-FREE-1: a space that is used again is large enough");
    let rest = got - units;
    let used = if rest >= REMAINDER_MIN {
        // The remainder's header first: a page walk that still sees the whole piece skips both.
        write_dead(store, address + units as u64, rest);
        local.free.add(address + units as u64, rest);
        units
    } else {
        got
    };
    store.log.pages.count_free(local.thread, Log::page_of(address), -(used as i32));
    let counters = store.thread(local);
    add(&counters.free_words, -(used as i64));
    add(&counters.revivified, 1);
    used
}

fn allocate_from_new_chunk(store: &Shared, local: &mut ThreadState, units: usize) -> Result<(u64, usize), Full> {
    abandon_chunk(store, local);
    let chunk = store.log.take_chunk().ok_or(Full)?;
    store.threads.active_pages[local.thread].store(Log::page_of(chunk.next), Ordering::Release);
    if chunk.next % WAKE_WORDS == 0 {
        store.background.waker.wake();
        if let Some(tier) = &store.tier {
            tier.wakers.flusher.wake();
        }
    }
    store.refresh_over_limit();
    store.stall_above_ceiling();
    debug_assert!(chunk.rest() >= units as u64, "INV-LOG-2: a new chunk holds any record");
    debug_assert_eq!(local.chunk.rest() + local.chunk.uncounted, 0, "INV-LOG-2: the old chunk was used up or given back");
    local.chunk = Chunk { end: chunk.next, uncounted: chunk.rest(), ..chunk };
    count_chunk(store, local, COUNTED_WORDS.max(units as u64));
    local.chunk.take(units).map(|address| (address, units)).ok_or(Full)
}

/// Space for a cached copy of `units` words.
pub(crate) fn allocate_cached(store: &Shared, local: &mut ThreadState, units: usize) -> Option<u64> {
    debug_assert!(local.participant.is_inside(), "INV-TIER-1: a page does not leave memory under who writes into it");
    if store.log.is_mutable(local.cache_chunk.next)
        && let Some(address) = local.cache_chunk.take(units)
    {
        return Some(address);
    }
    local.cache_chunk = store.log.take_cache_chunk()?;
    if store.log.vacant_cache_page().is_some() {
        store.background.waker.wake();
    }
    if let Some(tier) = &store.tier {
        tier.wakers.flusher.wake();
    }
    local.cache_chunk.take(units)
}

/// Turns the unused rest of the session's chunk into free pieces.
pub(crate) fn abandon_chunk(store: &Shared, local: &mut ThreadState) {
    count_chunk(store, local, u64::MAX);
    if store.tier.is_some() && !store.log.is_mutable(local.chunk.next) {
        // The page was closed meanwhile: what is left of the chunk has gone with it, as zeroes.
        local.chunk = Chunk::default();
        return;
    }
    while local.chunk.rest() != 0 {
        let units = local.chunk.rest().min(UNITS_MAX as u64) as usize;
        let Some(address) = local.chunk.take(units) else { return };
        write_dead(store, address, units);
        count_dead(store, local, address, units);
        // No reader has ever seen this space, so it needs no limbo.
        local.free.add(address, units);
    }
}

fn is_dead(store: &Shared, address: u64, units: usize) -> bool {
    // SAFETY: the space was freed and belongs to this session.
    let header = unsafe { store.log.record(address) }.header();
    header.has(Header::DEAD) && header.units() == units
}

fn write_dead(store: &Shared, address: u64, units: usize) {
    debug_assert!((1..=UNITS_MAX).contains(&units), "INV-LOG-2: dead space leads to the next record, too");
    // SAFETY: the space belongs to this session.
    unsafe { store.log.record(address) }.set_header(Header::dead(units));
}

fn count_dead(store: &Shared, local: &ThreadState, address: u64, units: usize) {
    store.log.pages.count_free(local.thread, Log::page_of(address), units as i32);
    add(&store.thread(local).free_words, units as i64);
}

/// Declares a record dead that the index no longer reaches. Its heap value and key must have been taken out or moved.
pub(crate) fn retire(store: &Shared, local: &mut ThreadState, address: u64, record: Record, header: Header) {
    let units = header.units();
    debug_assert!(!header.has(Header::DEAD), "INV-FREE-1: a record dies once");
    debug_assert_eq!(record.header().units(), units, "INV-LOG-2: what dies keeps its length");
    record.set_header(Header::dead(units));
    // Pages of copies do not count as taken either.
    if !header.has(Header::CACHED) {
        count_dead(store, local, address, units);
    }
    local.free.retire(address, units);
}

/// Cuts a live record down to `units` words and retires the rest, if that is worth it.
pub(crate) fn trim(store: &Shared, local: &mut ThreadState, address: u64, record: Record, header: Header, units: usize) -> Header {
    debug_assert!(header.units() >= units, "INV-LOG-2: a record is cut within its space");
    let rest = header.units() - units;
    if rest < REMAINDER_MIN {
        return header;
    }
    let (expiry, etag) = (record.expiry(header), record.etag(header));
    debug_assert!(header.optional_words() == usize::from(expiry.is_some()) + usize::from(etag.is_some()));
    let smaller = record.shrink_optional(header, units, expiry, etag);
    write_dead(store, address + units as u64, rest);
    record.set_header(smaller);
    count_dead(store, local, address, rest);
    local.free.retire(address + units as u64, rest);
    smaller
}

/// Drops a record's heap value.
pub(crate) fn drop_heap_value(store: &Shared, local: &ThreadState, record: Record, header: Header) {
    if header.has(Header::HEAP_VALUE) {
        // SAFETY: the record is out of the index, so it gives its reference up.
        let value = unsafe { heap::from_handle(record.value_handle(header)) };
        release_heap_value(store, local, value);
    }
}

/// Lets go of a heap value; a large one is freed in the background.
pub(crate) fn release_heap_value(store: &Shared, local: &ThreadState, value: heap::SharedValue) {
    add(&store.thread(local).heap_bytes, -(value.memory_bytes() as i64));
    store.discard(value);
}

/// Frees a record's heap key once no reader can see it.
pub(crate) fn drop_heap_key(store: &Shared, local: &mut ThreadState, record: Record, header: Header) {
    if header.has(Header::HEAP_KEY) {
        let handle = record.key_handle();
        // SAFETY: read inside the epoch, before the key is given up.
        let bytes = unsafe { heap::HeapKey::bytes(handle) }.len();
        add(&store.thread(local).heap_bytes, -(bytes as i64));
        local.dead_keys.push(handle, bytes);
    }
}
