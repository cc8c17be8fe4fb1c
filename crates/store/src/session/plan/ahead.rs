//! Elements ahead of their look-ups: of keys that were glanced at and are objects, what leads to an element is fetched step by
//! step, each step for many keys, so that the misses overlap.
//!
//! The steps follow references within objects, so the buckets are latched shared meanwhile. It waits for no thread: a bucket
//! that a writer is in, or that has changed since the glance, is passed over.

use crate::index::Peek;
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
    /// Keys that are about to be used: their cache lines are asked for together.
    #[inline]
    pub fn ahead(&mut self) -> Ahead<'_> {
        Ahead { session: self }
    }

    /// Asks the cache for the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.store.index.prefetch(hash);
    }

    /// Asks the cache for the record that the bucket of a hash (already asked for) points to. Returns false when the key
    /// may be in an overflow bucket: then that is on its way, and [`Session::prefetch_overflow`] asks for the record later.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) -> bool {
        match self.store.index.peek(hash) {
            Peek::Record(address) => {
                // What is on the device has no line to ask for.
                if address >= self.local.head {
                    self.store.log.prefetch(address);
                }
                true
            }
            Peek::Nothing => true,
            Peek::Overflow => false,
        }
    }

    /// The second half of [`Session::prefetch_record`] for keys in overflow buckets.
    #[inline]
    pub(crate) fn prefetch_overflow(&self, hash: u64) {
        if let Some(address) = self.store.index.peek_overflow(hash) {
            self.store.log.prefetch(address);
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

/// Keys that are about to be used: their cache lines are asked for together.
pub struct Ahead<'s> {
    session: &'s mut Session,
}

impl Ahead<'_> {
    /// Begins a group of keys, and forgets the one before.
    #[inline]
    pub fn forget_glances(&mut self) {
        self.session.local.glances.clear();
    }

    /// A key will be used soon, together with others of its group: asks the cache for its bucket. The result belongs into the
    /// [`Key`].
    #[inline]
    pub fn expect(&mut self, hash: u64) -> GlanceId {
        // Not with the records: while many lines are under way, the processor asks for no further ones.
        self.session.store.consumers.prefetch(self.session.local.thread, hash);
        self.session.local.glances.expect(&self.session.store.index, hash)
    }

    /// How many keys are expected.
    #[inline]
    #[must_use]
    pub fn expected(&self) -> usize {
        self.session.local.glances.len()
    }

    /// Glances at the buckets of the expected keys and asks the cache for their records. Inside the batch in which the keys are
    /// used.
    #[inline]
    pub fn glance(&mut self) {
        debug_assert!(
            self.session.local.participant.is_inside(),
            "INV-FREE-1: an address is used in the epoch in which it was read"
        );
        self.session.local.glances.look(&self.session.store.index, &self.session.store.log, self.session.local.head);
    }

    /// Asks the cache once more for the bucket and the record of the key behind an expected one.
    #[inline]
    pub fn prefetch_next(&self, id: GlanceId) {
        let Session { store, local } = &*self.session;
        if let Some(glance) = local.glances.behind(id) {
            store.index.prefetch(glance.hash);
            if glance.entry.address() >= local.head {
                store.log.prefetch(glance.entry.address());
            }
        }
    }

    /// Asks the cache for the bucket of a key that a lock plan will have.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.session.store.index.prefetch(hash);
    }

    /// Asks the cache for elements.
    pub fn prefetch_elements(&self, wanted: &[Expected]) {
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-3: who has a lock plan latches nothing beside it");
        debug_assert!(
            self.session.local.participant.is_inside(),
            "INV-FREE-1: a record is read in the epoch in which it was found"
        );
        for together in wanted.chunks(TOGETHER) {
            self.session.prefetch_handles(together);
            let mut latches: [Option<SharedLatch<'_>>; TOGETHER] = [const { None }; TOGETHER];
            let mut objects: [Option<(&dyn Object, Expected)>; TOGETHER] = [None; TOGETHER];
            for (at, &expected) in together.iter().enumerate() {
                objects[at] = self.session.object_ahead(expected.key, &mut latches, at).map(|object| (object, expected));
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
}
