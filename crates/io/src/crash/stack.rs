//! A stack for handlers of signals: one per thread, resident only once it is used.

use std::marker::PhantomData;

use crate::memory::Reservation;

/// Enough to resolve the names in a stack trace.
const BYTES: usize = 1 << 20;

/// The stack on which handlers of the thread that made it run, until it is dropped by that thread.
pub(crate) struct SignalStack {
    memory: Option<Reservation>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl SignalStack {
    /// A stack for this thread. Where the system has no memory for it, handlers run on what there was.
    pub(crate) fn new() -> Self {
        let memory = Reservation::small_pages(BYTES).ok().filter(|memory| set(memory.base().as_ptr(), 0));
        Self { memory, _thread: PhantomData }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            set(memory.base().as_ptr(), libc::SS_DISABLE);
        }
    }
}

fn set(base: *mut u8, flags: i32) -> bool {
    let stack = libc::stack_t { ss_sp: base.cast(), ss_flags: flags, ss_size: BYTES };
    // SAFETY: the memory is the owner's, at least as long, and stays until the stack is disabled by the same thread.
    unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) == 0 }
}
