//! Memory for device transfers, aligned as `O_DIRECT` wants it, and its reuse.
//!
//! A pool belongs to one thread and hands out what was given back to it, by classes of powers of two; so a steady load allocates
//! nothing. A buffer may be dropped instead, and may come from another pool. A worker's pool has its single blocks in arenas.

use super::arena::{self, Block};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of a buffer, and the unit of its length.
pub const BLOCK_BYTES: usize = 4096;
/// A cache line.
const LINE_BYTES: usize = 64;
/// Classes of capacities in a pool: from one block to 2 MiB.
const CLASSES: usize = 10;
/// What a pool keeps unless told otherwise.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A block of memory for device transfers: aligned to [`BLOCK_BYTES`], its length a multiple of it. Its contents are defined from
/// the beginning, but are whatever the last user left.
pub struct Buffer {
    base: NonNull<u8>,
    len: usize,
    /// At least `len`, a power of two of blocks.
    capacity: usize,
    /// The arena whose block it is.
    arena: Option<u16>,
}

// SAFETY: a buffer owns its memory alone, as a boxed slice does.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `bytes`, rounded up to blocks, at least one.
    ///
    /// # Panics
    /// When `bytes` is beyond what an allocation may be.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let len = rounded(bytes);
        let capacity = len.next_power_of_two();
        let layout = layout(capacity);
        // SAFETY: the layout has a size of at least one block.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        Self { base, len, capacity, arena: None }
    }

    fn in_arena(block: &Block) -> Self {
        Self { base: block.base, len: BLOCK_BYTES, capacity: BLOCK_BYTES, arena: Some(block.arena) }
    }

    /// The number of the arena that it lies in.
    pub(crate) fn arena(&self) -> Option<u16> {
        self.arena
    }

    /// Asks the cache for the first block.
    pub fn prefetch(&self) {
        for offset in (0..BLOCK_BYTES).step_by(LINE_BYTES) {
            // SAFETY: inside the allocation, which is a block at least; a prefetch changes nothing.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T1>(self.base.as_ptr().add(offset).cast());
            }
            #[cfg(any(not(target_arch = "x86_64"), miri))]
            let _ = offset;
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(arena) = self.arena {
            return arena::recycle(Block { base: self.base, arena });
        }
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), layout(self.capacity)) };
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is within the allocation or the arena's block, which was zeroed once, so all of it is initialized; it
        // is borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and borrowed mutably with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Buffers that were given back, for one thread.
#[derive(Debug)]
pub struct BufferPool {
    classes: [Vec<Buffer>; CLASSES],
    kept_bytes: usize,
    kept_bytes_max: usize,
    /// How many more arenas it may make; `None` when it has its blocks elsewhere.
    arenas_left: Option<usize>,
}

impl Default for BufferPool {
    fn default() -> Self {
        Self::new(KEPT_BYTES_MAX)
    }
}

impl BufferPool {
    /// An empty pool that keeps at most `kept_bytes_max`; what is given beyond is freed.
    #[must_use]
    pub fn new(kept_bytes_max: usize) -> Self {
        Self { classes: [const { Vec::new() }; CLASSES], kept_bytes: 0, kept_bytes_max, arenas_left: None }
    }

    /// The default pool, with its single blocks in arenas, whose reads cost less.
    #[must_use]
    pub fn with_arenas() -> Self {
        Self::within(KEPT_BYTES_MAX)
    }

    /// As [`Self::with_arenas`], of which it makes and keeps no more than these bytes.
    #[must_use]
    pub fn within(bytes: usize) -> Self {
        let kept_bytes_max = bytes.min(KEPT_BYTES_MAX);
        Self { arenas_left: Some(kept_bytes_max / arena::ARENA_BYTES), ..Self::new(kept_bytes_max) }
    }

    /// A buffer of `bytes`, rounded up to blocks, at least one. Its contents are whatever its last user left.
    pub fn take(&mut self, bytes: usize) -> Buffer {
        let len = rounded(bytes);
        let kept = self.classes.get_mut(class(len)).and_then(Vec::pop);
        let Some(mut buffer) = kept.or_else(|| self.take_from_arena(len)) else { return Buffer::new(len) };
        self.kept_bytes -= buffer.capacity;
        buffer.len = len;
        buffer
    }

