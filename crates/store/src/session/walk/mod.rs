//! The walk that copies all records: every bucket once, in the order of scans, in slices of an epoch each.
//!
//! A slice copies the records of some buckets, each under the bucket's shared latch: small values byte by byte, large ones as
//! counted references. What becomes of the copies is the caller's affair, outside of latches and epochs. Keys that stay are met
//! once, however the index is resized meanwhile (INV-SCAN-1).
//!
//! Records on the device: the walk notes the buckets with some, as far as it looks ahead, and ends its slice. Their records are
//! read together, and the next slice begins at the same bucket. A walk for a base that names what lies on the device
//! ([`Walk::part_above`]) reads those which have gone there since the base began page by page, behind the last bucket ([`pages`]).

mod pages;

use self::pages::Later;
use super::batch::Session;
use super::plan::Plan;
use crate::copying::records::{Beside, ColdKey, Records};
use crate::index::entry::Entry;
use crate::index::{BUCKETS_MIN, Index};
use crate::log::Log;
use crate::record::{Header, Record};
use crate::session::scan::range_len;
use crate::shared::Shared;
use crate::store::Store;
use crate::tier::pages::PageInfo;
use crate::tier::read::stage::{Fetcher, Stage};
use almandine_base::object::Missing;
use almandine_base::step;
use std::sync::Arc;

/// Buckets of a slice at most: some tens of microseconds.
const BUCKETS_PER_SLICE: usize = 64;
/// Bytes that a slice copies, before it ends behind a bucket.
const BYTES_PER_SLICE: usize = 128 << 10;
/// Buckets that a walk looks ahead for records on the device,
const BUCKETS_AHEAD: usize = 64;
/// and such records at most.
const WANTED_MAX: usize = 256;

/// A walk through all records. That of a copy of one moment has to be followed by [`crate::Store::end_copy`], wherever it has come.
pub struct Walk {
    position: u64,
    /// Where its part of all positions begins,
    begin: u64,
    /// and ends; 0: behind the last.
    end: u64,
    ended: bool,
    of_moment: bool,
    /// Records below this address stay on the device.
    below: u64,
    /// What lies on the device from there on; none: it is read record by record.
    later: Option<Later>,
    /// Keys whose records stay on the device have been named.
    has_named: bool,
    stage: Stage,
    fetcher: Fetcher,
    entries: Vec<Entry>,
}

impl Plan<'_> {
    /// Begins a copy of this moment, of these namespaces, and returns its walk; None: there is one already. The session is alone.
    /// From now on what a change would overwrite is saved, in up to `saved_bytes_max` bytes: then writers wait.
    #[must_use]
    pub fn begin_copy(&mut self, namespaces: &[u16], saved_bytes_max: u64) -> Option<Walk> {
        debug_assert!(
            step!(RaiseAlone, self.session.local.participant.has_gate_closed(), else true),
            "INV-COPY-1: no unit of work is on both sides of the moment"
        );
        self.session.store.begin_copy(namespaces, saved_bytes_max).then(|| Walk::new(true))
    }
}

/// Parts into which a walk can be divided: as many as the smallest index has buckets, so that no bucket is in two of them.
const PARTS_MAX: u64 = BUCKETS_MIN;

impl Walk {
    /// The walk through one of several parts of all records, a power of two up to 1,024, as they are when it meets them, with the
    /// sequences of their last effects; changes are not held up. Records that expired are copied, too.
    #[must_use]
    pub fn part(part: u64, parts: u64) -> Self {
        let parts = parts.clamp(1, PARTS_MAX);
        debug_assert!(parts.is_power_of_two() && part < parts, "INV-SCAN-1: no bucket is in two parts of a walk");
        let begin = |part: u64| ((u128::from(part) << u64::BITS) / u128::from(parts)) as u64;
        Self { position: begin(part), begin: begin(part), end: begin(part + 1), ..Self::new(false) }
    }

    /// As [`Walk::part`]: keys whose records lie on the device below this address are named ([`Records::cold`]), not copied. Space
    /// on the device is kept meanwhile ([`crate::StoreDevice::begin_base`]).
    #[must_use]
    pub fn part_above(part: u64, parts: u64, below: u64) -> Self {
        Self { below, later: Some(Later::default()), ..Self::part(part, parts) }
    }

    fn new(of_moment: bool) -> Self {
        let (stage, fetcher) = (Stage::default(), Fetcher::default());
        Self {
            position: 0,
            begin: 0,
            end: 0,
            ended: false,
            of_moment,
            below: 0,
            later: None,
            has_named: false,
            stage,
            fetcher,
            entries: Vec::with_capacity(64),
        }
    }

    /// How much of a walk through all records is done, in parts of a million.
    #[must_use]
    pub fn millionths(&self) -> u64 {
        if self.ended { 1_000_000 } else { ((u128::from(self.position) * 1_000_000) >> u64::BITS) as u64 }
    }

