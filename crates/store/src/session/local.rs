//! The part of a session that only its thread touches.

use super::staged::ColdSide;
use super::warmer::Warmer;
use crate::counters::ThreadCounters;
use crate::free::FreeSpace;
use crate::index::Index;
use crate::index::entry::Entry;
use crate::log::Chunk;
use crate::record::WORD;
use crate::shared::Inner;
use almandine_epoch::Participant;
use almandine_io::clock;
use std::cell::Cell;

/// Bytes that a session allocates before it looks at the budget.
pub(super) const QUANTUM_BYTES: u64 = 32 * 1024;
/// The same in words.
pub(super) const QUANTUM_WORDS: usize = QUANTUM_BYTES as usize / WORD;

/// The latches of a lock plan.
pub(super) struct Held {
    /// Their buckets, ascending.
    numbers: Vec<u64>,
    /// So many of them have been latched.
    taken: usize,
    exclusive: bool,
}

impl Held {
    fn new() -> Self {
        Self { numbers: Vec::with_capacity(64), taken: 0, exclusive: false }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether the bucket is one of them.
    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }

    /// Latches the bucket of a hash.
    pub(super) fn take_one(&mut self, index: &Index, hash: u64, exclusive: bool) {
        let number = if exclusive { index.lock_exclusive(hash).keep() } else { index.lock_shared(hash).keep() };
        self.numbers.push(number);
        (self.taken, self.exclusive) = (1, exclusive);
    }

    /// Latches the buckets that the hashes belong to while there are so many buckets.
    pub(super) fn take(&mut self, index: &Index, hashes: &[u64], buckets: u64, exclusive: bool) {
        debug_assert!(self.numbers.is_empty() && self.taken == 0, "INV-LATCH-3: one lock plan at a time");
        self.exclusive = exclusive;
        self.numbers.extend(hashes.iter().map(|&hash| Index::bucket_of(hash, buckets)));
        self.numbers.sort_unstable();
        self.numbers.dedup();
        for &number in &self.numbers {
            let kept = if exclusive { index.latch(number).keep() } else { index.latch_shared(number).keep() };
            debug_assert_eq!(kept, number);
            self.taken += 1;
        }
    }

    /// Releases them all.
    pub(super) fn release(&mut self, index: &Index) {
        let taken = std::mem::take(&mut self.taken);
        self.numbers.drain(..).take(taken).for_each(|number| index.unlatch(number, self.exclusive));
    }
}

/// The part of a session that only its thread touches.
pub(crate) struct Local {
    pub(super) participant: Participant,
    pub(crate) thread: usize,
    pub(super) chunk: Chunk,
    /// Space for cached copies.
    pub(super) cache_chunk: Chunk,
    /// The log's head when the batch began: what lies above stays readable until it ends.
    pub(crate) head: u64,
    /// Whether this batch had better look at what it overwrites.
    pub(super) reads_before_write: bool,
    pub(super) cold: ColdSide,
    pub(crate) free: FreeSpace,
    pub(super) held: Held,
    pub(crate) now_ms: i64,
    pub(crate) heat: Warmer,
    /// Words allocated since the last look at the budget; those of heap values too.
    pub(crate) allocated_words: usize,
    /// Scratch space of eviction: buckets and entries.
    pub(crate) victims: Vec<(u64, Entry)>,
    /// Whether a read has met a record past its time.
    pub(super) met_expired: Cell<bool>,
}

impl Local {
    pub(super) fn new(participant: Participant, thread: usize) -> Self {
        Self {
            participant,
            thread,
            chunk: Chunk::default(),
            cache_chunk: Chunk::default(),
            head: 0,
            reads_before_write: false,
            cold: ColdSide::default(),
            free: FreeSpace::new(),
            held: Held::new(),
            now_ms: clock::unix_ms(),
            heat: Warmer::new(thread),
            allocated_words: 0,
            victims: Vec::with_capacity(64),
            met_expired: Cell::new(false),
        }
    }
}

impl Inner {
    #[inline]
    pub(crate) fn thread(&self, local: &Local) -> &ThreadCounters {
        &self.counters.threads[local.thread]
    }
}
