//! A copy of one moment while sessions write.
//!
//! The moment is taken while all sessions are kept out ([`crate::Plan::begin_alone`]): the flag [`Consumer::Copy`] goes up, and
//! the namespaces that databases consist of are noted. From then on a walk passes all buckets in the order of scans, and copies
//! the records that it meets. Where it has not been yet, the first change of a key, whether by a session, by expiry or by
//! eviction, *saves* what was there, absence too, under the latch of the key's bucket (INV-COPY-1):
//!
//! ```text
//!    reversed hash   0 ─────────────── passed ───────────────── end
//!    a change           just happens   │   saves what was there
//!    the walk           has copied     │   copies what is there, unless something was saved instead
//! ```
//! What the walk has copied and what was saved are together the state of that moment. The walk shares each bucket's latch while it
//! copies, and moves `passed` behind the bucket under that latch, so a change sees one side or the other. A bucket covers one
//! range of reversed hashes at any size of the index, so growing and shrinking do not matter.
//!
//! What was saved is kept by parts of that order; the walk takes a part when it has passed it. When more is saved than there is
//! room for, writers are asked to wait as behind a slow device ([`crate::Store::is_stalled`]), nothing is evicted and nothing that
//! has expired is removed, until the walk has made room. A namespace of the copy that is dropped meanwhile is garbage only when
//! the copy has ended.
//!
//! While nothing is copied, a look-up for a change costs one test of the consumers' word.

mod chunks;
mod marks;
pub(crate) mod records;
mod saved;

use crate::index::Index;
use crate::namespace::NAMESPACES;
use crate::record::key::Key;
use crate::record::{Header, Record};
use crate::shared::Shared;
use crate::shared::consumers::Consumer;
use almandine_base::step;
use almandine_io::sync::Mutex;
use records::Records;
use saved::Saved;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};

/// The consumer's bit.
pub(crate) const COPY: u32 = Consumer::Copy as u32;
/// How far a walk has come that has passed everything. Places are halved, so that this is beyond all of them.
const END: u64 = 1 << 63;

/// What sessions and the walk tell each other.
pub(crate) struct Copying {
    running: AtomicBool,
    /// The walk has passed the positions, halved, below. Written by the walk under the latch of the last bucket.
    passed: AtomicU64,
    /// Namespaces that are copied. Written while all sessions are kept out.
    namespaces: Box<[AtomicU64]>,
    saved: OnceLock<Saved>,
    bytes_max: AtomicU64,
    /// Whether more is saved than `bytes_max`. Set by sessions, cleared by the walk.
    full: AtomicBool,
    /// Records that were damaged on the device and had to be given up before the walk came.
    lost: AtomicU64,
    /// Namespaces that were dropped while they are copied.
    retained: Mutex<Vec<u16>>,
}

impl Default for Copying {
    fn default() -> Self {
        Self {
            running: AtomicBool::new(false),
            passed: AtomicU64::new(END),
            namespaces: (0..NAMESPACES / 64).map(|_| AtomicU64::new(0)).collect(),
            saved: OnceLock::new(),
            bytes_max: AtomicU64::new(0),
            full: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            retained: Mutex::new(Vec::new()),
        }
    }
}

impl Copying {
    /// Whether a namespace is part of the copy.
    #[inline]
    pub(crate) fn has(&self, namespace: u16) -> bool {
        self.namespaces[usize::from(namespace) / 64].load(Ordering::Relaxed) & (1 << (namespace % 64)) != 0
    }

    /// Whether the walk has passed the keys with this hash. Their bucket is latched.
    fn has_passed(&self, hash: u64) -> bool {
        debug_assert!(self.passed.load(Ordering::Relaxed) <= END, "INV-COPY-1: positions are halved");
        hash.reverse_bits() >> 1 < self.passed.load(Ordering::Acquire)
    }

    /// Asks the cache for what saving the keys of this hash looks at.
    #[inline]
    pub(crate) fn prefetch(&self, thread: usize, hash: u64) {
        if let Some(saved) = self.saved.get()
            && !self.has_passed(hash)
        {
            saved.prefetch(thread, hash);
        }
    }

    /// Bytes of what is saved.
    pub(crate) fn bytes(&self) -> u64 {
        self.saved.get().map_or(0, Saved::bytes)
    }

    /// Whether sessions should change nothing that they need not change.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Touches a piece of the memory that sessions save to next: they need not wait for the system then. Whether there is more to
    /// do. For the background.
    pub(crate) fn touch_ahead(&self) -> bool {
        self.saved.get().is_some_and(Saved::touch_ahead)
    }

