//! Compaction: space on the device is given back.
//!
//! When more of the device's pages is dead than allowed, the page with the most is read, its live records are moved to the tail,
//! and its space is discarded. A record is live if its key's entry points to it, or to a cached copy of it. Pages need not go in
//! order, so the best one is taken; what is read and written per byte won is the least there is.

pub(crate) mod compactor;
pub(crate) mod evacuate;
pub(crate) mod mixed;
pub(crate) mod salvage;

use super::pace::Pace;
use crate::background::compact::salvage::{Damaged, Progress, Salvage};
use crate::counters::add;
use crate::log::{Log, PAGE_BYTES, PAGE_WORDS};
use crate::record::heap::{self, HeapKey};
use crate::record::key::{GlanceId, Key};
use crate::record::{Header, Record};
use crate::session::found::Found;
use crate::session::remove::{discard_copy, drop_latched, unlink, weight};
use crate::session::{Session, allocate};
use crate::shared::Shared;
use crate::tier::extent::Extent;
use crate::tier::page_image;
use crate::tier::read::room::{Admitted, Room};
use crate::tier::read::stage::{Fetcher, Lookup, Stage, Why};
use crate::tier::statistics::bump;
use crate::tier::{STALL_PAGES, Tier};
use almandine_base::sometimes;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Space on the device, in pages, below which nothing is compacted, however much is dead.
const PAGES_MIN: u64 = 8;
/// Pages ahead of the tail whose places in the table are needed at once.
const URGENT_PAGES: u64 = 2 * STALL_PAGES;
/// Records per epoch.
const GROUP: usize = 64;
/// Bytes of heap objects that come into memory together to be moved, or one object.
const GROUP_BYTES: usize = 1 << 20;
/// Looks for room for a large value before it is moved without, and the time between two of them.
const ROOM_LOOKS: u32 = 200;
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// The state of compaction.
pub(super) struct Compaction {
    image: Buffer,
    /// Before this time, by the monotonic clock, the rate limit says to wait.
    not_before_ms: u64,
    /// Pages that cannot be emptied now, tried again when there is no other.
    stuck: Vec<u64>,
    damaged: Damaged,
    salvage: Option<Salvage>,
}

/// Outcome of compacting records. The greater one counts for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Nothing points to them any more.
    Done,
    /// Some do not have their checksums, or what they have on the value device does not.
    Damaged,
    /// The device did not give some, or there is no room to read them.
    Unreadable,
    /// Some could not be moved now.
    Stuck,
}

/// A record of an image: its address, and what it was when the image was made.
#[derive(Clone, Copy)]
pub(crate) struct Imaged {
    pub(crate) address: u64,
    pub(crate) record: Record,
    pub(crate) header: Header,
}

impl Imaged {
    /// Whether it has heap objects.
    pub(super) fn is_heavy(&self) -> bool {
        self.header.has(Header::HEAP_KEY) || self.header.has(Header::HEAP_VALUE)
    }
}

/// The extents of a record of an image.
pub(crate) fn extents_of(&Imaged { record, header, .. }: &Imaged) -> impl Iterator<Item = Extent> {
    let key = header.has(Header::HEAP_KEY).then(|| Extent::from_word(record.key_handle()));
    let value = header.has(Header::HEAP_VALUE).then(|| Extent::from_word(record.value_handle(header)));
    key.into_iter().chain(value)
}

/// Divides the records of an image into what is moved together.
pub(super) fn groups(mut records: &[Imaged]) -> impl Iterator<Item = &[Imaged]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |imaged: &&Imaged| {
            bytes += extents_of(imaged).map(Extent::bytes).sum::<usize>();
            bytes <= GROUP_BYTES
        };
        let len = records.iter().take(GROUP).take_while(fits).count().max(1);
        debug_assert!((1..=GROUP).contains(&len), "a group is bounded, and goes on");
        let (group, rest) = records.split_at_checked(len)?;
        records = rest;
        Some(group)
    })
}

impl Compaction {
    pub(super) fn new() -> Self {
        Self { image: Buffer::new(PAGE_BYTES), not_before_ms: 0, stuck: Vec::new(), damaged: Damaged::default(), salvage: None }
    }

    /// Whether the rate limit keeps it from going on at once.
    pub(super) fn is_held_back(&self) -> bool {
        clock::monotonic_ns() / 1_000_000 < self.not_before_ms
    }

