//! What was saved for a copy of one moment: by parts of the order in which its walk passes the keys.
//!
//! Each thread appends what it saves to parts of its own, so that threads do not meet; the walk takes a part from all of them when
//! it has passed it. A key is saved once, because a table of marks that all threads share says so ([`Marks`]). A save takes the
//! thread's own lock, which the walk takes once for each part, a place in the table, and room in a chunk that is in the cache.

use super::chunks::{CHUNK_BYTES, Chunk, Chunks};
use super::marks::Marks;
use super::records::{Beside, Records, encode, encode_absent};
use crate::record::heap::SharedValue;
use crate::record::key::Key;
use crate::record::{Header, Record};
use almandine_base::step;
use almandine_io::memory;
use almandine_io::sync::Mutex;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};

/// Parts: few enough that the ends of a thread's are in the cache, and enough that the walk takes memory back soon.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 8;
/// Lines that a copy of a small record takes.
const COPY_LINES: usize = 3;
const LINE_BYTES: usize = 64;

/// What was saved.
pub(super) struct Saved {
    marks: Marks,
    chunks: Chunks,
    threads: Box<[OnceLock<Thread>]>,
    /// Bytes of large values that are held.
    held: AtomicU64,
}

/// What a thread has saved.
struct Thread {
    parts: CachePadded<Mutex<Parts>>,
    /// Where its next copy goes in each part, for [`Saved::prefetch`], which takes no lock.
    ends: Box<[AtomicPtr<u8>]>,
}

struct Parts(Box<[Part]>);

/// Copies of records, one behind the other in chunks.
#[derive(Default)]
struct Part {
    chunks: Vec<Chunk>,
    /// Bytes of the last chunk that are filled.
    filled: usize,
    /// Records, those of absent keys included.
    len: usize,
    shared: Vec<SharedValue>,
    held: u64,
}

impl Part {
    /// Where the next copy begins, if its chunk has room.
    fn end(&self, pool: &Chunks) -> *mut u8 {
        self.chunks.last().map_or(std::ptr::null_mut(), |chunk| pool.bytes_of(chunk).as_ptr().wrapping_add(self.filled).cast_mut())
    }

    fn put(&mut self, pool: &Chunks, mut bytes: &[u8]) {
        loop {
            if let Some(chunk) = self.chunks.last_mut() {
                let room = &mut pool.bytes_of_mut(chunk)[self.filled..];
                let count = room.len().min(bytes.len());
                room[..count].copy_from_slice(&bytes[..count]);
                self.filled += count;
                debug_assert!(self.filled <= CHUNK_BYTES, "INV-COPY-1: a copy lies in its chunks");
                bytes = &bytes[count..];
            }
            if bytes.is_empty() {
                return;
            }
            self.chunks.push(pool.take());
            self.filled = 0;
        }
    }
}

impl Saved {
    /// For this many threads.
    pub(super) fn new(threads: usize) -> io::Result<Self> {
        debug_assert_ne!(threads, 0, "INV-COPY-1: a thread that saves has parts");
        let physical = memory::physical_bytes();
        let threads = (0..threads).map(|_| OnceLock::new()).collect();
        Ok(Self { marks: Marks::new(physical)?, chunks: Chunks::new(physical)?, threads, held: AtomicU64::new(0) })
    }

    /// Begins with nothing, for a copy of about this many keys. All sessions are kept out.
    pub(super) fn begin(&self, keys: u64) {
        self.clear();
        debug_assert_eq!(self.bytes(), 0, "INV-COPY-1: a copy begins with nothing");
        self.marks.begin(keys);
    }

