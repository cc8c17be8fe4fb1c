//! Arenas: blocks for reads, side by side in huge pages that a ring may register.
//!
//! A read into registered memory saves the kernel the look-up of its pages, and blocks in one huge page save misses of the
//! translation cache. An arena is never freed, so no ring has to be told and registering it is simple. The blocks of dropped
//! buffers wait here for the next pool.

use super::buffer::BLOCK_BYTES;
use crate::memory::{HUGE_PAGE_BYTES, Reservation};
use crossbeam_queue::SegQueue;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most arenas of a process; beyond them buffers are allocated one by one.
pub(crate) const ARENAS_MAX: usize = 64;
/// Bytes of an arena.
pub(crate) const ARENA_BYTES: usize = HUGE_PAGE_BYTES;

static ARENAS: [OnceLock<Reservation>; ARENAS_MAX] = [const { OnceLock::new() }; ARENAS_MAX];
static MADE: AtomicUsize = AtomicUsize::new(0);
static SPARE: SegQueue<Block> = SegQueue::new();

/// A block of an arena, owned.
pub(super) struct Block {
    pub(super) base: NonNull<u8>,
    pub(super) arena: u16,
}

// SAFETY: a block is owned memory, as a boxed slice is.
unsafe impl Send for Block {}

/// The arena with a number, for registering.
pub(crate) fn base(arena: u16) -> Option<NonNull<u8>> {
    ARENAS.get(usize::from(arena))?.get().map(Reservation::base)
}

/// A block that is free.
pub(super) fn spare() -> Option<Block> {
    SPARE.pop()
}

/// Takes a block back.
pub(super) fn recycle(block: Block) {
    SPARE.push(block);
}

/// All blocks of a new arena. `None` when there are as many as there may be, or no memory.
pub(super) fn grow() -> Option<impl Iterator<Item = Block>> {
    let memory = Reservation::new(ARENA_BYTES).ok()?;
    let base = memory.base();
    let number = MADE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| (made < ARENAS_MAX).then_some(made + 1)).ok()?;
    ARENAS[number].set(memory).ok()?;
    let blocks = (0..ARENA_BYTES / BLOCK_BYTES).map(move |index| {
        // SAFETY: inside the arena, and each block is handed out once.
        Block { base: unsafe { base.add(index * BLOCK_BYTES) }, arena: number as u16 }
    });
    Some(blocks)
}
