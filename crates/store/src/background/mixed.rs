//! Sweeping emptied namespaces from the device: pages whose records are of several namespaces have to be read for it, which the
//! compactor does, a page per step.

use super::image;
use super::pace::Pace;
use crate::log::{Log, PAGE_BYTES};
use crate::session::Session;
use crate::session::remove::drop_latched;
use crate::tier::Tier;
use crate::tier::pages::PageInfo;
use crate::tier::stage::{Fetcher, Lookup, Stage, Why};
use crate::tier::statistics::bump;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::sync::Arc;

/// Records that are looked at in one epoch.
const GROUP: usize = 128;

/// The compactor's part of a sweep.
#[derive(Default)]
pub(super) struct MixedPages {
    /// Pages that are still to be looked at, once they were listed.
    pages: Option<Vec<u64>>,
    incomplete: bool,
}

impl MixedPages {
    /// Looks at one page, if a sweep is asked for. Blocks on the device. Returns whether there was anything to do.
    pub(super) fn step(&mut self, session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, pace: &mut Pace) -> bool {
        if !tier.mixed.is_asked() {
            return false;
        }
        let store = Arc::clone(&session.store);
        let pages = self.pages.get_or_insert_with(|| {
            let mixed = |page: &u64| tier.pages.info(*page).is_some_and(|info| info.namespace() == PageInfo::MIXED);
            tier.pages.stored_pages(Log::page_of(store.log.read_only())).filter(mixed).collect()
        });
        if let Some(page) = pages.pop() {
            self.incomplete |= !sweep_page(session, tier, fetcher, pace, page);
        } else {
            // When a page could not be read, the namespaces must not be used again (INV-NS-1).
            let incomplete = std::mem::take(self).incomplete;
            tier.mixed.end(!incomplete);
            store.background.waker.wake();
        }
        true
    }
}

/// Takes the entries of a page's dropped records out of the index. False when some of them could not be read.
fn sweep_page(session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, pace: &mut Pace, page: u64) -> bool {
    let store = Arc::clone(&session.store);
    let mut buffer = Buffer::new(PAGE_BYTES);
    bump(&tier.counters.background_reads, 1);
    bump(&tier.counters.read_bytes, PAGE_BYTES as u64);
    if tier.storage.pages.read(page * PAGE_BYTES as u64, &mut buffer).is_err() {
        bump(&tier.counters.read_errors, 1);
        return false;
    }
    let Some(info) = tier.pages.info(page) else { return true };
    let intact = |(block, bytes): (usize, &[u8])| info.is_intact(block, bytes);
    if !buffer.chunks_exact(BLOCK_BYTES).enumerate().all(intact) {
        let stored = tier.pages.is_stored(page);
        bump(&tier.counters.corrupt_blocks, u64::from(stored));
        return !stored;
    }
    let mut doomed = Vec::new();
    image::walk(&mut buffer, page, |address, _, header| {
        if store.namespaces.is_dropped(header.namespace()) {
            doomed.push(address);
        }
    });
    debug_assert!(doomed.iter().all(|address| Log::page_of(*address) == page), "INV-TIER-3: an image tells of its own page");
    let mut complete = true;
    for group in doomed.chunks(GROUP) {
        pace.yield_to_workers(false);
        complete &= sweep_records(session, tier, fetcher, group);
    }
    complete
}

/// The same for some of its records, in one epoch.
fn sweep_records(session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, addresses: &[u64]) -> bool {
    let store = Arc::clone(&session.store);
    let (mut stage, mut complete) = (Stage::default(), true);
    tier.stage_blocking(&mut stage, &mut addresses.to_vec(), Why::BACKGROUND, fetcher);
    session.enter(0);
    for &address in addresses {
        let Lookup::Ready(record, header) = stage.get(address) else {
            complete &= !tier.pages.is_stored(Log::page_of(address));
            continue;
        };
        let latch = store.index.lock_exclusive(store.hash_of(record, header));
        let number = latch.number();
        if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
            drop_latched(&store, &mut session.local, number, position, record, header);
        }
        drop(latch);
    }
    session.leave();
    fetcher.reclaim(&mut stage);
    complete
}
