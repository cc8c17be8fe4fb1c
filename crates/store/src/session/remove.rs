//! Removal: how a record leaves the index, and what becomes of its space.
//!
//! With a device, entries of the same bucket may be older records of the same key that nobody has looked at. Removing the
//! newest would bring the older one back, so then a tombstone takes its place, until the resolver has looked (INV-TIER-2).

use super::allocate::{allocate, drop_heap_key, drop_heap_value, retire};
use super::local::Local;
use crate::counters::add;
use crate::heap::{self, HeapKey};
use crate::index::Position;
use crate::key::Key;
use crate::record::{Header, Kind, Record, Shape, WORD};
use crate::shared::Inner;
use crate::tier::pages::DevicePages;
use crate::tier::stage::Lookup;

/// Takes a key's record out of its latched bucket and gives its space up. Returns the entry of the tombstone, if one was needed.
pub(crate) fn unlink<'s>(
    store: &'s Inner,
    local: &mut Local,
    number: u64,
    position: Position<'s>,
    record: Record,
    header: Header,
) -> Option<Position<'s>> {
    count_live(store, local, header.namespace(), -1, -i64::from(header.has(Header::EXPIRY)));
    let address = position.entry().address();
    if local.head == 0 {
        store.index.remove(number, position);
        discard(store, local, address, record, header, false);
        return None;
    }
    unlink_among_cold(store, local, number, address, record, header)
}

fn unlink_among_cold<'s>(
    store: &'s Inner,
    local: &mut Local,
    number: u64,
    address: u64,
    record: Record,
    header: Header,
) -> Option<Position<'s>> {
    let hash = store.hash_of(record, header);
    let key = Key { namespace: header.namespace(), bytes: store.key_of(record, header), hash };
    let mut open = false;
    let mut older = Vec::new();
    let _ = store.index.find_latched(number, hash, |candidate| {
        if candidate < local.head && candidate != address {
            match local.cold.stage.get(candidate) {
                Lookup::Ready(record, header) if store.matches_key(record, header, &key) => older.push((candidate, record, header)),
                Lookup::Ready(..) => {}
                Lookup::Failed | Lookup::Absent => open = true,
            }
        }
        None::<()>
    });
    for (candidate, record, header) in older {
        // An overwrite that did not look has counted this one, too.
        if !header.is_tombstone() {
            count_live(store, local, header.namespace(), -1, -i64::from(header.has(Header::EXPIRY)));
        }
        if let Some(position) = store.index.find_any(number, |at| at == candidate) {
            store.index.remove(number, position);
            discard(store, local, candidate, record, header, false);
        }
    }
    let tombstone = if open { write_tombstone(store, local, key) } else { None };
    let position = store.index.find_any(number, |at| at == address)?;
    if let Some(tombstone) = tombstone {
        position.point_to(store.index.tag(number, hash), tombstone);
        discard(store, local, address, record, header, false);
        if let Some(tier) = &store.tier {
            tier.ask(hash);
        }
        return Some(position);
    }
    store.index.remove(number, position);
    discard(store, local, address, record, header, false);
    None
}

/// Writes a tombstone for a key. `None` when the log is full.
fn write_tombstone(store: &Inner, local: &mut Local, key: Key<'_>) -> Option<u64> {
    let long = key.bytes.len() > crate::record::INLINE_KEY_MAX;
    let flags = Header::EXPIRY | if long { Header::HEAP_KEY } else { 0 };
    let key_len = if long { WORD } else { key.bytes.len() };
    let shape = Shape { namespace: key.namespace, key_len, value_len: 0, flags, kind: Kind::String };
    let (address, got) = allocate(store, local, shape.units()).ok()?;
    // SAFETY: freshly allocated space that only this session knows.
    let record = unsafe { store.log.record(address) };
    let header = shape.header(got).as_tombstone();
    if long {
        add(&store.thread(local).heap_bytes, key.bytes.len() as i64);
        record.initialise(header, &HeapKey::into_handle(key.bytes).to_ne_bytes(), &[], Some(i64::MIN), None);
    } else {
        record.initialise(header, key.bytes, &[], Some(i64::MIN), None);
    }
    Some(address)
}

/// Gives the space of a tombstone up that a record has taken the place of.
pub(super) fn discard_tombstone(store: &Inner, local: &mut Local, address: u64) {
    if address >= local.head {
        // SAFETY: it was in the index until now, in memory, inside the epoch.
        let record = unsafe { store.log.record(address) };
        discard(store, local, address, record, record.header(), false);
    } else if let Lookup::Ready(record, header) = local.cold.stage.get(address) {
        discard(store, local, address, record, header, false);
    }
}

/// Gives up the space of a record that the index no longer reaches: in memory, on the device, or both.
pub(super) fn discard(store: &Inner, local: &mut Local, address: u64, record: Record, header: Header, key_moved: bool) {
    if let Some(tier) = &store.tier {
        let words = weight(store, record, header);
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
pub(crate) fn weight(store: &Inner, record: Record, header: Header) -> u32 {
    let key = header.has(Header::HEAP_KEY).then(|| store.key_of(record, header).len());
    // SAFETY: the record's bucket is latched, or it is staged; either way it has its reference.
    let value = header.has(Header::HEAP_VALUE).then(|| unsafe { heap::bytes(record.value_handle(header)) }.len());
    DevicePages::weight(header.units(), [key, value])
}

/// Counts a record as gone.
pub(crate) fn uncount(store: &Inner, local: &Local, header: Header) {
    count_live(store, local, header.namespace(), -1, -i64::from(header.has(Header::EXPIRY)));
}

/// Gives up the memory of a cached copy that the index no longer reaches; its original is accounted for by the caller.
pub(crate) fn discard_copy(store: &Inner, local: &mut Local, address: u64, record: Record, header: Header) {
    drop_heap_value(store, local, record, header);
    retire(store, local, address, record, header);
}

/// As [`unlink`], for one of several records of a key, or one that counts no more: nothing is counted.
pub(crate) fn drop_latched(store: &Inner, local: &mut Local, number: u64, position: Position<'_>, record: Record, header: Header) {
    let address = position.entry().address();
    store.index.remove(number, position);
    discard(store, local, address, record, header, false);
}

/// Counts live records of a namespace, and those of them with an expiry, up or down.
pub(crate) fn count_live(store: &Inner, local: &Local, namespace: u16, live: i64, volatile: i64) {
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