    /// The position behind what it has passed, in the order of scans; 0 at the end of the last part.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Records that could not be copied: they were damaged on the device and had to be given up since the walk has begun.
    #[must_use]
    pub fn lost(&self, store: &Store) -> u64 {
        if self.of_moment { store.inner.consumers.copying.lost() } else { 0 }
    }

    /// Copies the records of a slice to `records`, which are behind what it has; false: that was the last one. Outside of a batch.
    ///
    /// # Errors
    /// When a record on the device cannot be read; the next call tries again.
    pub fn next(&mut self, session: &mut Session, records: &mut Records) -> Result<bool, Missing> {
        debug_assert!(!session.holds_latches(), "INV-LATCH-3: a walk latches by itself");
        debug_assert!(!session.local.participant.is_inside(), "INV-LATCH-2: a walk rests outside of epochs");
        if self.ended {
            return self.next_of_pages(session, records);
        }
        let from = self.position;
        let mut wanted = session.cold().take_wanted();
        debug_assert!(wanted.is_empty() || session.store.tier.is_some(), "INV-TIER-1: without a device nothing is cold");
        session.cold().stage_blocking(&mut wanted, &mut self.stage, &mut self.fetcher);
        let now_ms = session.now_ms();
        session.enter(now_ms);
        session.staging().attach(std::mem::take(&mut self.stage));
        let copied = self.slice(session, records);
        let mut stage = session.staging().detach_quietly();
        session.leave();
        self.fetcher.reclaim(&mut stage);
        if self.of_moment {
            // Outside of the epoch: a part that is taken may be large.
            session.store.consumers.copying.take_passed(from, records);
            session.store.resume_writers();
        }
        copied?;
        Ok(!self.ended || self.later.as_ref().is_some_and(Later::has_more))
    }

    /// Copies the records of some buckets. An error: one cannot be read.
    fn slice(&mut self, session: &mut Session, records: &mut Records) -> Result<(), Missing> {
        debug_assert!(session.local.participant.is_inside(), "INV-FREE-1: a record is copied in the epoch in which it was found");
        let store = Arc::clone(&session.store);
        let mut ahead = 0;
        let mut position = self.position;
        let mut outcome = Ok(());
        let begun = records.bytes_len();
        for _ in 0..BUCKETS_PER_SLICE {
            let latch = store.index.lock_shared(position.reverse_bits());
            let number = latch.number();
            // Latched, the bucket cannot split or merge, so its range is fixed.
            let range = range_len(number, store.index.len());
            let next = (position & !(range - 1)).wrapping_add(range);
            prefetch(&store, session.local.head, next, range);
            self.entries.clear();
            store.index.collect(number, &mut self.entries);
            let before = records.end();
            let copied = self.bucket(session, &store, position, ahead != 0, records);
            if copied.is_err() {
                records.truncate(before);
            }
            match (copied, ahead) {
                (Ok(()), 0) => {
                    debug_assert!(next == 0 || next > self.position, "INV-SCAN-1: a walk goes forward");
                    self.position = next;
                    self.ended = next == self.end;
                    if self.of_moment {
                        store.consumers.copying.pass(next);
                    }
                }
                (Err(missing), 0) if missing != Missing::Cold => outcome = Err(missing),
                _ => ahead += 1,
            }
            drop(latch);
            position = next;
            let full = records.bytes_len() - begun >= BYTES_PER_SLICE;
            if position == self.end || full || ahead >= BUCKETS_AHEAD || session.cold().wanted() >= WANTED_MAX || outcome.is_err() {
                break;
            }
        }
        outcome
    }

