//! Sweeping emptied namespaces from the device: pages whose records are of several namespaces have to be read for it, which the
//! compactor does, a page per step.

use crate::background::pace::Pace;
use crate::log::{Log, PAGE_BYTES, PAGE_WORDS};
use crate::record::{Header, Record};
use crate::session::Session;
use crate::session::remove::drop_latched;
use crate::tier::Tier;
use crate::tier::page_image;
use crate::tier::read::stage::{Fetcher, Lookup, Stage, Why};
use crate::tier::statistics::bump;
use almandine_io::clock;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records that are looked at in one epoch.
const GROUP: usize = 128;

/// The compactor's part of a sweep.
#[derive(Default)]
pub(in crate::background) struct MixedPages {
    /// What is still to be looked at, once that is known.
    left: Option<Left>,
    incomplete: bool,
    /// Before this time, by the monotonic clock, the rate limit of compaction says to wait.
    not_before_ms: u64,
}

/// Pages, or records by their addresses.
enum Left {
    Pages(Vec<u64>),
    Records(Vec<u64>),
}

impl MixedPages {
    /// Whether the rate limit keeps it from going on at once.
    pub(in crate::background) fn is_held_back(&self) -> bool {
        self.left.is_some() && clock::monotonic_ns() / 1_000_000 < self.not_before_ms
    }

    /// Looks at one page, or at some records, if a sweep is asked for. Blocks on the device. Returns whether there was anything to
    /// do.
    pub(in crate::background) fn step(
        &mut self,
        session: &mut Session,
        tier: &Tier,
        fetcher: &mut Fetcher,
        pace: &mut Pace,
    ) -> bool {
        if !tier.mixed.is_asked() || self.is_held_back() {
            return false;
        }
        let store = Arc::clone(&session.store);
        let left = self.left.get_or_insert_with(|| match tier.mixed.take_addresses() {
            Some(addresses) => Left::Records(addresses),
            None => {
                let mixed = |page: &u64| tier.is_mixed_page(*page * PAGE_WORDS);
                let (head, end) = (Log::page_of(store.log.head()), Log::page_of(store.log.read_only()));
                Left::Pages(tier.pages.stored_pages(head, end).filter(mixed).collect())
            }
        });
        let before = tier.counters.read_bytes.load(Ordering::Relaxed);
        let complete = match left {
            Left::Pages(pages) => pages.pop().map(|page| sweep_page(session, tier, fetcher, pace, page)),
            Left::Records(addresses) if addresses.is_empty() => None,
            Left::Records(addresses) => {
                pace.yield_to_workers(false);
                let group = addresses.split_off(addresses.len().saturating_sub(GROUP));
                Some(sweep_records(session, tier, fetcher, &group))
            }
        };
        match complete {
            Some(complete) => {
                self.incomplete |= !complete;
                let bytes = tier.counters.read_bytes.load(Ordering::Relaxed) - before;
                let rate = tier.limits.compaction_rate.load(Ordering::Relaxed).max(1);
                self.not_before_ms = clock::monotonic_ns() / 1_000_000 + bytes.saturating_mul(1000) / rate;
            }
            None => {
                // When a page could not be read, the namespaces must not be used again (INV-NS-1).
                let incomplete = std::mem::take(self).incomplete;
                tier.mixed.end(!incomplete);
                store.background.waker.wake();
            }
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
    let Some(nonce) = tier.pages.nonce(page) else { return true };
    if !tier.decrypt(nonce, &mut buffer) {
        return false;
    }
    let mut doomed = Vec::new();
    page_image::walk(&mut buffer, page, |address, _, header| {
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
        if !store.namespaces.is_dropped(header.namespace()) {
            continue;
        }
        let latch = store.index.lock_exclusive(store.hash_of(record, header));
        let number = latch.number();
        let head = session.local.head;
        // A record of the log in memory, which may be a copy of this one.
        let resident = |candidate: u64| {
            // SAFETY: read from a latched bucket inside the epoch.
            let record = unsafe { store.log.record(candidate) };
            (record, record.header())
        };
        let is_copy = |(copy, header): (Record, Header)| header.has(Header::CACHED) && copy.original(header) == address;
        let is_doomed = |candidate| candidate == address || candidate >= head && is_copy(resident(candidate));
        if let Some(position) = store.index.find_any(number, is_doomed) {
            let at = position.entry().address();
            let (record, header) = if at == address { (record, header) } else { resident(at) };
            drop_latched(&store, &mut session.local, number, position, record, header);
        }
        drop(latch);
    }
    session.leave();
    fetcher.reclaim(&mut stage);
    complete
}
