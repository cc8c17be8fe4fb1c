//! Memory of what is saved for a copy: chunks that go round, so that a page is touched for the first time only once.
//!
//! First touches are what saving would cost most: so the memory comes in huge pages, the background touches them before sessions
//! come to them ([`Chunks::touch_ahead`]), and what the walk has taken is used again. The system has it back when nothing is saved
//! any more.

use almandine_io::memory::{HUGE_PAGE_BYTES, Reservation};
use almandine_io::sync::{Mutex, MutexGuard};
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 4096;
/// Bytes that are touched ahead of what is handed out: sessions take about fifteen milliseconds for them.
const AHEAD_BYTES: usize = 4 * HUGE_PAGE_BYTES;

/// A chunk, which is its holder's alone.
#[derive(Debug)]
pub(super) struct Chunk(u32);

/// See the module.
pub(super) struct Chunks {
    memory: Reservation,
    state: Mutex<State>,
    used: AtomicU64,
    is_short: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Chunks that were ever handed out.
    made: u32,
    free: Vec<Chunk>,
    /// Bytes from the beginning on that were touched.
    touched: usize,
}

impl State {
    /// Bytes that are touched and were not handed out.
    fn ahead(&self) -> usize {
        self.touched.saturating_sub(self.made as usize * CHUNK_BYTES) + self.free.len() * CHUNK_BYTES
    }
}

impl Chunks {
    pub(super) fn new(physical_bytes: u64) -> io::Result<Self> {
        let memory = Reservation::new(usize::try_from(physical_bytes).map_err(io::Error::other)?)?;
        Ok(Self { memory, state: Mutex::default(), used: AtomicU64::new(0), is_short: AtomicBool::new(false) })
    }