    /// Compacts one page if there is one worth it, or goes on with the salvage of one. Returns whether it did.
    pub(super) fn step(&mut self, session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, pace: &mut Pace, now_ms: i64) -> bool {
        if self.salvage.is_some() {
            self.go_on_with_salvage(session, tier, fetcher, pace, now_ms);
            return true;
        }
        let clock_ms = clock::monotonic_ns() / 1_000_000;
        if clock_ms < self.not_before_ms {
            return false;
        }
        let head = Log::page_of(session.store.log.head());
        let Some(page) = self.choose(session, tier, head, now_ms) else { return false };
        debug_assert!(page < head, "INV-TIER-1: what is compacted is on the device only");
        let rate = tier.limits.compaction_rate.load(Ordering::Relaxed);
        self.not_before_ms = clock_ms + PAGE_BYTES as u64 * 1000 / rate;
        if self.damaged.is_hopeless(page) {
            if tier.space.retained.is_in_log(page) {
                // What is given up is so in the log, too. Until a base names the page a start has all of it.
                self.damaged.rest(page, now_ms);
                return true;
            }
            self.begin_salvage(session, tier, page, now_ms);
            return true;
        }
        match self.compact(session, tier, fetcher, page, now_ms) {
            Outcome::Done => {
                sometimes!("a page of the device is compacted");
                bump(&tier.counters.pages_compacted, 1);
            }
            Outcome::Stuck => self.stuck.push(page),
            Outcome::Damaged => {
                sometimes!("the compactor finds a damaged page");
                self.damaged.note(page, now_ms);
            }
            Outcome::Unreadable => self.damaged.rest(page, now_ms),
        }
        true
    }

    fn begin_salvage(&mut self, session: &Session, tier: &Tier, page: u64, now_ms: i64) {
        debug_assert!(self.salvage.is_none(), "one page is salvaged at a time");
        self.salvage = Salvage::begin(&session.store, tier, page, &mut self.image);
        if self.salvage.is_none() {
            self.damaged.rest(page, now_ms);
        }
    }

    fn go_on_with_salvage(&mut self, session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, pace: &mut Pace, now_ms: i64) {
        let Some(salvage) = &mut self.salvage else { return };
        let page = salvage.page;
        session.local.now_ms = now_ms;
        match salvage.step(session, tier, &mut self.image, fetcher, pace) {
            Progress::Sweeping => return,
            Progress::Stuck => self.stuck.push(page),
            Progress::Unreadable => self.damaged.rest(page, now_ms),
            Progress::Emptied => {
                self.damaged.forget(page);
                bump(&tier.counters.pages_salvaged, 1);
                let extents = salvage.extents(&mut self.image);
                give_up(tier, page, extents);
            }
        }
        self.salvage = None;
    }

    fn choose(&mut self, session: &Session, tier: &Tier, head: u64, now_ms: i64) -> Option<u64> {
        let (capacity, live) = tier.pages.words();
        let tail = session.store.log.tail_page();
        let share_of = |page: u64| tier.pages.info(page).map_or(0, |info| info.dead_words() * 1000 / info.capacity_words());
        let may_try = |page: &u64| !self.stuck.contains(page) && !self.damaged.is_resting(*page, now_ms);
        let urgent = |page: &u64| tier.pages.is_needed_by(*page, tail + URGENT_PAGES);
        let needed = |page: &u64| tier.pages.is_needed_by(*page, tail + tier.pages.margin().max(URGENT_PAGES));
        // Pages whose place in the table is needed soon go first, whatever is dead of them.
        let needed = || tier.pages.stored_pages(head, head).take_while(needed);
        let first = needed().find(|page| urgent(page) && !self.stuck.contains(page)).or_else(|| needed().find(may_try));
        let limit = capacity * tier.limits.garbage_max.load(Ordering::Relaxed) / 1000;
        let crowded = needed().next().is_some();
        let much_dead = capacity >= PAGES_MIN * PAGE_WORDS && capacity - live > limit;
        let chosen = first.or_else(|| {
            let candidates = || tier.pages.stored_pages(head, head).filter(|page| share_of(*page) > 100).filter(may_try);
            much_dead.then(|| candidates().max_by_key(|&page| share_of(page))).flatten()
        });
        if chosen.is_none() && (crowded || much_dead) {
            self.stuck.clear();
        }
        chosen
    }

