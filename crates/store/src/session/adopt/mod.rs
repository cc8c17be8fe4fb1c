//! Adopting what an earlier store has left on the device: entries that lead to its records, without a look at these.
//!
//! An entry of a base says where a record lies and as much of its key's hash as the index had known. What that does not tell,
//! the count of keys, their expiry, and which extents they have, a *survey* of those pages finds that have such.

mod damaged;

use super::batch::Session;
use crate::copying::records::ColdKey;
use crate::expiry::feed::Notice;
use crate::full::Full;
use crate::index::Index;
use crate::index::entry::Entry;
use crate::log::{Log, PAGE_BYTES};
use crate::record::{Header, Kind, Record};
use crate::session::remove::count_live;
use crate::tier::Tier;
use crate::tier::extent::Extent;
use crate::tier::page_image;
use crate::tier::pages::PageInfo;
use crate::tier::read::stage::{Fetcher, Lookup, Stage, Why};
use almandine_base::sometimes;
use almandine_io::storage::{BLOCK_BYTES, BatchRead, BatchReader, Buffer};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a page cannot be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptFault {
    /// The device did not give it.
    Unreadable {
        /// The page's number.
        page: u64,
    },
    /// Nothing is there.
    Missing {
        /// The page's number.
        page: u64,
    },
    /// Some of it does not have its checksum.
    Damaged {
        /// The page's number.
        page: u64,
    },
    /// The index is full.
    Full,
}

impl fmt::Display for AdoptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { page } => write!(f, "page {page} of the storage cannot be read"),
            Self::Missing { page } => {
                write!(f, "page {page} of the storage is not there: give the directories of the storage as before")
            }
            Self::Damaged { page } => write!(
                f,
                "page {page} of the storage is damaged: restore a backup, or set recover-damaged to yes and begin without the keys \
                 that are lost"
            ),
            Self::Full => write!(f, "the index has no room for all keys on the storage"),
        }
    }
}

impl From<Full> for AdoptFault {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

/// Whether the records of a page are counted one by one, because the page does not tell of all together.
fn is_counted_singly(info: PageInfo<'_>) -> bool {
    info.namespace() == PageInfo::MIXED || info.may_expire() && !info.all_expire()
}

/// Whether there is something about the records of a page that only they tell.
fn needs_survey(info: PageInfo<'_>) -> bool {
    is_counted_singly(info) || info.may_expire() || info.extent_blocks() != 0
}

/// Adopts what an earlier store has left on the device, for databases that have these namespaces.
pub struct Adoption<'s> {
    session: &'s mut Session,
    namespaces: &'s [u16],
}

impl<'s> Adoption<'s> {
    /// By this session.
    pub fn new(session: &'s mut Session, namespaces: &'s [u16]) -> Self {
        debug_assert!(!namespaces.contains(&0), "INV-NS-1: zero names no namespace");
        Self { session, namespaces }
    }

    /// Makes an entry for a record on the device, if a database has it. Inside a batch.
    ///
    /// # Errors
    /// When the index is full; or not as much of the hash is known as the index needs, and the record cannot be read.
    pub fn adopt(&mut self, cold: &ColdKey, fetcher: &mut Fetcher) -> Result<bool, AdoptFault> {
        let store = Arc::clone(&self.session.store);
        let Some(tier) = &store.tier else { return Ok(false) };
        let page = Log::page_of(cold.address);
        let Some(info) = tier.pages.info(page) else { return Err(AdoptFault::Damaged { page }) };
        let single = u16::try_from(info.namespace()).ok();
        if single.is_some_and(|namespace| !self.namespaces.contains(&namespace)) {
            return Ok(false);
        }
        debug_assert!(cold.address < self.session.local.head, "INV-TIER-1: what is adopted is on the device");
        let (mut hash, mut known_bits) = (cold.hash, cold.known_bits);
        let latch = loop {
            let latch = store.index.lock_exclusive(hash);
            // A bucket's keys share at most as many bits as the deepest level; where fewer are known it may be another bucket.
            if known_bits >= Index::level(latch.number(), store.index.len()) {
                break latch;
            }
            drop(latch);
            let read = match self.hash_on_device(cold.address, fetcher) {
                Err(AdoptFault::Damaged { page }) => {
                    damaged::note(tier, page)?;
                    damaged::lose(tier, page)?;
                    return Ok(false);
                }
                read => read?,
            };
            (hash, known_bits) = (read, u64::BITS);
        };
        let number = latch.number();
        let level = Index::level(number, store.index.len());
        let entry = Entry::known(hash >> level, known_bits - level, cold.address).with_heat(cold.heat.min(7));
        if let (Some(namespace), false) = (single, is_counted_singly(info)) {
            self.note_region(namespace, hash, known_bits);
            count_live(&store, &self.session.local, namespace, 1, i64::from(info.all_expire()));
        }
        store.index.insert(number, entry).map_err(|()| AdoptFault::Full)?;
        if entry.is_short() {
            store.index.bucket(number).set_short_tags(true);
        }
        if cold.was_copied {
            tier.space.ahead.note(cold.address);
        }
        Ok(true)
    }

