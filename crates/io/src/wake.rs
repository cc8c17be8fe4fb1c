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
pub struct Wake(Inside);

#[derive(Debug)]
enum Inside {
    System(OwnedFd),
    #[cfg(feature = "sim")]
    Sim(crate::sim::net::Alarm),
}

impl Wake {
    /// A new wake.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if let Some((world, _)) = crate::sim::world::current() {
            return Ok(Self(Inside::Sim(crate::sim::net::Alarm::new(world.net()))));
        }
        Ok(Self(Inside::System(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Makes the reactor's current or next wait return.
    pub fn wake(&self) {
        match &self.0 {
            // The write fails only when the counter is full, and then the reader is awake already.
            Inside::System(event) => _ = rustix::io::write(event, &1_u64.to_ne_bytes()),
            #[cfg(feature = "sim")]
            Inside::Sim(alarm) => alarm.wake(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Inside::System(event) => event.as_fd(),
            #[cfg(feature = "sim")]
            Inside::Sim(_) => unreachable!("a simulated wake has no descriptor"),
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn simulated(&self) -> Option<&crate::sim::net::Alarm> {
        match &self.0 {
            Inside::System(_) => None,
            Inside::Sim(alarm) => Some(alarm),
        }
    }
}