    fn compact(&mut self, session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, page: u64, now_ms: i64) -> Outcome {
        bump(&tier.counters.background_reads, 1);
        bump(&tier.counters.read_bytes, PAGE_BYTES as u64);
        if tier.storage.pages.read(page * PAGE_BYTES as u64, &mut self.image).is_err() {
            bump(&tier.counters.read_errors, 1);
            return Outcome::Unreadable;
        }
        let Some(info) = tier.pages.info(page) else { return Outcome::Stuck };
        let damaged = self.image.chunks_exact(BLOCK_BYTES).enumerate().filter(|(at, block)| !info.is_intact(*at, block)).count();
        if damaged != 0 {
            bump(&tier.counters.corrupt_blocks, damaged as u64);
            return Outcome::Damaged;
        }
        let Some(nonce) = tier.pages.nonce(page) else { return Outcome::Stuck };
        if !tier.decrypt(nonce, &mut self.image) {
            return Outcome::Unreadable;
        }
        let mut records = Vec::new();
        page_image::walk(&mut self.image, page, |address, record, header| records.push(Imaged { address, record, header }));
        let mut outcome = Outcome::Done;
        for group in groups(&records) {
            outcome = outcome.max(compact_group(session, tier, fetcher, group, now_ms));
        }
        if outcome != Outcome::Done {
            return outcome;
        }
        let extents = if info.extent_blocks() == 0 { Vec::new() } else { page_image::extents(&mut self.image, page) };
        give_up(tier, page, extents);
        self.damaged.forget(page);
        Outcome::Done
    }
}

/// Gives up the space of a page that nothing points into.
fn give_up(tier: &Tier, page: u64, extents: Vec<Extent>) {
    debug_assert!(tier.pages.is_stored(page), "INV-TIER-3: what is given up was stored");
    debug_assert!(extents.iter().all(|extent| extent.blocks() != 0), "INV-TIER-3: an extent has blocks");
    tier.retire(page);
    if let Some(space) = tier.space.retained.keep(page, extents) {
        tier.free(space);
    }
}

/// Waits until there is room for the large values of some records. Not for long: space on the device may be needed for there to
/// be any.
fn await_room(store: &Shared, tier: &Tier, group: &[Imaged]) -> Option<Room> {
    let bytes = group.iter().flat_map(extents_of).map(Extent::bytes).sum::<usize>();
    if bytes <= GROUP_BYTES {
        return None;
    }
    for _ in 0..ROOM_LOOKS {
        match store.admit(tier, (bytes + bytes / 4) as u64, 0) {
            Admitted::Now(room) => return Some(room),
            Admitted::Never => return None,
            Admitted::Later if store.background.stop.load(Ordering::Acquire) => return None,
            Admitted::Later => thread::sleep(ROOM_LOOK),
        }
    }
    None
}

/// Lets go of some records of a page.
pub(super) fn compact_group(session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, group: &[Imaged], now_ms: i64) -> Outcome {
    // Records with heap objects are staged like those of a reader, which makes their handles whole.
    let mut addresses: Vec<u64> = group.iter().filter(|imaged| imaged.is_heavy()).map(|imaged| imaged.address).collect();
    let mut stage = Stage::default();
    let _room = await_room(&session.store, tier, group);
    tier.stage_blocking(&mut stage, &mut addresses, Why::BACKGROUND, fetcher);
    let whole: Vec<Imaged> = group
        .iter()
        .filter_map(|&imaged| match (imaged.is_heavy(), stage.get(imaged.address)) {
            (false, _) => Some(imaged),
            (true, Lookup::Ready(record, header)) => Some(Imaged { record, header, ..imaged }),
            (true, _) => None,
        })
        .collect();
    debug_assert!(whole.len() <= group.len(), "each record is moved once");
    let missing = |imaged: &&Imaged| imaged.is_heavy() && !matches!(stage.get(imaged.address), Lookup::Ready(..));
    let outcome_of = |imaged: &Imaged| match stage.get(imaged.address) {
        Lookup::Damaged => Outcome::Damaged,
        _ => Outcome::Unreadable,
    };
    let mut outcome = group.iter().filter(missing).map(outcome_of).max().unwrap_or(Outcome::Done);
    debug_assert_eq!(outcome == Outcome::Done, whole.len() == group.len(), "what is not whole is missing");
    session.enter(now_ms);
    let hashes: Vec<u64> = whole.iter().map(|whole| session.store.hash_of(whole.record, whole.header)).collect();
    hashes.iter().for_each(|&hash| session.prefetch_bucket(hash));
    for (whole, &hash) in whole.iter().zip(&hashes) {
        if !compact_one(session, tier, whole, hash) {
            outcome = Outcome::Stuck;
        }
    }
    session.leave();
    fetcher.reclaim(&mut stage);
    outcome
}

