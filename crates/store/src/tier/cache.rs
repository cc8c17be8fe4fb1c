//! Cached copies: warm records of the device in memory, in pages of their own.
//!
//! A cached record carries the address of its original, and the key's index entry points to the copy. Reads find it like any
//! record; whoever changes the key writes a new record, which makes copy and original garbage. When its page leaves memory a
//! copy that is still warm is copied again; for the others the entry is pointed back to the original.

use super::CopyReads;
use super::stage::{Lookup, Stage};
use crate::counters::add;
use crate::heap;
use crate::index::Position;
use crate::index::entry::Entry;
use crate::log::{Log, PageState};
use crate::pace::Pace;
use crate::record::{Header, Record};
use crate::session::{Key, Session, allocate};
use crate::store::Inner;
use crate::tier::bump;
use std::sync::Arc;

/// Records between two looks at the clock.
const GROUP: usize = 64;
/// Records of a page that are looked at to learn whether any is warm.
const SAMPLE: usize = 96;

impl Session {
    /// Keeps copies of the staged records that are warm enough. Inside a batch, holding no latch.
    pub(crate) fn keep_warm(&mut self, stage: &Stage) {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return };
        let mode = tier.copy_reads();
        if mode == CopyReads::None || tier.is_overfull(store.log.pages.resident()) {
            return;
        }
        for address in stage.addresses() {
            let Lookup::Ready(record, header) = stage.get(address) else { continue };
            if header.has(Header::HEAP_KEY) || header.is_tombstone() || record.is_expired(header, self.local.now_ms) {
                continue;
            }
            // A batch keeps its stage while it waits. What was emptied meanwhile would outlive the sweep, which may have been here.
            if store.namespaces.is_condemned(header.namespace()) {
                continue;
            }
            let hash = store.hash_of(record, header);
            if mode == CopyReads::ReadCache && !is_warm(&store, hash, address, tier.admission.heat()) {
                continue;
            }
            let number = store.index.lock(hash, true);
            if self.is_newest(&store, stage, number, hash, address, (record, header))
                && let Some(position) = store.index.find_any(number, |candidate| candidate == address)
            {
                match mode {
                    CopyReads::Tail => self.copy_to_tail(&store, number, hash, position, address, record, header),
                    _ => {
                        self.copy_to_cache(&store, number, hash, position, record, header, address);
                    }
                }
            }
            store.index.bucket(number).unlock_exclusive();
        }
    }

    /// Whether no entry in the latched bucket is, or may be, a newer record of the staged record's key. A copy of an older one
    /// would outrank the newer (INV-TIER-2).
    fn is_newest(
        &self,
        store: &Inner,
        stage: &Stage,
        number: u64,
        hash: u64,
        address: u64,
        (record, header): (Record, Header),
    ) -> bool {
        let key = Key { namespace: header.namespace(), bytes: store.key_of(record, header), hash };
        let newer = store.index.find_latched(number, hash, |other| {
            let may_be_newer = match stage.get(other) {
                _ if other >= self.local.head => store.match_record(other, &key).is_some(),
                _ if other <= address => false,
                Lookup::Ready(record, header) => store.matches_key(record, header, &key),
                Lookup::Failed | Lookup::Absent => true,
            };
            may_be_newer.then_some(())
        });
        newer.is_none()
    }

    #[expect(clippy::too_many_arguments, reason = "what the caller has looked up under its latch")]
    fn copy_to_tail(
        &mut self,
        store: &Inner,
        number: u64,
        hash: u64,
        position: Position<'_>,
        address: u64,
        record: Record,
        header: Header,
    ) {
        let Ok((target, got)) = allocate::allocate(store, &mut self.local, Record::packed_units(header, false)) else { return };
        // SAFETY: freshly allocated space of at least the record's size.
        let copy = unsafe { store.log.record(target) };
        record.copy_as_original(header, copy, got);
        self.own_heap_value(store, record, header, copy);
        position.point_to(store.index.tag(number, hash), target);
        if let Some(tier) = &store.tier {
            tier.pages.count_dead(address, crate::session::remove::weight(store, record, header));
            bump(&tier.counters.records_cached, 1);
        }
    }

    /// Points the entry to a cached copy. False when there is no room for one.
    #[expect(clippy::too_many_arguments, reason = "what the caller has looked up under its latch")]
    fn copy_to_cache(
        &mut self,
        store: &Inner,
        number: u64,
        hash: u64,
        position: Position<'_>,
        record: Record,
        header: Header,
        original: u64,
    ) -> bool {
        let units = Record::packed_units(header, true);
        let Some(target) = allocate::allocate_cached(store, &mut self.local, units) else { return false };
        // SAFETY: freshly allocated space of the copy's size.
        let copy = unsafe { store.log.record(target) };
        record.copy_as_cached(header, copy, units, original);
        self.own_heap_value(store, record, header, copy);
        position.point_to(store.index.tag(number, hash), target);
        if let Some(tier) = &store.tier {
            bump(&tier.counters.records_cached, 1);
        }
        true
    }

    /// Gives a copy its own reference to the heap value.
    fn own_heap_value(&self, store: &Inner, record: Record, header: Header, copy: Record) {
        if header.has(Header::HEAP_VALUE) {
            // SAFETY: the bucket latch is held (or the record is staged and ours), so the record has its reference.
            let value = unsafe { heap::share(record.value_handle(header)) };
            add(&store.thread(&self.local).heap_bytes, value.memory_bytes() as i64);
            copy.set_value_handle(copy.header(), heap::into_handle(value));
        }
    }

    /// Prepares a page of cached copies, or a flushed one, to leave memory: what is warm is copied, entries that point to
    /// other copies go back to their originals.
    pub(super) fn empty_of_copies(&mut self, page: u64, pace: &mut Pace) {
        let store = Arc::clone(&self.store);
        let cached = store.log.pages.state(page) == PageState::Cache;
        let Some(tier) = &store.tier else { return };
        let mut live = Vec::new();
        self.enter(self.now_ms());
        // SAFETY: the page leaves memory only after this, on this thread; the epoch is held.
        unsafe { store.log.walk_page(page, |address, _, _| live.push(address)) };
        let all_leave = tier.emptying.includes(page);
        if !cached && (all_leave || tier.copy_reads() == CopyReads::None || !self.any_warm(&store, &live)) {
            self.leave();
            return;
        }
        self.leave();
        // At most half of a page stays, so that there is always more room afterwards than before.
        let mut stay = if all_leave { 0 } else { live.len() / 2 };
        for group in live.chunks(GROUP) {
            pace.breathe(true);
            self.enter(self.now_ms());
            for &address in group {
                stay -= usize::from(self.leave_memory(&store, address, cached, stay != 0));
            }
            self.leave();
        }
    }

    fn any_warm(&self, store: &Inner, live: &[u64]) -> bool {
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
    fn leave_memory(&mut self, store: &Inner, address: u64, cached: bool, may_stay: bool) -> bool {
        // SAFETY: as in the caller.
        let record = unsafe { store.log.record(address) };
        let header = record.header();
        if header.has(Header::DEAD) {
            return false;
        }
        let hash = store.hash_of(record, header);
        let number = store.index.lock(hash, true);
        let mut stayed = false;
        if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
            let header = record.header();
            let original = if cached { record.original(header) } else { address };
            let heat = store.tier.as_ref().map_or(u64::MAX, |tier| tier.admission.heat());
            let warm = position.entry().heat() >= heat && !header.has(Header::HEAP_KEY) && !header.is_tombstone();
            if may_stay && warm {
                stayed = self.copy_to_cache(store, number, hash, position, record, header, original);
                position.cool();
            }
            if cached && !stayed {
                position.point_to(store.index.tag(number, hash), original);
            }
        }
        store.index.bucket(number).unlock_exclusive();
        stayed
    }

    /// Moves all live records of a closed page to the tail. False if the log had no room for all of them.
    pub(super) fn empty_page(&mut self, page: u64, pace: &mut Pace) -> bool {
        let store = Arc::clone(&self.store);
        let mut live = Vec::new();
        self.enter(self.now_ms());
        // SAFETY: a closed page is released only by the cascade, which is what runs this.
        unsafe { store.log.walk_page(page, |address, _, _| live.push(address)) };
        self.leave();
        for group in live.chunks(GROUP) {
            pace.breathe(true);
            self.enter(self.now_ms());
            for &address in group {
                crate::compact::move_record(self, &store, address);
            }
            self.leave();
        }
        let mut left = 0;
        // SAFETY: as above.
        unsafe { store.log.walk_page(page, |_, _, _| left += 1) };
        debug_assert!(left != 0 || store.log.pages.state(page) == PageState::Closing);
        debug_assert!(Log::page_of(store.log.read_only()) > page);
        left == 0
    }
}

/// Whether the entry of a record has at least this heat. Without a latch: a hint.
fn is_warm(store: &Inner, hash: u64, address: u64, least: u64) -> bool {
    let entered = store.index.begin_read(hash);
    let found = store.index.find_optimistic(entered, |_, entry: Entry| (entry.address() == address).then(|| entry.heat()));
    matches!(found, Ok(Some(heat)) if heat >= least)
}