    /// Notes where a namespace has a key, if that is known.
    fn note_region(&self, namespace: u16, hash: u64, known_bits: u32) {
        let (store, regions) = (&self.session.store, &self.session.store.namespaces.regions);
        if !regions.are_known(namespace) {
            return;
        }
        let records = store.counters.namespace(self.session.local.thread, namespace)[0].load(Ordering::Relaxed);
        regions.note_partial(namespace, hash, known_bits, records);
    }

    /// The hash of the key of a record on the device; the session leaves its epoch meanwhile.
    fn hash_on_device(&mut self, address: u64, fetcher: &mut Fetcher) -> Result<u64, AdoptFault> {
        let store = Arc::clone(&self.session.store);
        let page = Log::page_of(address);
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-2: a latch is never held across I/O");
        let Some(tier) = &store.tier else { return Err(AdoptFault::Unreadable { page }) };
        let now_ms = self.session.now_ms();
        self.session.leave();
        let mut stage = Stage::default();
        tier.stage_blocking(&mut stage, &mut vec![address], Why::BACKGROUND, fetcher);
        self.session.enter(now_ms);
        let hash = match stage.get(address) {
            Lookup::Ready(record, header) => Ok(store.hash_of(record, header)),
            Lookup::Damaged => Err(AdoptFault::Damaged { page }),
            Lookup::Failed | Lookup::Absent => Err(AdoptFault::Unreadable { page }),
        };
        fetcher.reclaim(&mut stage);
        hash
    }

    /// Looks at the records of all adopted pages that do not tell of them together: counts keys, has what expires remembered, and
    /// takes out the entries of keys that no database has. Then the space goes back that no page of the table has, and the pages
    /// may be compacted. Outside of a batch, while nothing changes.
    ///
    /// # Errors
    /// When a page cannot be read, or is damaged.
    pub fn survey(&mut self) -> Result<(), AdoptFault> {
        let store = Arc::clone(&self.session.store);
        let Some(tier) = &store.tier else { return Ok(()) };
        let head = Log::page_of(store.log.head());
        let pages: Vec<u64> = tier.pages.stored_pages(head, head).collect();
        debug_assert!(
            tier.space.adopting.load(Ordering::Relaxed),
            "INV-RETAIN-1: nothing is compacted before all entries are there"
        );
        find_pages(tier, &pages)?;
        let (mut image, mut fetcher) = (Buffer::new(PAGE_BYTES), Fetcher::default());
        let mut extents = Vec::new();
        for &page in &pages {
            let Some(info) = tier.pages.info(page).filter(|info| needs_survey(*info)) else { continue };
            if tier.space.forgiven.has(page) {
                continue;
            }
            if tier.storage.pages.read(page * PAGE_BYTES as u64, &mut image).is_err() {
                sometimes!("a start meets a page that cannot be read");
                return Err(AdoptFault::Unreadable { page });
            }
            if !image.chunks_exact(BLOCK_BYTES).enumerate().all(|(at, block)| info.is_intact(at, block)) {
                damaged::note(tier, page)?;
                continue;
            }
            if !tier.pages.nonce(page).is_some_and(|nonce| tier.decrypt(nonce, &mut image)) {
                return Err(AdoptFault::Unreadable { page });
            }
            let mut records = Vec::new();
            page_image::walk(&mut image, page, |address, record, header| records.push((address, record, header)));
            self.survey_records(page, info, &records, &mut fetcher)?;
            extents.append(&mut page_image::extents(&mut image, page));
        }
        self.begin_without_damaged(tier, &mut fetcher, &mut extents)?;
        tier.free_unnamed(&pages, extents);
        tier.space.adopting.store(false, Ordering::Release);
        tier.wakers.compactor.wake();
        Ok(())
    }