    /// A free block, or one of a new arena, whose other blocks are kept.
    #[cold]
    fn take_from_arena(&mut self, len: usize) -> Option<Buffer> {
        #[cfg(feature = "sim")]
        if crate::sim::turn::simulation().is_some() {
            // Arenas are the process', and what an earlier world left in them would be counted in the memory of this one.
            return None;
        }
        let left = self.arenas_left.filter(|_| len == BLOCK_BYTES)?;
        if let Some(block) = arena::spare() {
            self.kept_bytes += BLOCK_BYTES;
            return Some(Buffer::in_arena(&block));
        }
        self.arenas_left = Some(left.checked_sub(1)?);
        for block in arena::grow()? {
            self.kept_bytes += BLOCK_BYTES;
            self.classes[0].push(Buffer::in_arena(&block));
        }
        self.classes[0].pop()
    }

    /// Keeps a buffer for later, or frees it.
    pub fn give(&mut self, buffer: Buffer) {
        if self.kept_bytes + buffer.capacity <= self.kept_bytes_max
            && let Some(class) = self.classes.get_mut(class(buffer.capacity))
        {
            self.kept_bytes += buffer.capacity;
            class.push(buffer);
        }
    }

    /// Bytes of the buffers that are kept now.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

fn rounded(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(BLOCK_BYTES)
}

/// The class whose buffers hold `len` bytes.
fn class(len: usize) -> usize {
    (len / BLOCK_BYTES).next_power_of_two().trailing_zeros() as usize
}

fn layout(capacity: usize) -> Layout {
    match Layout::from_size_align(capacity, BLOCK_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a buffer of {capacity} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_whole_blocks() {
        for (bytes, len) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192), (12_000, 12_288), (3 << 20, 3 << 20)] {
            let mut buffer = Buffer::new(bytes);
            assert_eq!(buffer.as_ptr().align_offset(BLOCK_BYTES), 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
        }
    }

    #[test]
    fn blocks_of_an_arena_go_round() {
        let mut pool = BufferPool::with_arenas();
        let first = pool.take(100);
        assert!(first.arena().is_some() && first.iter().all(|byte| *byte == 0));
        assert_eq!(pool.kept_bytes(), arena::ARENA_BYTES - BLOCK_BYTES);
        let mut all: Vec<Buffer> = (1..arena::ARENA_BYTES / BLOCK_BYTES).map(|_| pool.take(BLOCK_BYTES)).collect();
        assert_eq!((pool.kept_bytes(), pool.take(2 * BLOCK_BYTES).arena()), (0, None));
        let mut places: Vec<_> = all.iter().chain([&first]).map(|buffer| buffer.as_ptr() as usize).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), arena::ARENA_BYTES / BLOCK_BYTES, "no block has two users");
        all.iter_mut().for_each(|buffer| buffer.fill(1));
        drop((all, first, pool));
        // Also one that may make no more of them.
        for left in [4, 0] {
            let mut next = BufferPool { arenas_left: Some(left), ..BufferPool::default() };
            let again = next.take(1).as_ptr() as usize;
            assert!(places.binary_search(&again).is_ok(), "the next pool takes what is spare");
            assert_eq!(next.arenas_left, Some(left));
        }
    }

    #[test]
    fn a_pool_with_little_memory_makes_no_arena() {
        let mut pool = BufferPool::within(3 * BLOCK_BYTES);
        let buffers: Vec<Buffer> = (0..5).map(|_| pool.take(2 * BLOCK_BYTES)).collect();
        assert_eq!(pool.arenas_left, Some(0));
        buffers.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(pool.kept_bytes(), 2 * BLOCK_BYTES);
        assert_eq!(BufferPool::within(usize::MAX).kept_bytes_max, KEPT_BYTES_MAX);
    }

    #[test]
    fn a_pool_reuses_and_is_bounded() {
        let mut pool = BufferPool::new(5 * BLOCK_BYTES);
        let first = pool.take(10_000);
        let address = first.as_ptr();
        pool.give(first);
        assert_eq!(pool.kept_bytes(), 16_384);
        let again = pool.take(16_384);
        assert_eq!((again.as_ptr(), again.len()), (address, 16_384));
        assert_eq!(pool.kept_bytes(), 0);
        pool.give(again);
        (0..10).for_each(|_| pool.give(Buffer::new(1)));
        assert_eq!(pool.kept_bytes(), 5 * BLOCK_BYTES);
        // Another length of the same class is as long as asked for.
        assert_eq!(pool.take(9000).len(), 12_288);
        pool.give(Buffer::new(64 << 20));
        assert_eq!(pool.kept_bytes(), BLOCK_BYTES);
    }
}
