//! What has gone to the device since a base began: copied page by page, behind the walk through the index.
//!
//! A walk for a base names records that lie below an address and copies all others. One that has left memory since is not read by
//! itself: its page is noted, and when the last bucket has been passed, the noted pages are read whole, in the order of their
//! numbers. Each of their records leads to its key's entry, and under the latch of that bucket the key is copied as it is then:
//! from the page, if the entry still leads there, or from memory. An entry that leads to the device further on has that page noted
//! too: a record moves to the end of the log and nowhere else, so the walk meets it (INV-BASE-1). A key that changes meanwhile may
//! be copied twice; the later copy has the greater number.
//!
//! Where a page turns out to be damaged, the walk begins again and reads record by record: then it is known which keys are lost.

use super::Walk;
use crate::copying::records::Records;
use crate::index::Index;
use crate::log::{Log, PAGE_BYTES, PAGE_WORDS};
use crate::record::{Header, Record};
use crate::session::batch::Session;
use crate::shared::Shared;
use crate::tier::Tier;
use crate::tier::extent::Extent;
use crate::tier::page_image;
use crate::tier::pages::{PageRow, checksum};
use crate::tier::read::stage::{Lookup, Stage, Why};
use crate::tier::statistics::bump;
use almandine_base::object::Missing;
use almandine_base::step;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of a page that are looked at inside one epoch.
const RECORDS_PER_SLICE: usize = 128;
/// Bytes of large keys and values that are read together, unless one alone has more.
const LARGE_TOGETHER: usize = 1 << 20;

/// The pages that are to be read, and the one that was.
#[derive(Default)]
pub(super) struct Later {
    /// By their numbers. The rows are of a time when an entry led there: compaction may give a page up before it is read.
    pages: BTreeMap<u64, PageRow>,
    image: Option<Buffer>,
    /// The page in the image, and where its records are that were not looked at yet.
    page: u64,
    places: Vec<u32>,
    /// Records of the page with a key or a value on the value device, and the bytes of these.
    large: Vec<(u64, usize)>,
}

impl Later {
    /// Whether something was noted.
    pub(super) fn has_more(&self) -> bool {
        !(self.pages.is_empty() && self.places.is_empty() && self.large.is_empty())
    }

    /// Notes the page of a record on the device that a latched bucket leads to, if it lies above `below`.
    pub(super) fn note(&mut self, store: &Shared, below: u64, address: u64) -> bool {
        let page = Log::page_of(address);
        debug_assert!(page <= Log::page_of(store.log.head()), "INV-TIER-1: cold is what lies below the head");
        if address < below || self.pages.contains_key(&page) {
            return address >= below;
        }
        let row = store.tier.as_ref().and_then(|tier| tier.pages.row_of(page));
        row.is_some_and(|row| self.pages.insert(page, row).is_none())
    }
}

/// How the reading of a page went.
enum PageRead {
    Whole,
    Failed,
    Damaged,
}

/// Reads a page that had this row.
fn read(tier: &Tier, row: &PageRow, image: &mut Buffer) -> PageRead {
    debug_assert_eq!(row.sums.len(), PageRow::SUMS, "INV-TIER-3: a page has a checksum for each block");
    for _ in 0..2 {
        bump(&tier.counters.background_reads, 1);
        bump(&tier.counters.read_bytes, PAGE_BYTES as u64);
        if tier.storage.pages.read(row.page * PAGE_BYTES as u64, image).is_err() {
            bump(&tier.counters.read_errors, 1);
            return PageRead::Failed;
        }
        if image.chunks_exact(BLOCK_BYTES).zip(&row.sums).all(|(block, sum)| checksum(block) == *sum) {
            return if tier.decrypt(row.nonce, image) { PageRead::Whole } else { PageRead::Failed };
        }
    }
    PageRead::Damaged
}

impl Walk {
    /// Copies some records of the pages that were noted; false: those were all. The index has been walked through.
    pub(super) fn next_of_pages(&mut self, session: &mut Session, records: &mut Records) -> Result<bool, Missing> {
        let store = Arc::clone(&session.store);
        let Some((tier, later)) = store.tier.as_ref().zip(self.later.as_mut()) else { return Ok(false) };
        if !later.large.is_empty() {
            return self.large(session, tier, records);
        }
        if later.places.is_empty() {
            let Some((page, row)) = later.pages.pop_first() else { return Ok(false) };
            debug_assert!(page >= later.page, "INV-BASE-1: what moves goes forward");
            let image = later.image.get_or_insert_with(|| Buffer::new(PAGE_BYTES));
            match read(tier, &row, image) {
                PageRead::Whole => {}
                PageRead::Failed => {
                    later.pages.insert(page, row);
                    return Err(Missing::Unreadable);
                }
                PageRead::Damaged => {
                    self.begin_singly();
                    return Ok(true);
                }
            }
            later.page = page;
            page_image::walk(image, page, |address, _, _| later.places.push((address % PAGE_WORDS) as u32));
            later.places.reverse();
        }
        let now_ms = session.now_ms();
        session.enter(now_ms);
        self.slice_of_page(session, &store, records);
        session.leave();
        Ok(self.later.as_ref().is_some_and(Later::has_more))
    }

