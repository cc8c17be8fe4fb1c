//! A session: one thread's way into the store.
//!
//! It owns what its thread needs to work alone: an epoch slot, a chunk of the tail, bins of freed space, its counters. The
//! verbs are in the files beside: `read`, `entry` (upsert, modify and delete are ways to use an entry), `lock`, `scan`.

pub(crate) mod allocate;
pub(crate) mod cold;
mod entry;
pub(crate) mod heat;
mod lock;
mod read;
pub(crate) mod remove;
mod scan;

pub use cold::{Met, Need};
pub use entry::{Occupied, Put, Slot, Vacant};
pub use read::View;

use crate::counters::ThreadCounters;
use crate::free::FreeSpace;
use crate::index::Peek;
use crate::log::Chunk;
use crate::record::{Header, Record};
use crate::store::Inner;
use almandine_epoch::Participant;
use std::sync::Arc;

/// Limbo records after which a session moves the epoch itself instead of waiting for the background.
const LIMBO_BEFORE_BUMP: usize = 128;
/// Limbo records that one batch settles at most.
const SETTLE_PER_BATCH: usize = 1024;
/// Words that a session allocates before it looks at the budget.
const QUANTUM_WORDS: usize = crate::evict::sweep::QUANTUM_BYTES as usize / crate::record::WORD;

/// A key with what was computed about it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// The namespace that the key is in.
    pub namespace: u16,
    /// The key itself.
    pub bytes: &'k [u8],
    /// Its hash, from [`Session::hash`].
    pub hash: u64,
}

/// The store cannot take another record: the log's address ring or the index is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the store is full: its log or index has no space left")
    }
}

impl std::error::Error for Full {}

/// A thread's session with the store. Enter it, do a batch of operations, leave it.
pub struct Session {
    pub(crate) store: Arc<Inner>,
    pub(crate) local: Local,
}

/// The part of a session that only its thread touches.
pub(crate) struct Local {
    participant: Participant,
    pub(crate) thread: usize,
    chunk: Chunk,
    /// Space for cached copies.
    cache_chunk: Chunk,
    /// The log's head when the batch began: what lies above stays readable until it ends.
    pub(crate) head: u64,
    /// Whether this batch had better look at what it overwrites.
    looks_first: bool,
    cold: cold::ColdSide,
    pub(crate) free: FreeSpace,
    held: Vec<lock::Held>,
    pub(crate) now_ms: i64,
    pub(crate) heat: heat::Warmer,
    /// Words allocated since the last look at the budget; those of heap values too.
    pub(crate) allocated_words: usize,
    /// Scratch space of eviction: buckets and entries.
    pub(crate) victims: Vec<(u64, crate::index::entry::Entry)>,
    /// Whether a read has met a record past its time.
    met_expired: std::cell::Cell<bool>,
}

impl Session {
    pub(crate) fn new(store: Arc<Inner>, participant: Participant, thread: usize) -> Self {
        let local = Local {
            participant,
            thread,
            chunk: Chunk::default(),
            cache_chunk: Chunk::default(),
            head: 0,
            looks_first: false,
            cold: cold::ColdSide::default(),
            free: FreeSpace::new(),
            held: Vec::with_capacity(64),
            now_ms: almandine_io::clock::unix_ms(),
            heat: heat::Warmer::new(thread),
            allocated_words: 0,
            victims: Vec::with_capacity(64),
            met_expired: std::cell::Cell::new(false),
        };
        Self { store, local }
    }

    /// Begins a batch: from here on, what is read stays readable. `now_ms` is the time by which records expire.
    #[inline]
    pub fn enter(&mut self, now_ms: i64) {
        self.local.now_ms = now_ms;
        self.local.participant.enter();
        // After entering: a head that moves later leaves its pages in memory until this batch has ended (INV-TIER-1).
        self.local.head = self.store.log.head();
        if self.local.head != 0 {
            self.local.looks_first = self.store.tier.as_ref().is_some_and(crate::tier::Tier::is_backlogged);
        }
    }

    /// Ends a batch.
    #[inline]
    pub fn leave(&mut self) {
        debug_assert!(self.local.held.is_empty(), "INV-LATCH-2: no latch outlives its batch");
        self.look_at_budget();
        self.local.participant.leave();
        if self.local.free.limbo_len() != 0 {
            self.settle();
        }
    }

    /// As [`crate::Store::is_choked`].
    #[must_use]
    pub fn is_choked(&self) -> bool {
        self.store.tier.as_ref().is_some_and(|tier| tier.is_choked(self.store.log.pages.resident()))
    }

