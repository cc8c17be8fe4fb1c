//! Elements ahead of their look-ups: of keys that were glanced at and are objects, what leads to an element is fetched step by
//! step, each step for many keys, so that the misses overlap.
//!
//! The steps follow references within objects, so the buckets are latched shared meanwhile. It waits for no thread: a bucket
//! that a writer is in, or that has changed since the glance, is passed over.

use crate::index::latch::SharedLatch;
use crate::index::prefetch;
use crate::record::Header;
use crate::record::heap;
use crate::record::key::GlanceId;
use crate::session::batch::Session;
use almandine_base::object::{Object, PREFETCH_STEPS, PREFETCH_TO_WRITE};

/// Elements that are fetched together: their lines stay in the first cache level until they are used, and their latches are
/// held for a moment.
const TOGETHER: usize = 16;

/// An element that will be looked up.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The glance at its key.
    pub key: GlanceId,
    /// Its hash, as its object knows it.
    pub hash: u64,
    /// It will be changed.
    pub write: bool,
}

/// The step behind which the chunk of an element is known.
const CHUNK_KNOWN: u32 = 3;

impl Session {
    /// Asks the cache for elements.
    pub fn prefetch_elements(&self, wanted: &[Expected]) {
        debug_assert!(!self.holds_latches(), "INV-LATCH-3: who has a lock plan latches nothing beside it");
        debug_assert!(self.local.participant.is_inside(), "INV-FREE-1: a record is read in the epoch in which it was found");
        for together in wanted.chunks(TOGETHER) {
            self.prefetch_handles(together);
            let mut latches: [Option<SharedLatch<'_>>; TOGETHER] = [const { None }; TOGETHER];
            let mut objects: [Option<(&dyn Object, Expected)>; TOGETHER] = [None; TOGETHER];
            for (at, &expected) in together.iter().enumerate() {
                objects[at] = self.object_ahead(expected.key, &mut latches, at).map(|object| (object, expected));
                if let Some((object, _)) = objects[at] {
                    prefetch(std::ptr::from_ref(object).cast());
                }
            }
            for step in 0..PREFETCH_STEPS {
                for (object, expected) in objects.iter().flatten() {
                    object.prefetch(step, expected.hash, &mut |line| prefetch(line));
                    if step == CHUNK_KNOWN && expected.write {
                        object.prefetch(PREFETCH_TO_WRITE, expected.hash, &mut |line| prefetch(line));
                    }
                }
            }
            drop(latches);
        }
    }

    /// Asks the cache for the values that the records lead to. The records have been asked for.
    fn prefetch_handles(&self, wanted: &[Expected]) {
        for expected in wanted {
            if let Some(glance) = self.local.glances.seen(expected.key).filter(|glance| glance.entry.address() >= self.local.head) {
                // SAFETY: the address was read from the index in this epoch, and its page is in memory.
                let record = unsafe { self.store.log.record(glance.entry.address()) };
                let header = record.header();
                if header.has(Header::HEAP_VALUE) && header.units() > header.value_word() {
                    prefetch(record.value_handle(header) as usize as *const u8);
                }
            }
        }
    }

    /// The object of a glance, under a latch that is put to `latches` unless the bucket is latched there already.
    fn object_ahead<'s>(&'s self, id: GlanceId, latches: &mut [Option<SharedLatch<'s>>], at: usize) -> Option<&'s dyn Object> {
        let glance = self.local.glances.seen(id).filter(|glance| glance.entry.address() >= self.local.head)?;
        let held = latches[..at].iter().flatten().any(|latch| latch.number() == glance.number);
        if !held {
            latches[at] = Some(self.store.index.latch_glanced(glance)?);
        } else if !self.store.index.bucket(glance.number).is_version_of(glance.seen) {
            return None;
        }
        // SAFETY: under the latch, of a bucket that has not changed since its entry was read in this epoch.
        let record = unsafe { self.store.log.record(glance.entry.address()) };
        let header = record.header();
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: an entry leads to a live record");
        if !header.has(Header::HEAP_VALUE) {
            return None;
        }
        // SAFETY: the latch is held for as long as the reference is used, so the record keeps its own.
        unsafe { heap::value(record.value_handle(header)) }.as_object()
    }
}
