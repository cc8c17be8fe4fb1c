//! Scan: all keys of a namespace, bucket by bucket, with a cursor that survives growth, shrinking and moving records.
//!
//! The cursor is a position in the space of bit-reversed hashes. A bucket, whatever the index's size, covers one contiguous
//! range of that space, because buckets are chosen by the hash's low bits; splitting cuts the range in two and merging joins
//! two neighbours. So "everything from here on" means the same before and after a resize: a key that is there during the
//! whole scan is seen, and it is seen once (INV-SCAN-1).

use super::batch::Session;
use super::view::View;
use crate::index::Index;
use crate::index::entry::Entry;
use crate::log::Log;
use crate::namespace::regions;
use crate::record::Header;
use crate::record::key::{GlanceId, Key};
use crate::tier::pages::PageInfo;
use almandine_base::object::Missing;
use std::sync::Arc;

/// Low bits of a position that the cursor leaves out; no index has enough buckets for them to matter.
const CURSOR_SHIFT: u32 = 16;
/// Buckets visited per key asked for, before a scan of a sparse namespace takes a rest.
const BUCKETS_PER_KEY: usize = 10;
/// Buckets visited in any case: an index of the smallest size is scanned in one go.
const BUCKETS_MIN: usize = crate::index::BUCKETS_MIN as usize;

/// Buckets after which a scan lets go of its epoch, so that it does not hold memory up, however much was asked for.
const BUCKETS_PER_EPOCH: usize = 1 << 10;

/// How far a scan goes.
#[derive(Clone, Copy)]
struct Until {
    /// Until this many keys were seen.
    count: usize,
    /// Or to the end of the part that it begins in.
    part_ends: bool,
}

/// How far a scan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Scanned {
    /// Where to go on; 0 at the end.
    pub cursor: u64,
    /// Whether all keys up to there were visited. Else some have records that are not in memory, which were noted as wanted.
    pub whole: Result<(), Missing>,
}

impl Session {
    /// All keys of a namespace.
    #[inline]
    pub fn keys(&mut self, namespace: u16) -> Keys<'_> {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        Keys { session: self, namespace }
    }

    fn scan_until(&mut self, namespace: u16, cursor: u64, until: Until, mut visit: impl FnMut(&[u8], &View<'_>)) -> Scanned {
        debug_assert!(!self.holds_latches(), "INV-LATCH-3: a scan latches by itself");
        debug_assert!(self.local.participant.is_inside(), "INV-FREE-1: keys that a scan meets stay readable while it visits them");
        let store = Arc::clone(&self.store);
        let mut entries: Vec<Entry> = Vec::with_capacity(32);
        let mut expired: Vec<Key<'_>> = Vec::new();
        let mut position = cursor << CURSOR_SHIFT;
        let leaves = |place: u64| until.part_ends && !regions::is_same(place, cursor << CURSOR_SHIFT);
        let (mut seen, mut whole) = (0, Ok(()));
        let noted = &store.namespaces.regions;
        let is_small = noted.are_known(namespace);
        for visited in 0..until.count.saturating_mul(BUCKETS_PER_KEY).max(BUCKETS_MIN) {
            if visited % BUCKETS_PER_EPOCH == BUCKETS_PER_EPOCH - 1 {
                self.refresh();
            }
            if is_small {
                let Some(next) = noted.next(namespace, position) else { return Scanned { cursor: 0, whole } };
                position = next;
                if leaves(position) {
                    break;
                }
            }
            let latch = store.index.lock_shared(position.reverse_bits());
            let number = latch.number();
            // Latched, the bucket cannot split or merge, so its range is fixed.
            let range = range_len(number, store.index.len());
            entries.clear();
            store.index.collect(number, &mut entries);
            for entry in &entries {
                let address = entry.address();
                let (record, header) = if address >= self.local.head {
                    // SAFETY: read from a latched bucket inside the epoch.
                    let record = unsafe { store.log.record(address) };
                    (record, record.header())
                } else if self.is_of_another(address, namespace) {
                    continue;
                } else {
                    let staged = self.scan_cold(address);
                    whole = whole.and(staged.map(|_| ()));
                    let Ok(Some(staged)) = staged else {
                        seen += 1;
                        continue;
                    };
                    staged
                };
                if header.namespace() != namespace || header.has(Header::DEAD) {
                    continue;
                }
                let key = store.key_of(record, header);
                let hash = store.hash(namespace, key);
                let place = hash.reverse_bits();
                debug_assert_eq!(place & !(range - 1), position & !(range - 1), "INV-SCAN-1: a bucket is one range");
                if place < position || leaves(place) {
                    continue;
                }
                if record.is_expired(header, self.local.now_ms) {
                    // Not the bytes of a staged key, which go with the stage: the background removes that one.
                    if address >= self.local.head {
                        expired.push(Key { namespace, glance: GlanceId::default(), bytes: key, hash });
                    }
                } else {
                    seen += 1;
                    self.local.touched.visit(|| visit(key, &View::latched(record, header)));
                }
            }
            drop(latch);
            for key in expired.drain(..) {
                // Its bytes stay readable until the epoch is left, even if another session removes the record first.
                self.remove_if_expired(key);
            }
            position = (position & !(range - 1)).wrapping_add(range);
            if position == 0 {
                break;
            }
            debug_assert!(position > cursor << CURSOR_SHIFT, "INV-SCAN-1: a scan goes forward");
            if seen >= until.count || leaves(position) {
                break;
            }
        }
        debug_assert!(whole.is_ok() || self.local.head != 0, "INV-TIER-1: only what lies below the head is missing");
        Scanned { cursor: position >> CURSOR_SHIFT, whole }
    }
}

