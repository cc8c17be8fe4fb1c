//! Reading ahead: behind a start, records of the device that were in memory as copies when the last base was written are copied
//! again, so that a store is as warm as it was. The compactor does it, at the pace of compaction, and only into memory that nothing
//! uses yet; what a client asks for first is copied by its own read.

use crate::background::pace::Pace;
use crate::log::Log;
use crate::session::Session;
use crate::session::cold::copies::keep;
use crate::tier::pressure::Pressure;
use crate::tier::read::stage::{Fetcher, Stage, Why};
use crate::tier::{CopyReads, Tier};
use almandine_io::clock;
use std::sync::atomic::Ordering;

/// Reads some records ahead, if there are any. Blocks on the device. Returns whether it did.
pub(in crate::background) fn step(session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, pace: &mut Pace) -> bool {
    let store = std::sync::Arc::clone(&session.store);
    let has_room = || {
        let is_used = store.log.pages.resident() + 1 >= tier.limit_pages() || tier.pressure() != Pressure::None;
        !is_used && tier.copy_reads() == CopyReads::ReadCache
    };
    let Some(mut wanted) = tier.space.ahead.next(has_room) else { return false };
    let head = Log::page_of(store.log.head());
    wanted.retain(|address| Log::page_of(*address) < head && tier.pages.is_stored(Log::page_of(*address)));
    pace.yield_to_workers(false);
    let read_bytes = || tier.counters.read_bytes.load(Ordering::Relaxed);
    let (before, mut stage) = (read_bytes(), Stage::default());
    tier.stage_blocking(&mut stage, &mut wanted, Why::BACKGROUND, fetcher);
    session.enter(clock::unix_ms());
    keep(&store, &mut session.local, &stage, 0);
    session.leave();
    fetcher.reclaim(&mut stage);
    tier.space.ahead.rest(read_bytes() - before, tier.limits.compaction_rate.load(Ordering::Relaxed));
    true
}