    /// Bytes that all of it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes_taken_back() + self.marks.bytes()
    }

    /// Bytes of it that the walk takes back as it goes.
    pub(super) fn bytes_taken_back(&self) -> u64 {
        self.chunks.bytes() + self.held.load(Ordering::Relaxed)
    }

    /// Whether [`Saved::touch_ahead`] should be called soon.
    pub(super) fn is_short(&self) -> bool {
        self.chunks.is_short()
    }

    /// Touches a piece of the memory that sessions save to next; whether it was wanted. For one thread.
    pub(super) fn touch_ahead(&self) -> bool {
        self.chunks.touch_ahead()
    }

    /// Lets go of all of it.
    pub(super) fn clear(&self) {
        (0..PARTS).for_each(|part| self.take_part(part, &mut Records::default()));
        self.chunks.release();
        self.marks.clear();
    }

    /// Asks the cache for the mark of a key with this hash, and for the place of its copy: a store to memory that is not in the
    /// cache would hold up the lock behind it.
    #[inline]
    pub(super) fn prefetch(&self, thread: usize, hash: u64) {
        self.marks.prefetch(hash);
        if let Some(thread) = self.threads[thread].get() {
            let end = thread.ends[part_of(hash)].load(Ordering::Relaxed);
            (0..COPY_LINES).for_each(|line| crate::index::prefetch(end.wrapping_add(line * LINE_BYTES)));
        }
    }

    /// Saves what a key has, or that it has nothing, unless it was saved before. Its bucket is latched exclusively; `mark` is a
    /// hash of the key that its own does not tell. True when more memory is used than before.
    pub(super) fn save(&self, thread: usize, key: &Key<'_>, mark: u64, found: Option<(Record, Header, u64)>) -> bool {
        debug_assert_ne!(key.namespace, 0, "INV-NS-1: zero names no namespace");
        if !self.marks.mark(key.hash, mark) {
            return false;
        }
        let thread = self.thread(thread);
        let mut parts = thread.parts.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!(parts.0.len(), PARTS, "INV-COPY-1: the parts are the whole of the order");
        let number = part_of(key.hash);
        let part = &mut parts.0[number];
        let (chunks, held) = (part.chunks.len(), part.held);
        part.len += 1;
        match found {
            Some((record, header, heat)) => {
                let beside = Beside { heat, ..Beside::default() };
                let shared = encode(key.namespace, key.bytes, (record, header), beside, |bytes| part.put(&self.chunks, bytes));
                if let Some((value, held)) = shared {
                    part.shared.push(value);
                    part.held += held as u64;
                    self.held.fetch_add(held as u64, Ordering::Relaxed);
                }
            }
            None => encode_absent(key.namespace, key.bytes, |bytes| part.put(&self.chunks, bytes)),
        }
        thread.ends[number].store(part.end(&self.chunks), Ordering::Relaxed);
        part.chunks.len() != chunks || part.held != held
    }

    /// Whether any key was saved.
    pub(super) fn is_any(&self) -> bool {
        self.marks.is_any()
    }

    /// Whether a key was saved. Its bucket is latched.
    pub(super) fn has(&self, hash: u64, mark: u64) -> bool {
        self.marks.has(hash, mark)
    }

    /// Moves to `into` what was saved in the parts from the one of the position `from` on, as far as they end before `passed`,
    /// a halved position.
    pub(super) fn take(&self, from: u64, passed: u64, into: &mut Records) {
        let shift = u64::BITS - 1 - PART_BITS;
        debug_assert!(passed >> shift <= PARTS as u64, "INV-COPY-1: the walk ends behind the last part");
        (from >> (shift + 1)..passed >> shift).for_each(|part| self.take_part(part as usize, into));
        step!(KeepSaved, (), else self.marks.clear());
    }

    fn take_part(&self, part: usize, into: &mut Records) {
        for thread in self.threads.iter().filter_map(OnceLock::get) {
            let taken = std::mem::take(&mut thread.parts.lock().unwrap_or_else(PoisonError::into_inner).0[part]);
            let Part { chunks, filled, len, shared, held } = taken;
            self.held.fetch_sub(held, Ordering::Relaxed);
            // A process that ends by unwinding, as in a simulated crash, may have left a thread in the midst of saving.
            let is_whole = || filled <= CHUNK_BYTES && (len > 0) != chunks.is_empty();
            debug_assert!(std::thread::panicking() || is_whole(), "INV-COPY-1: a copy has bytes");
            let last = chunks.len().saturating_sub(1);
            for (number, chunk) in chunks.iter().enumerate() {
                let bytes = if number == last { filled } else { CHUNK_BYTES };
                into.extend(&self.chunks.bytes_of(chunk)[..bytes]);
            }
            into.extend_with(len, shared);
            if !chunks.is_empty() {
                self.chunks.give_back(chunks);
            }
        }
    }

    fn thread(&self, thread: usize) -> &Thread {
        self.threads[thread].get_or_init(|| {
            let parts = CachePadded::new(Mutex::new(Parts((0..PARTS).map(|_| Part::default()).collect())));
            Thread { parts, ends: (0..PARTS).map(|_| AtomicPtr::default()).collect() }
        })
    }
}

/// The part of the walk's order in which a hash is.
fn part_of(hash: u64) -> usize {
    let part = (hash.reverse_bits() >> (u64::BITS - PART_BITS)) as usize;
    debug_assert!(part < PARTS, "INV-COPY-1: the parts are the whole of the order");
    part
}