    /// Bytes of the chunks that are held.
    pub(super) fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * CHUNK_BYTES as u64
    }

    /// A chunk for one holder.
    #[cold]
    pub(super) fn take(&self) -> Chunk {
        let mut state = self.state();
        self.used.fetch_add(1, Ordering::Relaxed);
        let chunk = state.free.pop().unwrap_or_else(|| {
            let chunk = Chunk(state.made);
            state.made += 1;
            assert!(state.made as usize * CHUNK_BYTES <= self.memory.bytes(), "more is saved than the machine has memory");
            chunk
        });
        self.is_short.store(state.ahead() < AHEAD_BYTES / 2, Ordering::Relaxed);
        chunk
    }

    /// Whether [`Chunks::touch_ahead`] should be called soon.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Touches a huge page of what is handed out next. False: enough is touched, or nothing is saved. For one thread.
    pub(super) fn touch_ahead(&self) -> bool {
        let state = self.state();
        let begin = state.touched.max((state.made as usize * CHUNK_BYTES).next_multiple_of(HUGE_PAGE_BYTES));
        let is_wanted = state.made > 0 && state.ahead() < AHEAD_BYTES && begin + HUGE_PAGE_BYTES <= self.memory.bytes();
        drop(state);
        debug_assert!(begin.is_multiple_of(HUGE_PAGE_BYTES), "INV-COPY-1: a huge page is touched whole");
        if is_wanted {
            // Takes up to milliseconds, in which sessions take chunks.
            self.memory.prefault(begin, HUGE_PAGE_BYTES);
            let mut state = self.state();
            if state.made > 0 {
                state.touched = begin + HUGE_PAGE_BYTES;
            } else {
                // The copy has ended meanwhile.
                self.memory.release(begin, HUGE_PAGE_BYTES);
            }
            self.is_short.store(false, Ordering::Relaxed);
        }
        is_wanted
    }

    /// Takes chunks back.
    pub(super) fn give_back(&self, chunks: Vec<Chunk>) {
        let mut state = self.state();
        let before = self.used.fetch_sub(chunks.len() as u64, Ordering::Relaxed);
        debug_assert!(before >= chunks.len() as u64, "INV-COPY-1: what is given back was taken");
        state.free.extend(chunks);
    }

    /// Gives the memory to the system, if no chunk is held.
    pub(super) fn release(&self) {
        let mut state = self.state();
        debug_assert!(state.free.len() <= state.made as usize, "INV-COPY-1: a chunk is free once");
        if state.free.len() == state.made as usize && state.made > 0 {
            self.memory.release(0, state.touched.max(state.made as usize * CHUNK_BYTES));
            *state = State::default();
        }
    }

    /// The bytes of a chunk.
    pub(super) fn bytes_of<'c>(&'c self, chunk: &'c Chunk) -> &'c [u8] {
        debug_assert!((chunk.0 as usize) < self.memory.bytes() / CHUNK_BYTES, "INV-COPY-1: a chunk is of this memory");
        // SAFETY: the chunk lies in the reservation, which is initialized memory; its one holder lends it shared.
        unsafe { std::slice::from_raw_parts(self.start(chunk), CHUNK_BYTES) }
    }

    /// The bytes of a chunk, to be written.
    pub(super) fn bytes_of_mut<'c>(&'c self, chunk: &'c mut Chunk) -> &'c mut [u8] {
        debug_assert!((chunk.0 as usize) < self.memory.bytes() / CHUNK_BYTES, "INV-COPY-1: a chunk is of this memory");
        // SAFETY: as above; its one holder lends it exclusively, and no two chunks have a number.
        unsafe { std::slice::from_raw_parts_mut(self.start(chunk), CHUNK_BYTES) }
    }

    fn start(&self, chunk: &Chunk) -> *mut u8 {
        debug_assert!((chunk.0 as usize + 1) * CHUNK_BYTES <= self.memory.bytes(), "INV-COPY-1: a chunk is of this memory");
        // SAFETY: a chunk that was handed out lies in the reservation (asserted there).
        unsafe { self.memory.base().as_ptr().add(chunk.0 as usize * CHUNK_BYTES) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_touched_ahead_of_its_use_and_goes_with_it() {
        let chunks = Chunks::new(16 * HUGE_PAGE_BYTES as u64).unwrap();
        assert!(!chunks.touch_ahead(), "nothing is saved");
        let mut held = vec![chunks.take()];
        assert!(chunks.is_short());
        let touch_all = || (0..).take_while(|_| chunks.touch_ahead()).count();
        assert_eq!(touch_all(), AHEAD_BYTES / HUGE_PAGE_BYTES, "the page that is begun is its holder's to touch");
        assert!(!chunks.is_short());
        while !chunks.is_short() {
            held.push(chunks.take());
        }
        assert!(held.len() * CHUNK_BYTES >= AHEAD_BYTES / 2);
        assert!(touch_all() >= AHEAD_BYTES / HUGE_PAGE_BYTES / 2);
        held.extend((0..15 * HUGE_PAGE_BYTES / CHUNK_BYTES - held.len()).map(|_| chunks.take()));
        assert_eq!(touch_all(), 1, "the end of the memory");
        chunks.give_back(held);
        assert_eq!(touch_all(), 0, "what was given back is used first");
        chunks.release();
        assert!(!chunks.touch_ahead() && chunks.state().touched == 0);
    }

    #[test]
    fn chunks_have_one_holder_and_go_round() {
        let chunks = Chunks::new(1 << 21).unwrap();
        let mut held: Vec<Chunk> = (0..100).map(|_| chunks.take()).collect();
        for (chunk, byte) in held.iter_mut().zip(0..) {
            chunks.bytes_of_mut(chunk).fill(byte);
        }
        assert!(held.iter().zip(0..).all(|(chunk, byte)| chunks.bytes_of(chunk).iter().all(|other| *other == byte)));
        assert_eq!(chunks.bytes(), 100 * CHUNK_BYTES as u64);
        chunks.give_back(held.split_off(50));
        let again = chunks.take();
        assert!(again.0 < 100, "what was given back is used again");
        held.push(again);
        chunks.release();
        assert!(chunks.bytes_of(&held[49]).iter().all(|byte| *byte == 49), "what is held stays");
        chunks.give_back(held);
        chunks.release();
        assert_eq!(chunks.bytes(), 0);
        let chunk = chunks.take();
        assert!(chunk.0 == 0 && chunks.bytes_of(&chunk).iter().all(|byte| *byte == 0), "the system has had it back");
    }
}
