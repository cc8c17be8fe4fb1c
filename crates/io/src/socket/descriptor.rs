//! A connected socket that belongs to no stream yet.

use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A connected socket on its way to the worker that makes a [`Stream`](super::Stream) of it. It is closed when it is dropped.
#[derive(Debug)]
pub struct Descriptor(Inside);

#[derive(Debug)]
enum Inside {
    System(OwnedFd),
    #[cfg(feature = "sim")]
    Sim(crate::sim::net::Socket),
}

impl Descriptor {
    /// Its number in the process.
    #[must_use]
    pub fn number(&self) -> i32 {
        match &self.0 {
            Inside::System(descriptor) => descriptor.as_raw_fd(),
            #[cfg(feature = "sim")]
            Inside::Sim(socket) => socket.number(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Inside::System(descriptor) => descriptor.as_fd(),
            #[cfg(feature = "sim")]
            Inside::Sim(_) => unreachable!("a simulated socket has no descriptor"),
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn simulated(&self) -> Option<&crate::sim::net::Socket> {
        match &self.0 {
            Inside::System(_) => None,
            Inside::Sim(socket) => Some(socket),
        }
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Inside::System(descriptor))
    }
}

impl From<TcpStream> for Descriptor {
    fn from(stream: TcpStream) -> Self {
        OwnedFd::from(stream).into()
    }
}

impl From<UnixStream> for Descriptor {
    fn from(stream: UnixStream) -> Self {
        OwnedFd::from(stream).into()
    }
}

#[cfg(feature = "sim")]
impl From<crate::sim::net::Socket> for Descriptor {
    fn from(socket: crate::sim::net::Socket) -> Self {
        Self(Inside::Sim(socket))
    }
}
