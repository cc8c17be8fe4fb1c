//! Removal: how a record leaves the index, and what becomes of its space.

use super::allocate::{drop_heap_key, drop_heap_value, retire};
use crate::counters::add;
use crate::index::Position;
use crate::log::Log;
use crate::namespace::NO_NAMESPACE;
use crate::record::heap;
use crate::record::{Header, Record};
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use crate::tier::pages::{DevicePages, PageInfo};
use crate::tier::statistics::bump;

/// Takes a key's record out of its latched bucket and gives its space up.
pub(crate) fn unlink(store: &Shared, local: &mut ThreadState, number: u64, position: Position<'_>, record: Record, header: Header) {
    uncount(store, local, header);
    drop_latched(store, local, number, position, record, header);
}

/// What is known of a record that is damaged on the device.
#[derive(Clone, Copy)]
pub(crate) enum Damaged {
    /// The record can be read, but not all that it refers to.
    Refers(Record, Header),
    /// A verb on a key of this namespace has met it. It has the key's tag, so it is taken for one of the namespace where its
    /// page does not tell.
    Met(u16),
    /// Nothing, but for what its page tells.
    Unknown,
}

/// Takes an entry out of its latched bucket whose record on the device is damaged, and notes that (INV-EFFECT-1). Do not call
/// this for a record that the device has not given: another time it may. If nothing tells whose the record was, the counts are
/// too high until their namespace is emptied.
pub(crate) fn drop_lost(store: &Shared, local: &mut ThreadState, number: u64, position: Position<'_>, damaged: Damaged) {
    let Some(tier) = &store.tier else { return };
    let address = position.entry().address();
    debug_assert!(address < local.head, "INV-TIER-1: only what is on the device can be lost");
    store.index.remove(number, position);
    tier.pages.count_dead_typical(address);
    bump(&tier.counters.records_lost, 1);
    let info = tier.pages.info(Log::page_of(address)).filter(|info| info.namespace() != PageInfo::MIXED);
    let of_page = info.and_then(|info| u16::try_from(info.namespace()).ok());
    let (namespace, volatile) = match damaged {
        Damaged::Refers(_, header) => (header.namespace(), header.has(Header::EXPIRY)),
        Damaged::Met(namespace) => (of_page.unwrap_or(namespace), info.is_some_and(PageInfo::all_expire)),
        Damaged::Unknown => (of_page.unwrap_or(NO_NAMESPACE), info.is_some_and(PageInfo::all_expire)),
    };
    if namespace != NO_NAMESPACE && store.namespaces.is_dropped(namespace) {
        return;
    }
    if namespace != NO_NAMESPACE {
        count_live(store, local, namespace, -1, -i64::from(volatile));
    }
    match damaged {
        Damaged::Refers(record, header) if !header.has(Header::HEAP_KEY) => store.note_damaged(local, record, header),
        _ => store.note_lost(local, namespace),
    }
}

/// Gives up the space of a record that the index no longer reaches: in memory, on the device, or both.
pub(super) fn discard(store: &Shared, local: &mut ThreadState, address: u64, record: Record, header: Header, key_moved: bool) {
    if let Some(tier) = &store.tier {
        let words = weight(store, record, header);
        debug_assert!(words != 0, "INV-LOG-2: a record has words");
        if header.has(Header::CACHED) {
            tier.pages.count_dead(record.original(header), words - 1);
        } else {
            tier.pages.count_dead(address, words);
        }
        if address < local.head {
            return;
        }
    }
    drop_heap_value(store, local, record, header);
    if !key_moved {
        drop_heap_key(store, local, record, header);
    }
    retire(store, local, address, record, header);
}

/// Words that a record in memory or staged takes on the devices.
pub(crate) fn weight(store: &Shared, record: Record, header: Header) -> u32 {
    let key = header.has(Header::HEAP_KEY).then(|| store.key_of(record, header).len());
    // SAFETY: the record's bucket is latched, or it is staged; either way it has its reference.
    let value = header.has(Header::HEAP_VALUE).then(|| unsafe { heap::value(record.value_handle(header)) }.device_bytes());
    DevicePages::weight(header.units(), [key, value])
}

/// Counts a record as gone.
pub(crate) fn uncount(store: &Shared, local: &ThreadState, header: Header) {
    count_live(store, local, header.namespace(), -1, -i64::from(header.has(Header::EXPIRY)));
}

/// Gives up the memory of a cached copy that the index no longer reaches; its original is accounted for by the caller.
pub(crate) fn discard_copy(store: &Shared, local: &mut ThreadState, address: u64, record: Record, header: Header) {
    debug_assert!(header.has(Header::CACHED), "INV-TIER-2: what dies alone is a copy");
    drop_heap_value(store, local, record, header);
    retire(store, local, address, record, header);
}

/// As [`unlink`], for a record that counts no more: nothing is counted.
pub(crate) fn drop_latched(
    store: &Shared,
    local: &mut ThreadState,
    number: u64,
    position: Position<'_>,
    record: Record,
    header: Header,
) {
    let address = position.entry().address();
    store.index.remove(number, position);
    discard(store, local, address, record, header, false);
}

/// Counts live records of a namespace, and those of them with an expiry, up or down.
pub(crate) fn count_live(store: &Shared, local: &ThreadState, namespace: u16, live: i64, volatile: i64) {
    debug_assert!(live.abs() <= 1 && volatile.abs() <= 1, "INV-EXP-1: keys are counted one by one as they come and go");
    let counters = store.thread(local);
    let [records, with_expiry] = store.counters.namespace(local.thread, namespace);
    if live != 0 {
        add(&counters.live, live);
        add(records, live);
    }
    if volatile != 0 {
        add(&counters.volatile, volatile);
        add(with_expiry, volatile);
    }
}