    /// Makes room when enough has been allocated since the last look. Inside the epoch, without latches.
    #[inline]
    pub(crate) fn look_at_budget(&mut self) {
        if self.local.allocated_words >= QUANTUM_WORDS {
            self.make_room();
        }
    }

    /// The time of the batch in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.local.now_ms
    }

    /// The hash of a key.
    #[inline]
    #[must_use]
    pub fn hash(&self, namespace: u16, key: &[u8]) -> u64 {
        self.store.hash(namespace, key)
    }

    /// A key with its hash.
    #[inline]
    #[must_use]
    pub fn key<'k>(&self, namespace: u16, bytes: &'k [u8]) -> Key<'k> {
        Key { namespace, bytes, hash: self.hash(namespace, bytes) }
    }

    /// Asks the cache for the bucket of a hash.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.store.index.prefetch(hash);
    }

    /// Asks the cache for the record that the bucket of a hash (already asked for) points to. Returns false when the key
    /// may be in an overflow slot: then that slot is on its way, and [`Session::prefetch_overflow`] asks for the record later.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) -> bool {
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

    /// The second half of [`Session::prefetch_record`] for keys in overflow slots.
    #[inline]
    pub fn prefetch_overflow(&self, hash: u64) {
        if let Some(address) = self.store.index.peek_overflow(hash) {
            self.store.log.prefetch(address);
        }
    }

    fn settle(&mut self) {
        let epoch = &self.store.epoch;
        if self.local.free.limbo_len() >= LIMBO_BEFORE_BUMP {
            epoch.bump();
        }
        self.local.free.settle(epoch.safe(), &self.store.log, SETTLE_PER_BATCH);
        self.local.free.share(&self.store.shared_free, false);
    }

    /// Passes all freed space on to the other sessions. For threads that free and do not allocate.
    pub(crate) fn surrender_free_space(&mut self) {
        self.local.free.settle(self.store.epoch.safe(), &self.store.log, usize::MAX);
        self.local.free.share(&self.store.shared_free, true);
    }
}

impl Inner {
    #[inline]
    pub(crate) fn thread(&self, local: &Local) -> &ThreadCounters {
        &self.counters.threads[local.thread]
    }

    /// The live record of `key` at `address`, if that is what is there.
    #[inline]
    pub(crate) fn match_record(&self, address: u64, key: &Key<'_>) -> Option<(Record, Header)> {
        // SAFETY: the address was read from the index inside the epoch.
        let record = unsafe { self.log.record(address) };
        let header = record.header();
        self.matches_key(record, header, key).then_some((record, header))
    }

    /// Whether a record is live and the key's.
    #[inline]
    pub(crate) fn matches_key(&self, record: Record, header: Header, key: &Key<'_>) -> bool {
        if header.matches(Header::identity(key.namespace, key.bytes.len())) {
            return key.bytes.len() == header.key_len() && record.key_equals(key.bytes);
        }
        self.matches_heap_key(record, header, key)
    }

    #[cold]
    fn matches_heap_key(&self, record: Record, header: Header, key: &Key<'_>) -> bool {
        header.has(Header::HEAP_KEY)
            && !header.has(Header::DEAD)
            && header.namespace() == key.namespace
            && self.key_of(record, header) == key.bytes
    }

    /// The key of a record.
    #[inline]
    pub(crate) fn key_of<'r>(&self, record: Record, header: Header) -> &'r [u8] {
        if header.has(Header::HEAP_KEY) {
            // SAFETY: the record is read inside the epoch, and its key is freed only after it.
            unsafe { crate::heap::HeapKey::bytes(record.key_handle()) }
        } else {
            record.key_field(header)
        }
    }

    /// The hash of the key of the record at `address`, if it is in memory for a session that saw `head`.
    pub(crate) fn hash_at(&self, address: u64, head: u64) -> Option<u64> {
        (address >= head).then(|| {
            // SAFETY: callers read the address from a latched bucket inside the epoch.
            let record = unsafe { self.log.record(address) };
            self.hash_of(record, record.header())
        })
    }

    /// The hash of a record's key.
    pub(crate) fn hash_of(&self, record: Record, header: Header) -> u64 {
        self.hash(header.namespace(), self.key_of(record, header))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.retire_chunk();
        self.surrender_free_space();
        self.store.release_thread(self.local.thread);
    }
}

/// The page number that says "no open chunk".
pub(crate) const NO_PAGE: u64 = u64::MAX;

impl Session {
    fn retire_chunk(&mut self) {
        let Self { store, local } = self;
        allocate::abandon_chunk(store, local);
        store.active_pages[local.thread].store(NO_PAGE, std::sync::atomic::Ordering::Release);
    }
}
