//! Beginning without what is damaged on the device, where that was asked for: which keys are lost is known when the store serves.
//!
//! Damage is a block that the device gives, twice, without its checksum; an error of the device is none. A page with such blocks
//! stays in the table: entries that lead to records in its other blocks stay too, entries of the others are taken out and counted.
//! No effect is noted: the log begins behind this. Large values that are damaged show when they are read, as at any time.

use super::{AdoptFault, Adoption};
use crate::background::compact::salvage::Salvage;
use crate::background::compact::{Imaged, extents_of};
use crate::index::entry::Entry;
use crate::log::{Log, PAGE_BYTES};
use crate::record::{Header, Record};
use crate::session::remove::count_live;
use crate::session::scan::range_len;
use crate::tier::Tier;
use crate::tier::extent::Extent;
use crate::tier::pages::PageInfo;
use crate::tier::read::stage::Fetcher;
use almandine_base::{sometimes, steps};
use almandine_io::storage::Buffer;
use std::sync::Arc;

/// Buckets of one epoch.
const GROUP_BUCKETS: usize = 64;
/// Records of the damaged pages for which the index is swept once: where their entries are takes 16 bytes each.
const NOTED_MAX: u64 = 1 << 22;

/// An entry that leads to a damaged page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Leading {
    /// Of a record of the page.
    address: u64,
    /// A place in its bucket, in the space of reversed hashes.
    position: u64,
}

/// Notes that a page is damaged; an error unless that is forgiven.
pub(super) fn note(tier: &Tier, page: u64) -> Result<(), AdoptFault> {
    debug_assert!(tier.pages.is_stored(page), "INV-TIER-1: what is adopted is on the device");
    sometimes!("a start meets a damaged page");
    if tier.space.forgiven.page(page) { Ok(()) } else { Err(AdoptFault::Damaged { page }) }
}

/// Counts a lost key of a page; an error unless that is forgiven.
pub(super) fn lose(tier: &Tier, page: u64) -> Result<(), AdoptFault> {
    debug_assert!(tier.pages.is_stored(page), "INV-TIER-1: what is adopted is on the device");
    if tier.space.forgiven.key() { Ok(()) } else { Err(AdoptFault::Damaged { page }) }
}

impl Adoption<'_> {
    /// Takes out the entries of lost records, and looks at the others of these pages. Outside of a batch.
    pub(super) fn begin_without_damaged(
        &mut self,
        tier: &Tier,
        fetcher: &mut Fetcher,
        extents: &mut Vec<Extent>,
    ) -> Result<(), AdoptFault> {
        let pages = tier.space.forgiven.pages();
        let records = |page: &u64| tier.pages.row_of(*page).map_or(0, |row| u64::from(row.records));
        let mut rest = &pages[..];
        while !rest.is_empty() {
            let mut noted = 0;
            let fits = |page: &&u64| {
                noted += records(page);
                noted <= NOTED_MAX
            };
            let (group, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = others;
            let leading = self.leading_to(group);
            let mut leading = &leading[..];
            for &page in group {
                let (own, others) = leading.split_at(leading.partition_point(|entry| Log::page_of(entry.address) <= page));
                leading = others;
                self.begin_without(tier, page, own, fetcher, extents)?;
            }
        }
        Ok(())
    }

    /// Takes out the entries of the lost records of a page, and looks at the others.
    fn begin_without(
        &mut self,
        tier: &Tier,
        page: u64,
        leading: &[Leading],
        fetcher: &mut Fetcher,
        extents: &mut Vec<Extent>,
    ) -> Result<(), AdoptFault> {
        let store = Arc::clone(&self.session.store);
        sometimes!("a store begins without damaged pages");
        let mut image = Buffer::new(PAGE_BYTES);
        let mut salvage = Salvage::begin(&store, tier, page, &mut image).ok_or(AdoptFault::Unreadable { page })?;
        let mut found: Vec<Imaged> = Vec::new();
        for group in leading.chunks(GROUP_BUCKETS) {
            self.session.enter(0);
            let mut lost = 0;
            for entry in group {
                match salvage.readable(&mut image, entry.address) {
                    Some(imaged) => found.push(imaged),
                    None => lost += u64::from(self.take_out(*entry)),
                }
            }
            self.session.leave();
            (0..lost).try_for_each(|_| self.lose(tier, page))?;
        }
        let Some(info) = tier.pages.info(page) else { return Ok(()) };
        // Behind a damaged block only the index knows where records begin.
        extents.extend(found.iter().flat_map(extents_of));
        let records: Vec<(u64, Record, Header)> =
            found.iter().map(|imaged| (imaged.address, imaged.record, imaged.header)).collect();
        self.survey_records(page, info, &records, fetcher)?;
        extents.append(&mut salvage.extents(&mut image));
        Ok(())
    }

    /// The entries that lead to these pages, in the order of their addresses: one sweep of the index.
    fn leading_to(&mut self, pages: &[u64]) -> Vec<Leading> {
        let store = Arc::clone(&self.session.store);
        debug_assert!(pages.is_sorted(), "INV-TIER-1: pages are in the order of their numbers");
        let (mut position, mut entries, mut leading) = (0u64, Vec::<Entry>::new(), Vec::new());
        loop {
            self.session.enter(0);
            for _ in 0..GROUP_BUCKETS {
                steps::take(1);
                let latch = store.index.lock_exclusive(position.reverse_bits());
                let number = latch.number();
                let range = range_len(number, store.index.len());
                entries.clear();
                store.index.collect(number, &mut entries);
                drop(latch);
                let is_damaged = |address: &u64| pages.binary_search(&Log::page_of(*address)).is_ok();
                let addresses = entries.iter().map(|entry| entry.address()).filter(is_damaged);
                leading.extend(addresses.map(|address| Leading { address, position }));
                position = (position & !(range - 1)).wrapping_add(range);
                if position == 0 {
                    break;
                }
            }
            self.session.leave();
            if position == 0 {
                leading.sort_unstable();
                // A bucket that was split behind the sweep is met twice.
                leading.dedup_by_key(|entry| entry.address);
                return leading;
            }
        }
    }

    /// Takes an entry out of the index, which may have grown since it was found: then it is in one of the buckets that its own was
    /// split into. Inside a batch.
    fn take_out(&self, entry: Leading) -> bool {
        let store = &self.session.store;
        debug_assert!(entry.address < self.session.local.head, "INV-TIER-1: what is lost is on the device");
        let mut position = entry.position;
        loop {
            steps::take(1);
            let latch = store.index.lock_exclusive(position.reverse_bits());
            let number = latch.number();
            if let Some(at) = store.index.find_any(number, |candidate| candidate == entry.address) {
                store.index.remove(number, at);
                return true;
            }
            let range = range_len(number, store.index.len());
            position = (position & !(range - 1)).wrapping_add(range);
            if position == entry.position & !(range - 1) {
                debug_assert!(false, "INV-RETAIN-1: nothing else takes entries out before a store serves");
                return false;
            }
        }
    }

    /// Counts a key of a page as lost, and no more as there where all keys of the page were counted together.
    fn lose(&self, tier: &Tier, page: u64) -> Result<(), AdoptFault> {
        lose(tier, page)?;
        let info: Option<PageInfo<'_>> = tier.pages.info(page).filter(|info| !super::is_counted_singly(*info));
        let namespace = info.and_then(|info| u16::try_from(info.namespace()).ok());
        if let Some((info, namespace)) = info.zip(namespace) {
            count_live(&self.session.store, &self.session.local, namespace, -1, -i64::from(info.all_expire()));
        }
        Ok(())
    }
}
