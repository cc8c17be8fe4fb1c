//! The allocator's hold on memory: what was freed goes back to the system, wherever it was freed and even when the process
//! falls idle.
//!
//! Small things are mimalloc's. It keeps blocks of like size together in pages of up to 4 MiB that belong to the thread that
//! allocates from them; a page leaves memory when all its blocks are free and its thread has noticed. Values of a store
//! live and die in any order and are mostly freed by other threads, so most of their pages would stay for ever. From
//! 16 KiB on they get [`extents`] instead: whole pages of the system, each given back for itself.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(any(test, feature = "mimalloc"))]
#[cfg_attr(not(feature = "mimalloc"), expect(dead_code, reason = "only tests use it then"))]
mod extents;

#[cfg(feature = "mimalloc")]
pub use process::Allocator;

/// Gives memory back that has been free for a while. Cheap when there is none. Does nothing with another allocator.
pub fn release_unused() {
    #[cfg(feature = "mimalloc")]
    process::release_unused();
}

/// How often [`ask_for_release`] was called.
static RELEASES_ASKED: AtomicU64 = AtomicU64::new(0);

/// Gives all free memory back that the allocator keeps for later: what this thread freed, and what is shared. Takes milliseconds.
pub fn release_all() {
    #[cfg(feature = "mimalloc")]
    process::release_all();
}

/// As [`release_all`]; threads that look at [`releases_asked`] follow.
pub fn ask_for_release() {
    RELEASES_ASKED.fetch_add(1, Ordering::Relaxed);
    release_all();
}

/// A number that grows when everything should be released: what a thread has freed, only it can give back.
#[must_use]
pub fn releases_asked() -> u64 {
    RELEASES_ASKED.load(Ordering::Relaxed)
}

#[cfg(feature = "mimalloc")]
mod process {
    use super::extents::Extents;
    use libmimalloc_sys::{mi_collect, mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc_aligned};
    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

    /// Smaller allocations are mimalloc's. The store keeps values up to about here in its log.
    const EXTENT_MIN: usize = 16 * 1024;
    /// Larger ones are too: it gives each of them pages of its own.
    const EXTENT_MAX: usize = Extents::BYTES_MAX;
    /// Alignment of every block of mimalloc, whose blocks are of whole words. A request for no more than that takes fewer steps.
    const ALIGNED_ANYWAY: usize = size_of::<usize>();

    const NONE: u8 = 0;
    const MAKING: u8 = 1;
    const READY: u8 = 2;
    const FAILED: u8 = 3;

    static STATE: AtomicU8 = AtomicU8::new(NONE);
    static EXTENTS: AtomicPtr<Extents> = AtomicPtr::new(std::ptr::null_mut());

    /// The process' allocator.
    #[derive(Debug)]
    pub struct Allocator;

    /// The extents, if they exist by now.
    #[inline]
    fn existing() -> Option<&'static Extents> {
        // SAFETY: null, or a leaked object that is published whole and never changed.
        unsafe { EXTENTS.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    fn extents() -> Option<&'static Extents> {
        existing().or_else(make)
    }

    #[cold]
    fn make() -> Option<&'static Extents> {
        // While another thread holds the lock, or this one is inside already, mimalloc serves the request.
        if STATE.compare_exchange(NONE, MAKING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            let made = Extents::new(crate::memory::physical_bytes());
            let state = if let Ok(made) = made {
                EXTENTS.store(Box::into_raw(Box::new(made)), Ordering::Release);
                READY
            } else {
                FAILED
            };
            STATE.store(state, Ordering::Release);
        }
        existing()
    }

    fn wants_extent(size: usize, align: usize) -> bool {
        size > EXTENT_MIN && size <= EXTENT_MAX && align <= Extents::PAGE
    }

    #[inline]
    fn malloc(size: usize, align: usize) -> *mut u8 {
        // SAFETY: size and alignment are a layout's.
        unsafe { if align <= ALIGNED_ANYWAY { mi_malloc(size) } else { mi_malloc_aligned(size, align) }.cast() }
    }

    /// # Safety
    /// `pointer` is mimalloc's and has this alignment; the size is not zero.
    #[inline]
    unsafe fn reallocate(pointer: *mut u8, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            if align <= ALIGNED_ANYWAY { mi_realloc(pointer.cast(), size) } else { mi_realloc_aligned(pointer.cast(), size, align) }
                .cast()
        }
    }

    // SAFETY: memory comes from mimalloc or from the extents, whole and aligned as asked for, and goes back to where it came
    // from, which its address tells.
    unsafe impl GlobalAlloc for Allocator {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if wants_extent(layout.size(), layout.align())
                && let Some(pointer) = extents().and_then(|extents| extents.take(layout.size()))
            {
                return pointer.as_ptr();
            }
            malloc(layout.size(), layout.align())
        }

        #[inline]
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            if wants_extent(layout.size(), layout.align())
                && let Some(pointer) = extents().and_then(|extents| extents.take(layout.size()))
            {
                // SAFETY: the extent has at least as many bytes and is ours.
                unsafe { pointer.as_ptr().write_bytes(0, layout.size()) };
                return pointer.as_ptr();
            }
            // SAFETY: size and alignment are a layout's.
            unsafe { mi_zalloc_aligned(layout.size(), layout.align()).cast() }
        }

        #[inline]
        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            if layout.size() > EXTENT_MIN
                && let Some(extents) = existing()
                && extents.contains(pointer)
            {
                // SAFETY: taken from there for this size, by the caller's promise.
                unsafe { extents.give(pointer, layout.size()) };
                return;
            }
            // SAFETY: by the caller's promise it is mimalloc's.
            unsafe { mi_free(pointer.cast()) };
        }

        #[inline]
        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            if layout.size() <= EXTENT_MIN && new_size <= EXTENT_MIN {
                // SAFETY: mimalloc's, and the new layout is as the caller promises.
                return unsafe { reallocate(pointer, new_size, layout.align()) };
            }
            let is_extent = existing().is_some_and(|extents| extents.contains(pointer));
            if is_extent && wants_extent(new_size, layout.align()) && Extents::pages(new_size) == Extents::pages(layout.size()) {
                return pointer;
            }
            if !is_extent && !wants_extent(new_size, layout.align()) {
                // SAFETY: as above.
                return unsafe { reallocate(pointer, new_size, layout.align()) };
            }
            // SAFETY: the caller promises a valid new size; both objects have as many bytes as are copied and are distinct.
            unsafe {
                let target = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
                if !target.is_null() {
                    std::ptr::copy_nonoverlapping(pointer, target, layout.size().min(new_size));
                    self.dealloc(pointer, layout);
                }
                target
            }
        }
    }

    pub(super) fn release_all() {
        if let Some(extents) = existing() {
            // The first call finds what is free, the second what has not been used since.
            extents.release_unused();
            extents.release_unused();
        }
        // SAFETY: the function has no preconditions.
        unsafe { mi_collect(true) };
    }

    pub(super) fn release_unused() {
        if let Some(extents) = existing() {
            extents.release_unused();
        }
        // mimalloc returns freed memory some time later, and only when it is called again. A server that has just dropped a
        // value of 512 MB may not call it for hours.
        // SAFETY: the function has no preconditions; without `force` it only purges what is due.
        unsafe { mi_collect(false) };
    }
}
