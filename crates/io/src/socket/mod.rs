//! Stream sockets: an accepted connection, and where it comes from.
//!
//! A [`Stream`] never blocks: every call says `MSG_DONTWAIT` itself, because io_uring wants descriptors in blocking mode and
//! epoll does not care. The descriptor closes when the last clone goes, so that a reactor can name it in a submission
//! while the connection is being dropped.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

pub use address::Address;
pub use descriptor::Descriptor;
pub use listener::{ListenOptions, Listener, bind, bind_one, set_group, set_mode};

mod address;
mod descriptor;
mod listener;

/// A connected stream socket of one worker.
#[derive(Clone, Debug)]
pub struct Stream {
    descriptor: Rc<Descriptor>,
}

impl Stream {
    /// Takes over a connected descriptor.
    #[must_use]
    pub fn new(descriptor: Descriptor) -> Self {
        Self { descriptor: Rc::new(descriptor) }
    }

    /// The descriptor's number, for `CLIENT LIST` and submissions.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.descriptor.number()
    }

    /// Sends what the kernel takes at once; zero when it takes nothing now.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            return socket.send(&[IoSlice::new(bytes)]);
        }
        sent(rustix::net::send(self.fd(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
    }

    /// Like [`Stream::send`] for several slices in one system call.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            return socket.send(slices);
        }
        let mut control = SendAncillaryBuffer::default();
        sent(rustix::net::sendmsg(self.fd(), slices, &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
    }

    /// Receives what is there: `Ok(None)` when nothing is, `Ok(Some(0))` at the end of the stream.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            return socket.receive(buffer);
        }
        match rustix::net::recv(self.fd(), buffer, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends our direction of the stream after what was sent. A socket that is gone already is no error.
    pub fn finish(&self) {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            return socket.finish();
        }
        let _ = rustix::net::shutdown(self.fd(), Shutdown::Write);
    }

    /// Asks the kernel not to wait for more data before it sends. Unix sockets have no such delay.
    pub fn set_no_delay(&self) {
        #[cfg(feature = "sim")]
        if self.simulated().is_some() {
            return;
        }
        let _ = rustix::net::sockopt::set_tcp_nodelay(self.fd(), true);
    }

    /// Probes a silent peer after `idle`, then three times every third of it, as Redis does; zero turns probes off.
    ///
    /// # Errors
    /// When the kernel refuses an option.
    pub fn set_keepalive(&self, idle: Duration) -> io::Result<()> {
        #[cfg(feature = "sim")]
        if self.simulated().is_some() {
            return Ok(());
        }
        let descriptor = self.fd();
        let socket = socket2::SockRef::from(&descriptor);
        if idle.is_zero() {
            return socket.set_keepalive(false);
        }
        let interval = (idle / 3).max(Duration::from_secs(1));
        let probes = socket2::TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(3);
        socket.set_tcp_keepalive(&probes)
    }

    /// Bounds the kernel's send buffer in bytes.
    ///
    /// # Errors
    /// When the kernel refuses the option.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            socket.set_send_buffer(bytes);
            return Ok(());
        }
        socket2::SockRef::from(&self.fd()).set_send_buffer_size(bytes)
    }

    /// The peer's address; `None` for a Unix socket or a peer that is gone.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            return socket.peer();
        }
        let address = rustix::net::getpeername(self.fd()).ok()??;
        SocketAddr::try_from(address).ok()
    }

    /// Our own address; `None` for a Unix socket.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        #[cfg(feature = "sim")]
        if let Some(socket) = self.simulated() {
            return socket.local();
        }
        let address = rustix::net::getsockname(self.fd()).ok()?;
        SocketAddr::try_from(address).ok()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.fd()
    }

    #[cfg(feature = "sim")]
    pub(crate) fn simulated(&self) -> Option<&crate::sim::net::Socket> {
        self.descriptor.simulated()
    }
}

fn sent(result: Result<usize, Errno>) -> io::Result<usize> {
    match result {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
