//! The allocator's hold on memory: what was freed goes back to the system even when the process falls idle.
//!
//! mimalloc returns freed memory some time later, and only when it is called again. A server that has just dropped a value of
//! 512 MB may not call it for hours, so the control thread asks from time to time.

/// Gives memory back that has been free for a while. Cheap when there is none. Does nothing with another allocator.
pub fn release_unused() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: the function has no preconditions; without `force` it only purges what is due.
    unsafe {
        libmimalloc_sys::mi_collect(false);
    }
}
