//! Memory mappings: a large reserved range whose parts become resident when touched and go back to the system when released.
//!
//! The hash index and the log live in such ranges: an address is arithmetic on the base, growth moves nothing, and a freed
//! page leaves the process at once. Under Miri, which knows no `madvise`, a range is an ordinary zeroed allocation.

use std::io;
use std::ptr::NonNull;

/// Size and alignment of a huge page in bytes.
#[cfg(not(feature = "sim"))]
pub const HUGE_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// A build for simulations has none: its pages are small, so that a node is small, and a few thousand commands fill many pages.
#[cfg(feature = "sim")]
pub const HUGE_PAGE_BYTES: usize = 64 * 1024;

/// Bytes of physical memory that the machine has.
#[must_use]
pub fn physical_bytes() -> u64 {
    #[cfg(feature = "sim")]
    if crate::sim::turn::simulation().is_some() {
        // Little, because tables are laid out for all of it.
        return 64 << 20;
    }
    // SAFETY: sysconf has no preconditions.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(1 << 20) * u64::try_from(page).unwrap_or(4096)
}

/// A reserved, zero-filled, readable and writable range of address space.
#[derive(Debug)]
pub struct Reservation {
    base: NonNull<u8>,
    bytes: usize,
    #[cfg(not(miri))]
    map: (NonNull<u8>, usize),
}

// SAFETY: a reservation is plain memory; which thread may touch which part of it is the owner's protocol.
unsafe impl Send for Reservation {}
// SAFETY: as above; the methods that change mappings take `&self` and are thread-safe system calls.
unsafe impl Sync for Reservation {}

#[cfg(not(miri))]
impl Reservation {
    /// Reserves `bytes` (rounded up to huge pages) of zeroed memory, aligned to a huge page. Nothing is resident yet.
    ///
    /// # Errors
    /// When the address space or the overcommit limit does not allow it.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let reservation = Self::small_pages(bytes)?;
        #[cfg(not(feature = "sim"))]
        // SAFETY: the range is ours; the advice changes no contents. A kernel without huge pages refuses it, which is fine.
        let _ =
            unsafe { rustix::mm::madvise(reservation.base.as_ptr().cast(), reservation.bytes, rustix::mm::Advice::LinuxHugepage) };
        Ok(reservation)
    }

    /// As [`Reservation::new`], for data that is touched sparsely: small pages become resident one by one.
    ///
    /// # Errors
    /// When the address space or the overcommit limit does not allow it.
    pub fn small_pages(bytes: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags};
        let bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
        let length = bytes + HUGE_PAGE_BYTES;
        // SAFETY: a fresh anonymous private mapping aliases nothing.
        let raw = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let map = NonNull::new(raw.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let offset = map.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the mapping is one huge page longer than the range, so the aligned base lies inside it.
        let base = unsafe { map.add(offset) };
        let reservation = Self { base, bytes, map: (map, length) };
        // SAFETY: the range is ours and the advice changes no contents; a fork must not inherit the store.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxDontFork) };
        Ok(reservation)
    }

    /// Gives the memory of a part back to the system; it reads as zeroes afterwards.
    ///
    /// # Panics
    /// When the part is not inside the range or not aligned to 4 KiB.
    pub fn release(&self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.bytes && offset.is_multiple_of(4096) && bytes.is_multiple_of(4096));
        // SAFETY: the part is inside the range (asserted); the owner has made sure that no thread reads it any more.
        let result =
            unsafe { rustix::mm::madvise(self.base.as_ptr().add(offset).cast(), bytes, rustix::mm::Advice::LinuxDontNeed) };
        debug_assert!(result.is_ok());
    }

    /// Makes a part resident ahead of its use, so that no request pays for the first touch.
    pub fn prefault(&self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.bytes);
        // SAFETY: MADV_POPULATE_WRITE (Linux 5.14) keeps contents; an older kernel refuses it and the first touch pays.
        let _ =
            unsafe { rustix::mm::madvise(self.base.as_ptr().add(offset).cast(), bytes, rustix::mm::Advice::LinuxPopulateWrite) };
    }
}

#[cfg(not(miri))]
impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole; the owner is being dropped, so it has no user.
        let _ = unsafe { rustix::mm::munmap(self.map.0.as_ptr().cast(), self.map.1) };
    }
}

#[cfg(miri)]
impl Reservation {
    /// Allocates at most 64 MiB of zeroed memory.
    ///
    /// # Errors
    /// When the allocation fails.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES).min(64 << 20);
        let layout = std::alloc::Layout::from_size_align(bytes, HUGE_PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout has a size above zero.
        let raw = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(raw).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, bytes })
    }

    /// Allocates the same: Miri has one size of pages.
    ///
    /// # Errors
    /// When the allocation fails.
    pub fn small_pages(bytes: usize) -> io::Result<Self> {
        Self::new(bytes)
    }

    /// Zeroes a part.
    pub fn release(&self, offset: usize, bytes: usize) {
        assert!(offset + bytes <= self.bytes);
        // SAFETY: the part is inside the range; the owner has made sure that no thread reads it any more.
        unsafe { self.base.as_ptr().add(offset).write_bytes(0, bytes) };
    }

    /// Does nothing.
    pub fn prefault(&self, _offset: usize, _bytes: usize) {}
}

#[cfg(miri)]
impl Drop for Reservation {
    fn drop(&mut self) {
        if let Ok(layout) = std::alloc::Layout::from_size_align(self.bytes, HUGE_PAGE_BYTES) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        }
    }
}

impl Reservation {
    /// The first byte.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_reads_as_zero() {
        let range = Reservation::new(2 * HUGE_PAGE_BYTES).unwrap();
        let base = range.base().as_ptr();
        assert_eq!(base.align_offset(HUGE_PAGE_BYTES), 0);
        range.prefault(0, HUGE_PAGE_BYTES);
        // SAFETY: the offsets are inside the range and this thread is its only user.
        unsafe {
            base.add(HUGE_PAGE_BYTES - 1).write(7);
            range.release(0, HUGE_PAGE_BYTES);
            assert_eq!(base.add(HUGE_PAGE_BYTES - 1).read(), 0);
        }
    }
}
