//! A connected socket that belongs to no stream yet.

use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A connected socket on its way to the worker that makes a [`Stream`](super::Stream) of it. It is closed when it is dropped.
#[derive(Debug)]
pub struct Descriptor(OwnedFd);

impl Descriptor {
    /// Its number in the process.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<TcpStream> for Descriptor {
    fn from(stream: TcpStream) -> Self {
        Self(stream.into())
    }
}

impl From<UnixStream> for Descriptor {
    fn from(stream: UnixStream) -> Self {
        Self(stream.into())
    }
}
