//! Expiries of cold keys: the wheel has brought a hash up, and only the device knows whether its record is due.
//!
//! The records of all cold entries that may be the hash's are read, and then, under the latch, what is due is removed and what
//! is not is filed anew. The record may have come into memory meanwhile; its notice is used up all the same, so it is treated
//! alike (INV-EXP-1).

pub(crate) mod rebuild;
pub(crate) mod reclaim;

use crate::expiry::feed::Notice;
use crate::record::{Header, Record};
use crate::session::remove::{drop_latched, unlink};
use crate::session::{Session, Slot};
use crate::shared::Shared;
use crate::tier::Tier;
use crate::tier::read::stage::{Fetcher, Lookup, Stage, Why};
use std::sync::Arc;

/// Hashes that are looked at together.
const GROUP: usize = 128;
/// Time after which a record is looked for again that the device could not give.
const AGAIN_MS: i64 = 60_000;

/// Looks at some of the hashes that the wheel has brought up. Returns whether there were any.
pub(super) fn expire_cold(session: &mut Session, tier: &Tier, fetcher: &mut Fetcher, now_ms: i64) -> bool {
    let hashes: Vec<u64> = std::iter::from_fn(|| tier.next_due()).take(GROUP).collect();
    if hashes.is_empty() {
        return false;
    }
    let store = Arc::clone(&session.store);
    let mut wanted = Vec::new();
    session.enter(now_ms);
    let head = session.local.head;
    for &hash in &hashes {
        let latch = store.index.lock_shared(hash);
        let _ = store.index.find_latched(latch.number(), hash, |address| {
            if address < head {
                wanted.push(address);
            }
            None::<()>
        });
    }
    session.leave();
    let mut stage = Stage::default();
    tier.stage_blocking(&mut stage, &mut wanted, Why::BACKGROUND, fetcher);
    session.enter(now_ms);
    session.staging().attach(stage);
    hashes.iter().for_each(|&hash| expire_hash(session, &store, tier, hash));
    let mut stage = session.staging().detach_quietly();
    session.leave();
    fetcher.reclaim(&mut stage);
    true
}

/// Removes the records of one hash that are due, with the stage attached.
fn expire_hash(session: &mut Session, store: &Shared, tier: &Tier, hash: u64) {
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    let (mut found, mut absent, mut failed) = (Vec::new(), false, false);
    let _ = store.index.find_latched(number, hash, |address| {
        if address >= session.local.head {
            // SAFETY: read from a latched bucket inside the epoch.
            let record = unsafe { store.log.record(address) };
            found.push((address, record, record.header()));
            return None::<()>;
        }
        match session.staged(address) {
            Lookup::Ready(record, header) => found.push((address, record, header)),
            Lookup::Absent => absent = true,
            Lookup::Failed => failed = true,
            // It can never be known when it expires. It goes when its key is set or deleted.
            Lookup::Damaged => {}
        }
        None
    });
    let mut elements = Vec::new();
    for (address, record, header) in found {
        if store.first_due(record, header).is_some() && store.hash_of(record, header) == hash {
            elements.extend(expire_record(session, store, (number, hash), address, record, header));
        }
    }
    drop(latch);
    for (namespace, key) in elements {
        let key = session.key(namespace, &key);
        // Looking at it removes them.
        if session.entry(key).map(Slot::expire_elements).is_err() {
            session.cold().take_wanted();
        }
    }
    if absent {
        // It left memory between the look and the latch.
        tier.is_due_cold(hash);
    } else if failed {
        file(session, store, Notice { hash, at_ms: session.now_ms().saturating_add(AGAIN_MS) });
    }
}

/// Removes a record of the hash if it is due, else files it anew. Its key, if it is elements of it that are due.
fn expire_record(
    session: &mut Session,
    store: &Shared,
    (number, hash): (u64, u64),
    address: u64,
    record: Record,
    header: Header,
) -> Option<(u16, Vec<u8>)> {
    debug_assert!(store.index.bucket(number).is_latched_exclusively(), "INV-LATCH-1: who removes a record holds the latch");
    let position = store.index.find_any(number, |at| at == address)?;
    if store.namespaces.is_dropped(header.namespace()) {
        // A sweep counts its records off, and finds those that are in memory.
        if address < session.local.head {
            drop_latched(store, &mut session.local, number, position, record, header);
        }
    } else if record.is_expired(header, session.now_ms()) && store.is_kept_out(&session.local) {
        file(session, store, Notice { hash, at_ms: session.now_ms() + 1 });
    } else if record.is_expired(header, session.now_ms()) {
        store.note_expired(&mut session.local, record, header);
        unlink(store, &mut session.local, number, position, record, header);
        store.end_unit(&mut session.local);
    } else if let Some(at_ms) = store.first_due(record, header) {
        if at_ms <= session.now_ms() {
            return Some((header.namespace(), store.key_of(record, header).to_vec()));
        }
        file(session, store, Notice { hash, at_ms });
    }
    None
}

fn file(session: &Session, store: &Shared, notice: Notice) {
    if store.expiry.feed.push(session.local.thread, notice) {
        store.background.waker.wake();
    }
}