    /// Looks at records of a page.
    fn survey_records(
        &mut self,
        page: u64,
        info: PageInfo<'_>,
        records: &[(u64, Record, Header)],
        fetcher: &mut Fetcher,
    ) -> Result<(), AdoptFault> {
        let (singly, may_expire) = (is_counted_singly(info), info.may_expire());
        debug_assert!(records.iter().all(|(address, ..)| Log::page_of(*address) == page), "INV-TIER-3: a page has its records");
        if !singly && !may_expire {
            return Ok(());
        }
        // Keys that lie on the value device, and elements that expire, are looked at where they are whole. One value at a time:
        // it may be large.
        let is_apart =
            |header: &Header| header.has(Header::HEAP_KEY) || header.has(Header::HEAP_VALUE) && header.kind() != Kind::String;
        let together = if records.iter().any(|(.., header)| is_apart(header)) { 1 } else { SURVEYED_TOGETHER };
        for group in records.chunks(together) {
            let store = Arc::clone(&self.session.store);
            let Some(tier) = &store.tier else { return Ok(()) };
            let mut apart: Vec<u64> = group.iter().filter(|(.., header)| is_apart(header)).map(|(address, ..)| *address).collect();
            let mut stage = Stage::default();
            tier.stage_blocking(&mut stage, &mut apart, Why::BACKGROUND, fetcher);
            self.session.enter(0);
            let surveyed = group.iter().try_for_each(|&(address, record, header)| {
                let whole = match stage.get(address) {
                    _ if !is_apart(&header) => (record, header),
                    Lookup::Ready(record, header) => (record, header),
                    Lookup::Damaged => {
                        damaged::lose(tier, page)?;
                        if singly && self.namespaces.contains(&header.namespace()) {
                            // Its large part is lost; an entry leads to it until that shows.
                            count_live(&store, &self.session.local, header.namespace(), 1, header.has(Header::EXPIRY).into());
                        }
                        return Ok(());
                    }
                    Lookup::Failed | Lookup::Absent => return Err(AdoptFault::Unreadable { page }),
                };
                self.survey_record(address, whole, singly);
                Ok(())
            });
            self.session.leave();
            fetcher.reclaim(&mut stage);
            surveyed?;
        }
        Ok(())
    }

    /// A record of an adopted page: alive if an entry leads to it.
    fn survey_record(&mut self, address: u64, (record, header): (Record, Header), singly: bool) {
        let store = Arc::clone(&self.session.store);
        let namespace = header.namespace();
        let hash = store.hash_of(record, header);
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: dead space has no key");
        let latch = store.index.lock_exclusive(hash);
        let Some(position) = store.index.find_any(latch.number(), |candidate| candidate == address) else { return };
        if !self.namespaces.contains(&namespace) {
            store.index.remove(latch.number(), position);
            return;
        }
        if singly {
            self.note_region(namespace, hash, u64::BITS);
            count_live(&store, &self.session.local, namespace, 1, i64::from(header.has(Header::EXPIRY)));
        }
        if let Some(at_ms) = store.first_due(record, header) {
            store.expiry.feed.push(self.session.local.thread, Notice { hash, at_ms });
        }
    }
}

/// Records that are looked at inside one epoch.
const SURVEYED_TOGETHER: usize = 64;

/// Pages whose first blocks are read together.
const FOUND_TOGETHER: usize = 64;

/// Looks whether pages are there, by their first blocks: that a directory is another one or empty is known at the start.
fn find_pages(tier: &Tier, pages: &[u64]) -> Result<(), AdoptFault> {
    let mut reader = BatchReader::default();
    debug_assert!(pages.iter().all(|page| tier.pages.is_stored(*page)), "INV-RETAIN-1: what is adopted is in the table");
    for group in pages.chunks(FOUND_TOGETHER) {
        let source = |&page: &u64| {
            let source = tier.storage.pages.source(page * PAGE_BYTES as u64, BLOCK_BYTES);
            source.map(|source| BatchRead::new(source, Buffer::new(BLOCK_BYTES))).map_err(|_| AdoptFault::Missing { page })
        };
        let mut reads: Vec<BatchRead> = group.iter().map(source).collect::<Result<_, _>>()?;
        reader.read(&mut reads);
        for (&page, read) in group.iter().zip(&reads) {
            if read.result.is_err() {
                sometimes!("a start meets a page that cannot be read");
                return Err(AdoptFault::Unreadable { page });
            }
            if tier.pages.info(page).is_some_and(|info| !info.is_intact(0, &read.buffer)) {
                damaged::note(tier, page)?;
            }
        }
    }
    Ok(())
}

impl Tier {
    /// Gives back what lies between these pages and extents: an earlier store has written it, and nothing leads to it.
    fn free_unnamed(&self, pages: &[u64], mut extents: Vec<Extent>) {
        let gaps = |device: &dyn almandine_device::Device, used: &mut dyn Iterator<Item = (u64, u64)>, end: u64| {
            let mut free_from = 0;
            for (begin, bytes) in used.chain([(end, 0)]) {
                // A failure leaves garbage on the device, nothing worse.
                let _ = (begin > free_from).then(|| device.discard(free_from, begin - free_from));
                free_from = free_from.max(begin + bytes);
            }
        };
        let (pages_end, values_end) = self.space.ends;
        debug_assert!(pages.is_sorted(), "INV-TIER-1: pages are in the order of their numbers");
        let page = |page: &u64| (page * PAGE_BYTES as u64, PAGE_BYTES as u64);
        gaps(&*self.storage.pages, &mut pages.iter().map(page), pages_end);
        extents.sort_unstable_by_key(|extent| extent.offset());
        gaps(&*self.storage.values, &mut extents.iter().map(|extent| (extent.offset(), extent.bytes() as u64)), values_end);
    }
}