/// Lets go of one record of a page, which is alive if its key's entry points to it, or to a cached copy of it. False when it
/// has to stay.
fn compact_one(session: &mut Session, tier: &Tier, &Imaged { address, record, header }: &Imaged, hash: u64) -> bool {
    let store = Arc::clone(&session.store);
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    let head = session.local.head;
    debug_assert!(address < head, "INV-TIER-1: what is compacted is on the device only");
    debug_assert!(store.index.bucket(number).is_latched_exclusively(), "INV-LATCH-1: who moves a record holds the latch");
    let key = Key { namespace: header.namespace(), glance: GlanceId::default(), bytes: store.key_of(record, header), hash };
    let entry = store.index.find_latched(number, hash, |at| {
        if at == address {
            return Some((record, header));
        }
        let (copy, copy_header) = (at >= head).then(|| store.match_record(at, &key))??;
        (copy_header.has(Header::CACHED) && copy.original(copy_header) == address).then_some((copy, copy_header))
    });
    let Some((position, (record, header))) = entry else { return true };
    let found = Found { number, hash, position, record, header };
    if found.address() != address {
        return move_to_tail(session, &store, tier, &found, address);
    }
    if store.namespaces.is_dropped(header.namespace()) {
        // What a dropped namespace still counts is taken off the sums when its sweep ends, which may be over.
        drop_latched(&store, &mut session.local, number, position, record, header);
        return true;
    }
    if record.is_expired(header, session.now_ms()) && !session.holds_expiry() && !store.is_kept_out(&session.local) {
        store.note_expired(&mut session.local, record, header);
        unlink(&store, &mut session.local, number, position, record, header);
        store.end_unit(&mut session.local);
        return true;
    }
    move_to_tail(session, &store, tier, &found, address)
}

/// Writes the record whose original is at `address` anew at the tail, from its image or its cached copy, and points the entry
/// there. False when there is no room.
pub(super) fn move_to_tail(session: &mut Session, store: &Shared, tier: &Tier, found: &Found<'_>, address: u64) -> bool {
    let (from, from_header) = (found.record, found.header);
    let Ok((target, got)) = allocate::allocate(store, &mut session.local, Record::packed_units(from_header, false)) else {
        return false;
    };
    // SAFETY: freshly allocated space of at least the record's size.
    let copy = unsafe { store.log.record(target) };
    from.copy_as_original(from_header, copy, got);
    if from_header.has(Header::HEAP_VALUE) {
        // SAFETY: the record is staged, or cached and under its latch; either way it has its reference.
        let value = unsafe { heap::share(from.value_handle(from_header)) };
        add(&store.thread(&session.local).heap_bytes, value.memory_bytes() as i64);
        copy.set_value_handle(copy.header(), heap::into_handle(value, store.background.garbage.outliving()));
    }
    if from_header.has(Header::HEAP_KEY) {
        let key = store.key_of(from, from_header);
        add(&store.thread(&session.local).heap_bytes, key.len() as i64);
        copy.set_key_handle(HeapKey::into_handle(key));
    }
    let old = found.address();
    debug_assert!(target > address, "INV-TIER-2: a record moves upwards, where the newest are");
    found.position.point_to(store.index.tag(found.number, found.hash), target);
    debug_assert_eq!(found.address(), target, "INV-LOG-1: reachable before the original dies");
    if old != address {
        // The cached copy is garbage now.
        discard_copy(store, &mut session.local, old, from, from_header);
    }
    tier.pages.count_dead(address, weight(store, from, from_header));
    bump(&tier.counters.records_compacted, 1);
    true
}
