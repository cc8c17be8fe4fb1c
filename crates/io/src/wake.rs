//! Wakes a reactor that waits in the kernel, from any thread.
//!
//! The descriptor is an eventfd that is never read: reactors watch it for edges, so each write is one wake and the counter
//! only grows. It would take 2⁶⁴ wakes to fill it. A wake costs a system call; the caller keeps it off the hot path by
//! waking only a worker that said it goes to sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

/// The sending side of a wake; the reactor holds a reference too.
#[derive(Debug)]
pub struct Wake {
    event: OwnedFd,
}

impl Wake {
    /// A new wake.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes the reactor's current or next wait return.
    pub fn wake(&self) {
        // The write fails only when the counter is full, and then the reader is awake already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
