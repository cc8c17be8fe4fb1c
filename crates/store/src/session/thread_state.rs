//! The part of a session that only its thread touches.

use crate::changes::Changes;
use crate::changes::events::Events;
use crate::counters::ThreadCounters;
use crate::free::FreeSpace;
use crate::index::entry::Entry;
use crate::log::Chunk;
use crate::record::WORD;
use crate::record::key::ReadyKey;
use crate::session::cold::staged::ColdSide;
use crate::session::dead_keys::DeadKeys;
use crate::session::heat::warmer::Warmer;
use crate::session::open_unit::OpenUnit;
use crate::session::plan::glances::Glances;
use crate::session::plan::held::Held;
use crate::session::touched::Touched;
use crate::shared::Shared;
use almandine_epoch::Participant;
use almandine_io::clock;
use std::cell::Cell;

/// Bytes that a session allocates at most before it looks at the budget,
pub(in crate::session) const QUANTUM_BYTES_MAX: u64 = 32 * 1024;
/// and at least.
const QUANTUM_BYTES_MIN: u64 = 1024;
/// One part in this number of the budget, between these bounds, so that a small budget is kept as closely as a large one.
const QUANTUM_SHARE: u64 = 1024;

/// What operations leave to what comes after them.
#[derive(Default)]
pub(in crate::session) struct Noted {
    /// Whether a read has met a record past its time.
    pub(in crate::session) met_expired: Cell<bool>,
    /// Changes since the owner asked last, while there is a consumer.
    pub(in crate::session) changes: Changes,
    /// Changed keys that have waiters.
    pub(in crate::session) ready: Vec<ReadyKey>,
    /// What befell the keys of the command, until it is told.
    pub(in crate::session) events: Events,
    /// The unit of work that has changed something and has not ended.
    pub(in crate::session) unit: OpenUnit,
    /// The unit of work goes on in another batch.
    pub(in crate::session) group_open: bool,
}

/// What a session has allocated since it looked at the budget.
pub(crate) struct Allocated {
    /// Words, those of heap values too.
    pub(crate) words: usize,
    /// How many that may be.
    pub(in crate::session) quantum_words: usize,
}

/// The part of a session that only its thread touches. It begins with a line of the cache: elsewhere fields that are used together
/// lie in two of them, and a pipelined SET takes a tenth longer.
#[repr(align(64))]
pub(crate) struct ThreadState {
    pub(in crate::session) participant: Participant,
    pub(crate) thread: usize,
    pub(in crate::session) chunk: Chunk,
    /// Space for cached copies.
    pub(in crate::session) cache_chunk: Chunk,
    /// The log's head when the batch began: what lies above stays readable until it ends.
    pub(crate) head: u64,
    pub(in crate::session) cold: ColdSide,
    pub(crate) free: FreeSpace,
    pub(in crate::session) dead_keys: DeadKeys,
    pub(in crate::session) held: Held,
    /// Of the keys that are about to be used.
    pub(in crate::session) glances: Glances,
    pub(crate) now_ms: i64,
    pub(crate) heat: Warmer,
    pub(crate) allocated: Allocated,
    /// Scratch space of eviction: buckets and entries.
    pub(crate) victims: Vec<(u64, Entry)>,
    pub(in crate::session) notes: Noted,
    /// What debug builds check when the batch ends.
    pub(in crate::session) touched: Touched,
}

impl ThreadState {
    pub(in crate::session) fn new(participant: Participant, thread: usize) -> Self {
        Self {
            participant,
            thread,
            chunk: Chunk::default(),
            cache_chunk: Chunk::default(),
            head: 0,
            cold: ColdSide::default(),
            free: FreeSpace::new(),
            dead_keys: DeadKeys::default(),
            held: Held::new(),
            glances: Glances::default(),
            now_ms: clock::unix_ms(),
            heat: Warmer::new(thread),
            allocated: Allocated { words: 0, quantum_words: QUANTUM_BYTES_MIN as usize / WORD },
            victims: Vec::with_capacity(64),
            notes: Noted::default(),
            touched: Touched::default(),
        }
    }
}

/// Words that a session allocates before it looks at a budget of this many bytes; 0: none.
pub(in crate::session) fn quantum_words(budget: u64) -> usize {
    let bytes = if budget == 0 { QUANTUM_BYTES_MAX } else { (budget / QUANTUM_SHARE).clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX) };
    bytes as usize / WORD
}

impl Shared {
    #[inline]
    pub(crate) fn thread(&self, local: &ThreadState) -> &ThreadCounters {
        &self.counters.threads[local.thread]
    }
}