impl Session {
    /// Whether all records of the page on the device that holds `address` belong to another namespace: then none needs to be read.
    fn is_of_another(&self, address: u64, namespace: u16) -> bool {
        let info = self.store.tier.as_ref().and_then(|tier| tier.pages.info(Log::page_of(address)));
        info.is_some_and(|info| info.namespace() != PageInfo::MIXED && info.namespace() != u32::from(namespace))
    }

    /// Lets go of what was read in this batch, for long walks; nothing may be latched.
    fn refresh(&mut self) {
        debug_assert!(!self.holds_latches(), "INV-LATCH-2: no latch outlives its epoch");
        // What a glance has seen may be freed in the next epoch.
        self.local.glances.clear();
        self.local.participant.refresh();
        let head = self.store.log.head();
        debug_assert!(head >= self.local.head, "INV-TIER-1: the head only grows");
        self.local.head = head;
    }
}

/// All keys of a namespace.
pub struct Keys<'s> {
    session: &'s mut Session,
    namespace: u16,
}

impl Keys<'_> {
    /// Visits keys from `cursor` (0 to begin) on, until at least `count` were seen or ten times as many buckets were.
    /// Expired keys are left out, and removed. Not under a lock plan: it
    /// latches buckets in an order of its own (INV-LATCH-3).
    pub fn scan(&mut self, cursor: u64, count: usize, visit: impl FnMut(&[u8], &View<'_>)) -> Scanned {
        self.session.scan_until(self.namespace, cursor, Until { count, part_ends: false }, visit)
    }

    /// As [`Keys::scan`], for all keys from `cursor` on to the end of its part ([`Keys::random_cursor`]).
    pub fn scan_part(&mut self, cursor: u64, visit: impl FnMut(&[u8], &View<'_>)) -> Scanned {
        self.session.scan_until(self.namespace, cursor, Until { count: usize::MAX, part_ends: true }, visit)
    }

    /// A cursor of [`Keys::scan`] at which a part of the keyspace begins that has keys of the namespace, as far as that is
    /// known: none of a namespace with many keys. Each such part is as likely.
    #[must_use]
    pub fn random_cursor(&self, random: u64) -> Option<u64> {
        let noted = &self.session.store.namespaces.regions;
        let begin = if noted.are_known(self.namespace) { noted.any(self.namespace, random)? } else { return None };
        Some(begin >> CURSOR_SHIFT)
    }

    /// Lets go of what was read in this batch, for long walks; nothing may be latched.
    pub fn refresh(&mut self) {
        self.session.refresh();
    }
}

/// Length of the range of reversed hashes that a bucket covers.
pub(crate) fn range_len(number: u64, buckets: u64) -> u64 {
    debug_assert_eq!(
        Index::bucket_of(number, buckets),
        number,
        "INV-SCAN-1: a bucket stands for the hashes that end like its number"
    );
    1 << (u64::BITS - Index::level(number, buckets))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Options, Put, Store};

    #[test]
    fn ranges_tile_the_space_at_every_size() {
        for buckets in 1024..2100u64 {
            let mut position = 0u64;
            let mut visited = 0;
            loop {
                let number = Index::bucket_of(position.reverse_bits(), buckets);
                let range = range_len(number, buckets);
                assert_eq!(position & (range - 1), 0, "positions are range starts");
                visited += 1;
                position = position.wrapping_add(range);
                if position == 0 {
                    break;
                }
            }
            assert_eq!(visited, buckets);
        }
    }

    #[test]
    fn a_long_scan_lets_go_of_its_epoch_and_of_its_glances() {
        let store = Store::open(Options { background: false, ..Options::default() }).expect("a store");
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut session = store.session().expect("a session");
        const KEYS: usize = 100_000;
        for number in 0..KEYS {
            session.enter(0);
            let name = number.to_le_bytes();
            session.upsert(session.key(namespace, &name), b"v", Put::default()).expect("room");
            session.leave();
            if number % 1_000 == 0 {
                store.maintain(0);
            }
        }
        (0..10).for_each(|_| store.maintain(0));
        assert!(store.figures().index_buckets() > 4 * BUCKETS_PER_EPOCH as u64);
        session.enter(0);
        let hash = session.hash(namespace, b"another");
        session.ahead().expect(hash);
        session.ahead().glance();
        let (mut seen, mut begun, mut over) = (0, None, false);
        let scanned = session.keys(namespace).scan(0, usize::MAX, |_, _| {
            seen += 1;
            let epoch = &store.inner.epoch;
            let begun = *begun.get_or_insert_with(|| epoch.bump());
            over |= epoch.safe() >= begun;
        });
        assert_eq!((scanned.cursor, seen, over), (0, KEYS, true), "what others free during a scan is not kept to its end");
        assert_eq!(session.ahead().expected(), 0, "INV-FREE-1: what was seen in an epoch is used in that epoch");
        session.leave();
    }
}
