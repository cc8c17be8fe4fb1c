//! Sweeping emptied namespaces from the device: pages whose records are of several namespaces have to be read for it.

use super::image;
use crate::log::{Log, PAGE_BYTES};
use crate::session::Session;
use crate::session::remove::drop_latched;
use crate::tier::pages::PageInfo;
use crate::tier::stage::{Fetcher, Lookup, Stage, Why};
use crate::tier::statistics::bump;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::sync::Arc;

/// Takes the entries of dropped records in pages of several namespaces out of the index. Blocks on the device. False when
/// a page could not be read: then the namespaces must not be used again (INV-NS-1).
pub(crate) fn sweep_mixed_pages(session: &mut Session) -> bool {
    let store = Arc::clone(&session.store);
    let Some(tier) = &store.tier else { return true };
    let mixed = |page: &u64| tier.pages.info(*page).is_some_and(|info| info.namespace() == PageInfo::MIXED);
    let pages: Vec<u64> = tier.pages.stored_pages(Log::page_of(store.log.read_only())).filter(mixed).collect();
    let mut complete = true;
    let (mut buffer, mut fetcher) = (Buffer::new(PAGE_BYTES), Fetcher::default());
    for page in pages {
        bump(&tier.counters.background_reads, 1);
        bump(&tier.counters.read_bytes, PAGE_BYTES as u64);
        if tier.storage.pages.read(page * PAGE_BYTES as u64, &mut buffer).is_err() {
            bump(&tier.counters.read_errors, 1);
            complete = false;
            continue;
        }
        let Some(info) = tier.pages.info(page) else { continue };
        let intact = |(block, bytes): (usize, &[u8])| info.is_intact(block, bytes);
        if !buffer.chunks_exact(BLOCK_BYTES).enumerate().all(intact) {
            bump(&tier.counters.corrupt_blocks, u64::from(tier.pages.is_stored(page)));
            complete &= !tier.pages.is_stored(page);
            continue;
        }
        let mut doomed = Vec::new();
        image::walk(&mut buffer, page, |address, _, header| {
            if store.namespaces.is_dropped(header.namespace()) {
                doomed.push(address);
            }
        });
        debug_assert!(doomed.iter().all(|address| Log::page_of(*address) == page), "INV-TIER-3: an image tells of its own page");
        let mut stage = Stage::default();
        let addresses = doomed.clone();
        tier.stage_blocking(&mut stage, &mut doomed, Why::BACKGROUND, &mut fetcher);
        session.enter(0);
        for address in addresses {
            let Lookup::Ready(record, header) = stage.get(address) else {
                complete &= !tier.pages.is_stored(page);
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
    }
    complete
}