    /// Copies the records of a latched bucket from a position on; `ahead`: only looks which are on the device.
    fn bucket(
        &mut self,
        session: &Session,
        store: &Shared,
        position: u64,
        ahead: bool,
        records: &mut Records,
    ) -> Result<(), Missing> {
        debug_assert!(
            store.index.bucket(Index::bucket_of(position.reverse_bits(), store.index.len())).is_latched(),
            "INV-COPY-1: a bucket is copied under its latch"
        );
        let head = session.local.head;
        self.entries.iter().map(|entry| entry.address()).filter(|&address| address >= head).for_each(|it| store.log.prefetch(it));
        let mut whole = Ok(());
        for entry in &self.entries {
            let address = entry.address();
            let resident = (address >= head).then(|| {
                // SAFETY: read from a latched bucket inside the epoch.
                let record = unsafe { store.log.record(address) };
                (record, record.header())
            });
            let original = match resident {
                None => address,
                Some((record, header)) if header.has(Header::CACHED) => record.original(header),
                Some(_) => u64::MAX,
            };
            if original < self.below
                && let Some(passed) = self.cold(store, position, *entry, original)
            {
                if let Some(cold) = passed.filter(|_| !ahead && whole.is_ok() && !self.has_named) {
                    records.push_cold(ColdKey { was_copied: resident.is_some(), ..cold });
                }
                continue;
            }
            let (record, header) = if let Some(resident) = resident {
                resident
            } else if self.is_left_out(store, address)
                || self.later.as_mut().is_some_and(|later| later.note(store, self.below, address))
            {
                continue;
            } else {
                match session.scan_cold(address) {
                    Ok(Some(staged)) => staged,
                    Ok(None) => {
                        whole = Err(Missing::Unreadable);
                        continue;
                    }
                    Err(missing) => {
                        // What can be read is read first.
                        whole = if missing == Missing::Cold { Err(missing) } else { whole.and(Err(missing)) };
                        continue;
                    }
                }
            };
            if !ahead && whole.is_ok() {
                self.record(store, position, (record, header, entry.heat()), records);
            }
        }
        if whole == Err(Missing::Cold) {
            // The stage goes with this slice: what of the bucket is in it is read again with the rest. Else two parts of a bucket
            // might be read in turns for ever.
            step!(StageWhole, session.want_again(self.entries.iter().map(|entry| entry.address()).filter(|it| *it < head)));
        }
        whole
    }

    /// What names a record on the device; nothing if the walk has passed its key before. None: that cannot be told without its key.
    #[allow(clippy::option_option, reason = "unknown, passed, or named")]
    fn cold(&self, store: &Shared, position: u64, entry: Entry, address: u64) -> Option<Option<ColdKey>> {
        if self.is_left_out(store, address) {
            return Some(None);
        }
        let number = Index::bucket_of(position.reverse_bits(), store.index.len());
        let level = Index::level(number, store.index.len());
        let known_bits = level + entry.known_bits();
        debug_assert!(address < self.below && known_bits <= u64::BITS, "INV-RETAIN-1: a base names what lies below");
        let hash = number & ((1 << level) - 1) | entry.known_hash() << level;
        // The positions that keys with these bits may have.
        let (first, range) = (hash.reverse_bits(), u64::MAX.checked_shr(known_bits).unwrap_or(0));
        if first + range < position {
            return Some(None);
        }
        (first >= position).then_some(Some(ColdKey { address, hash, known_bits, heat: entry.heat(), was_copied: false }))
    }

    fn record(&self, store: &Shared, position: u64, (record, header, heat): (Record, Header, u64), records: &mut Records) {
        let namespace = header.namespace();
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        if header.has(Header::DEAD) || !self.takes(store, namespace) {
            return;
        }
        let key = store.key_of(record, header);
        let hash = store.hash(namespace, key);
        if hash.reverse_bits() < position {
            return;
        }
        if self.of_moment && store.consumers.copying.is_saved(hash, || store.mark(namespace, key)) {
            return;
        }
        let consumers = &store.consumers;
        debug_assert!(
            store.index.bucket(Index::bucket_of(hash, store.index.len())).is_latched(),
            "INV-BASE-1: value and number are of one moment"
        );
        let (sequence, generation) = match self.of_moment {
            true => (0, 0),
            false => (step!(DumpedNumber, consumers.last_sequence(hash), else 0), consumers.generation(namespace)),
        };
        records.push(namespace, key, record, header, Beside { heat, sequence, generation });
    }

    /// Whether a namespace's records are copied.
    fn takes(&self, store: &Shared, namespace: u16) -> bool {
        debug_assert!(!self.ended || !self.of_moment, "INV-COPY-1: what is behind the walk is no part of it");
        if self.of_moment { store.consumers.copying.has(namespace) } else { !store.namespaces.is_dropped(namespace) }
    }

    /// Whether all records of the page on the device that holds `address` belong to a namespace that is not copied.
    fn is_left_out(&self, store: &Shared, address: u64) -> bool {
        let info = store.tier.as_ref().and_then(|tier| tier.pages.info(Log::page_of(address)));
        let namespace =
            info.filter(|info| info.namespace() != PageInfo::MIXED).and_then(|info| u16::try_from(info.namespace()).ok());
        namespace.is_some_and(|namespace| namespace != 0 && !self.takes(store, namespace))
    }
}

/// Asks the cache, while a bucket is copied, for the records of the next one, whose own line was asked for before, and for the line
/// of the one behind that.
fn prefetch(store: &Shared, head: u64, next: u64, range: u64) {
    let bucket_of = |position: u64| Index::bucket_of(position.reverse_bits(), store.index.len());
    store.index.prefetch_bucket(bucket_of(next.wrapping_add(range)));
    let addresses = store.index.hints(bucket_of(next)).map(Entry::address);
    addresses.filter(|&address| address >= head).for_each(|address| store.log.prefetch_lines(address));
}
