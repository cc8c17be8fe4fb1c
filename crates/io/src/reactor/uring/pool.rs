//! The buffers into which the kernel receives.
//!
//! A ring of descriptors shared with the kernel: we add buffers at the tail, a receive operation takes one from the head when data
//! is there. So connections that are idle hold no buffer, and a hundred buffers serve ten thousand connections. The memory
//! becomes resident as it is used.
//!
//! Ownership of a buffer's bytes moves: to the kernel when its descriptor is published by the tail, to us when a completion names
//! it, and back with [`Pool::recycle`]. That is the soundness argument of every access below.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Size of a buffer: below 32 KiB, bulk traffic pays for the many small receives.
pub(super) const BUFFER_BYTES: usize = 32 * 1024;
/// Number of buffers, a power of two. When all are in use, connections wait for the next round.
pub(super) const BUFFERS: u16 = 128;
/// The group number under which the ring knows the pool.
pub(super) const GROUP: u16 = 0;

pub(super) struct Pool {
    entries: Mapping,
    memory: Mapping,
    tail: u16,
}

impl Pool {
    pub(super) fn new() -> io::Result<Self> {
        let entries = Mapping::new(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
        let memory = Mapping::new(usize::from(BUFFERS) * BUFFER_BYTES)?;
        let mut pool = Self { entries, memory, tail: 0 };
        for buffer in 0..BUFFERS {
            pool.recycle(buffer);
        }
        Ok(pool)
    }

    /// Makes the pool known to a ring. The pool must stay until it is unregistered.
    pub(super) fn register(&self, submitter: &io_uring::Submitter<'_>) -> io::Result<()> {
        // SAFETY: the mapping is page-aligned and as long as that many entries; the caller keeps it until it is unregistered.
        unsafe { submitter.register_buf_ring_with_flags(self.entries.base.as_ptr() as u64, BUFFERS, GROUP, 0) }
    }

    /// The first `count` bytes of a buffer that a completion has named and that is not recycled yet.
    pub(super) fn bytes(&mut self, buffer: u16, count: usize) -> &mut [u8] {
        assert!(buffer < BUFFERS && count <= BUFFER_BYTES);
        // SAFETY: inside the mapping (asserted), which is initialized with zeroes; the buffer is ours, not the kernel's, until
        // `recycle`, which needs `&mut self` and so ends this borrow, as any other access does.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base.as_ptr().add(usize::from(buffer) * BUFFER_BYTES), count) }
    }

    /// Gives a buffer to the kernel.
    pub(super) fn recycle(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS);
        let address = self.memory.base.as_ptr() as u64 + u64::from(buffer) * BUFFER_BYTES as u64;
        let base = self.entries.base.cast::<BufRingEntry>();
        // SAFETY: the index is inside the ring. The entry is behind the tail, so the kernel does not look at it: there are as many
        // entries as buffers, and this buffer was not in the ring. The tail shares the first entry's memory in a field
        // that none of the setters touches.
        unsafe {
            let entry = base.add(usize::from(self.tail & (BUFFERS - 1))).as_mut();
            entry.set_addr(address);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned `u16` of the mapping; the kernel reads it concurrently, so it is written atomically. The
        // release order publishes the entry before the tail.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base.as_ptr()).cast_mut()) }.store(self.tail, Ordering::Release);
    }
}

/// Anonymous, zeroed memory.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh anonymous private mapping aliases nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole, and its owner is being dropped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