    /// The walk begins again, and reads what is on the device record by record.
    fn begin_singly(&mut self) {
        debug_assert!(self.ended, "INV-BASE-1: pages are read behind the last bucket");
        (self.position, self.ended, self.later, self.has_named) = (self.begin, false, None, true);
    }

    /// Looks at some records of the page.
    fn slice_of_page(&mut self, session: &Session, store: &Shared, records: &mut Records) {
        let Some(later) = &mut self.later else { return };
        let (Some(image), page) = (&mut later.image, later.page) else { return };
        let from = later.places.len().saturating_sub(RECORDS_PER_SLICE);
        debug_assert!(session.local.participant.is_inside(), "INV-FREE-1: a record is copied in the epoch in which it was found");
        let mut group = Vec::with_capacity(RECORDS_PER_SLICE);
        for place in later.places.drain(from..).rev() {
            let (address, record, header) = page_image::at(image, page, place as usize);
            if header.has(Header::HEAP_KEY) {
                later.large.push((address, large_bytes(record, header)));
                continue;
            }
            let hash = store.hash_of(record, header);
            store.index.prefetch(hash);
            group.push((address, record, header, hash));
        }
        for (address, record, header, hash) in group {
            let is_whole = !header.has(Header::HEAP_VALUE);
            let is_done = self.copy_newest(session, store, (address, record, header), (hash, is_whole), records);
            if let (false, Some(later)) = (is_done, &mut self.later) {
                later.large.push((address, large_bytes(record, header)));
            }
        }
    }

    /// Reads some records whole that have a large key or value, and looks at them.
    fn large(&mut self, session: &mut Session, tier: &Tier, records: &mut Records) -> Result<bool, Missing> {
        let store = Arc::clone(&session.store);
        let Some(later) = &mut self.later else { return Ok(false) };
        let mut bytes = 0;
        let together = later.large.iter().rev().take_while(|(_, more)| {
            bytes += more;
            bytes <= LARGE_TOGETHER
        });
        let from = later.large.len() - together.count().max(1);
        let addresses: Vec<u64> = later.large[from..].iter().map(|(address, _)| *address).collect();
        let mut stage = Stage::default();
        tier.stage_blocking(&mut stage, &mut addresses.clone(), Why::BACKGROUND, &mut self.fetcher);
        session.enter(session.now_ms());
        let mut is_damaged = false;
        let read = addresses.iter().try_for_each(|&address| match stage.get(address) {
            Lookup::Ready(record, header) => {
                let hash = store.hash_of(record, header);
                self.copy_newest(session, &store, (address, record, header), (hash, true), records);
                Ok(())
            }
            Lookup::Damaged => {
                is_damaged = true;
                Ok(())
            }
            Lookup::Failed | Lookup::Absent => Err(Missing::Unreadable),
        });
        session.leave();
        self.fetcher.reclaim(&mut stage);
        read?;
        if is_damaged {
            self.begin_singly();
            return Ok(true);
        }
        if let Some(later) = &mut self.later {
            later.large.truncate(from);
        }
        Ok(self.later.as_ref().is_some_and(Later::has_more))
    }

    /// Copies the key of a record of a page as it is now, if that is here or in memory. `is_whole`: the record has its value; in a
    /// page it may have a handle of the value device instead. False: it is to be read whole first.
    fn copy_newest(
        &mut self,
        session: &Session,
        store: &Shared,
        (address, record, header): (u64, Record, Header),
        (hash, is_whole): (u64, bool),
        records: &mut Records,
    ) -> bool {
        let position = hash.reverse_bits();
        let (namespace, head) = (header.namespace(), session.local.head);
        if position < self.begin || self.end != 0 && position >= self.end || !self.takes(store, namespace) {
            return true;
        }
        let latch = store.index.lock_shared(hash);
        debug_assert_eq!(latch.number(), Index::bucket_of(hash, store.index.len()), "INV-INDEX-1: a latched bucket keeps its keys");
        let (later, below, key) = (&mut self.later, self.below, store.key_of(record, header));
        let found = store.index.find_latched(latch.number(), hash, |candidate| {
            if candidate == address {
                return Some((record, header));
            }
            if candidate < head {
                // Of this key or of another one: that shows when its page is read.
                if let Some(later) = later.as_mut().filter(|later| Log::page_of(candidate) > later.page) {
                    let _ = step!(FollowMoved, later.note(store, below, candidate), else false);
                }
                return None;
            }
            // SAFETY: read from a latched bucket inside the epoch.
            let resident = unsafe { store.log.record(candidate) };
            let of = resident.header();
            (of.namespace() == namespace && store.key_of(resident, of) == key).then_some((resident, of))
        });
        let Some((entry, (record, header))) = found else { return true };
        if entry.entry().address() == address && !is_whole {
            return false;
        }
        self.record(store, self.begin, (record, header, entry.entry().heat()), records);
        true
    }
}

/// Bytes on the value device of a page's record.
fn large_bytes(record: Record, header: Header) -> usize {
    let mut bytes = 0;
    if header.has(Header::HEAP_KEY) {
        bytes += Extent::from_word(record.key_handle()).bytes();
    }
    if header.has(Header::HEAP_VALUE) {
        bytes += Extent::from_word(record.value_handle(header)).bytes();
    }
    debug_assert!(bytes != 0, "INV-TIER-3: a large field has its extent");
    bytes
}