    /// Records that were lost before the walk came.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Counts a record that cannot be copied any more.
    pub(crate) fn count_lost(&self) {
        debug_assert!(self.saved.get().is_some(), "INV-COPY-1: only a copy loses records");
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps a namespace that is dropped until the copy ends. False: it is not part of one.
    pub(crate) fn retain(&self, namespace: u16) -> bool {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        let part = self.running.load(Ordering::Relaxed) && self.has(namespace);
        if part {
            retained.push(namespace);
        }
        part
    }

    /// Whether something was saved of a key instead of what its record says. `mark`: another hash of the key.
    pub(crate) fn is_saved(&self, hash: u64, mark: impl FnOnce() -> u64) -> bool {
        self.saved.get().is_some_and(|saved| saved.is_any() && saved.has(hash, mark()))
    }

    /// The walk has passed all positions below `position`; 0: all. The last bucket is latched.
    pub(crate) fn pass(&self, position: u64) {
        let passed = if position == 0 { END } else { position >> 1 };
        debug_assert!(passed >= self.passed.load(Ordering::Relaxed), "INV-COPY-1: the walk goes forward");
        self.passed.store(passed, Ordering::Release);
    }

    /// Takes what was saved of positions from `from` on whose part the walk has passed by now.
    pub(crate) fn take_passed(&self, from: u64, into: &mut Records) {
        debug_assert!(self.running.load(Ordering::Relaxed), "INV-COPY-1: what was saved is taken by the walk of that copy");
        if let Some(saved) = self.saved.get() {
            saved.take(from, self.passed.load(Ordering::Relaxed), into);
        }
    }
}

impl Shared {
    /// Begins a copy of this moment, of these namespaces. All sessions are kept out. False: there is one already, or the system has
    /// no address space for what is saved.
    pub(crate) fn begin_copy(&self, namespaces: &[u16], bytes_max: u64) -> bool {
        let copying = &self.consumers.copying;
        if copying.running.swap(true, Ordering::AcqRel) {
            return false;
        }
        debug_assert!(!namespaces.contains(&0), "INV-NS-1: zero names no namespace");
        let made = match copying.saved.get() {
            Some(saved) => Ok(saved),
            None => Saved::new(self.threads.active_pages.len()).map(|made| copying.saved.get_or_init(|| made)),
        };
        let Ok(saved) = made else {
            copying.running.store(false, Ordering::Release);
            return false;
        };
        saved.begin(self.counters.totals().live.max(0).unsigned_abs());
        copying.namespaces.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        for &namespace in namespaces {
            copying.namespaces[usize::from(namespace) / 64].fetch_or(1 << (namespace % 64), Ordering::Relaxed);
        }
        copying.bytes_max.store(bytes_max, Ordering::Relaxed);
        copying.lost.store(0, Ordering::Relaxed);
        copying.passed.store(0, Ordering::Release);
        self.consumers.want(Consumer::Copy, true);
        true
    }

    /// Ends a copy, wherever its walk is.
    pub(crate) fn end_copy(&self) {
        let copying = &self.consumers.copying;
        debug_assert!(copying.running.load(Ordering::Relaxed), "INV-COPY-1: a copy ends once");
        copying.passed.store(END, Ordering::SeqCst);
        self.consumers.want(Consumer::Copy, false);
        if let Some(saved) = copying.saved.get() {
            saved.clear();
        }
        self.resume_writers();
        let mut retained = copying.retained.lock().unwrap_or_else(PoisonError::into_inner);
        copying.running.store(false, Ordering::Release);
        for namespace in retained.drain(..) {
            self.namespaces.mark_dropped(namespace);
        }
        drop(retained);
        self.background.waker.wake();
    }

    /// Lets writers go on when there is room for what they change.
    pub(crate) fn resume_writers(&self) {
        let copying = &self.consumers.copying;
        debug_assert!(copying.saved.get().is_some(), "INV-COPY-1: a copy has begun before its walk makes room");
        let saved = copying.saved.get().map_or(0, Saved::bytes_taken_back);
        let room = saved <= copying.bytes_max.load(Ordering::Relaxed) / 2 || copying.passed.load(Ordering::Relaxed) == END;
        if room && copying.full.swap(false, Ordering::SeqCst) {
            self.tell_stall_end();
        }
    }

    /// Saves what a key has before it changes, unless the walk has passed it or it was saved before. Its bucket is latched
    /// exclusively. `found`: its record, with its heat.
    #[cold]
    #[inline(never)]
    pub(crate) fn save_before(&self, thread: usize, key: &Key<'_>, found: Option<(Record, Header, u64)>) {
        let copying = &self.consumers.copying;
        debug_assert!(
            self.index.bucket(Index::bucket_of(key.hash, self.index.len())).is_latched_exclusively(),
            "INV-COPY-1: what a change overwrites is saved before another session can see the change"
        );
        if !copying.has(key.namespace) || copying.has_passed(key.hash) {
            return;
        }
        let Some(saved) = copying.saved.get() else { return };
        let save = || saved.save(thread, key, self.mark(key.namespace, key.bytes), found);
        let has_more = match found {
            Some(_) => save(),
            None => step!(SaveAbsence, save(), else false),
        };
        if has_more && saved.is_short() {
            self.background.waker.wake();
        }
        if has_more && saved.bytes_taken_back() > copying.bytes_max.load(Ordering::Relaxed) {
            copying.full.store(true, Ordering::SeqCst);
            // The copy may have ended meanwhile: then no walk makes room.
            if copying.passed.load(Ordering::SeqCst) == END {
                self.resume_writers();
            }
        }
    }
}
