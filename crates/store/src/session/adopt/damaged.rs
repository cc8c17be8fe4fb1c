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
use almandine_io::storage::Buffer;
use std::sync::Arc;

/// Damaged pages that are looked at together: each has its image in memory.
const PAGES_TOGETHER: usize = 16;
/// Buckets of one epoch.
const GROUP_BUCKETS: usize = 64;

/// A damaged page: which of its blocks are good, and what they have.
struct Page {
    salvage: Salvage,
    image: Buffer,
    /// Addresses of records in good blocks that an entry leads to.
    found: Vec<u64>,
}

/// Notes that a page is damaged; an error unless that is forgiven.
pub(super) fn note(tier: &Tier, page: u64) -> Result<(), AdoptFault> {
    debug_assert!(tier.pages.is_stored(page), "INV-TIER-1: what is adopted is on the device");
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
        let store = Arc::clone(&self.session.store);
        for group in tier.space.forgiven.pages().chunks(PAGES_TOGETHER) {
            let begin = |&page: &u64| {
                let mut image = Buffer::new(PAGE_BYTES);
                let salvage = Salvage::begin(&store, tier, page, &mut image).ok_or(AdoptFault::Unreadable { page })?;
                Ok::<Page, AdoptFault>(Page { salvage, image, found: Vec::new() })
            };
            let mut pages: Vec<Page> = group.iter().map(begin).collect::<Result<_, _>>()?;
            self.sweep(tier, &mut pages)?;
            for Page { salvage, image, found } in &mut pages {
                let Some(info) = tier.pages.info(salvage.page) else { continue };
                let found: Vec<Imaged> = found.iter().filter_map(|&address| salvage.readable(image, address)).collect();
                // Behind a damaged block only the index knows where records begin.
                extents.extend(found.iter().flat_map(extents_of));
                let records: Vec<(u64, Record, Header)> =
                    found.iter().map(|imaged| (imaged.address, imaged.record, imaged.header)).collect();
                self.survey_records(salvage.page, info, &records, fetcher)?;
                extents.append(&mut salvage.extents(image));
            }
        }
        Ok(())
    }

    /// Sweeps the index for entries that lead to some pages.
    fn sweep(&mut self, tier: &Tier, pages: &mut [Page]) -> Result<(), AdoptFault> {
        let store = Arc::clone(&self.session.store);
        debug_assert!(pages.len() <= PAGES_TOGETHER, "each page has its image in memory");
        let (mut position, mut entries, mut lost) = (0u64, Vec::<Entry>::new(), Vec::new());
        loop {
            self.session.enter(0);
            for _ in 0..GROUP_BUCKETS {
                let latch = store.index.lock_exclusive(position.reverse_bits());
                let number = latch.number();
                let range = range_len(number, store.index.len());
                entries.clear();
                store.index.collect(number, &mut entries);
                for address in entries.iter().map(|entry| entry.address()) {
                    let Some(page) = pages.iter_mut().find(|page| page.salvage.page == Log::page_of(address)) else { continue };
                    if page.salvage.readable(&mut page.image, address).is_some() {
                        page.found.push(address);
                    } else if let Some(at) = store.index.find_any(number, |candidate| candidate == address) {
                        store.index.remove(number, at);
                        lost.push(page.salvage.page);
                    }
                }
                drop(latch);
                position = (position & !(range - 1)).wrapping_add(range);
                if position == 0 {
                    break;
                }
            }
            self.session.leave();
            lost.drain(..).try_for_each(|page| self.lose(tier, page))?;
            if position == 0 {
                return Ok(());
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
