//! A client of a simulated thread, which waits.

use std::io::{self, IoSlice, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Net;
use super::direction::EndId;
use super::state::{Link, Owner, State};
use crate::sim::node::NodeId;
use crate::sim::turn::{self, Condition, Woken};
use crate::socket::Address;

/// See the module. Clones share the connection, which is closed with the last of them.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    net: Arc<Net>,
    id: EndId,
    condition: Condition,
    timeouts: Mutex<Timeouts>,
    /// Closes by a reset.
    aborts: Mutex<bool>,
}

/// None waits for ever.
#[derive(Clone, Copy, Debug, Default)]
struct Timeouts {
    read: Option<Duration>,
    write: Option<Duration>,
}

impl BlockingClient {
    /// Connects from a node to an address of another one, or of its own.
    ///
    /// # Errors
    /// When it is refused, when the timeout has passed, or the caller is no simulated thread.
    pub fn connect(net: &Arc<Net>, from: NodeId, to: NodeId, address: &Address, timeout: Duration) -> io::Result<Self> {
        let net = Arc::clone(net);
        let condition = net.turn.condition();
        let id = net.lock().connect(Owner::Thread(condition), Some(from), to, address);
        let inner = Inner { net, id, condition, timeouts: Mutex::default(), aborts: Mutex::default() };
        let client = Self { inner: Arc::new(inner) };
        client.wait_until(Some(timeout), |state, id| {
            let Some(connection) = state.connections.get(&id.connection) else { return Err(io::ErrorKind::NotConnected.into()) };
            match connection.ends[id.end].link {
                Link::Connecting => Ok(None),
                Link::Connected => Ok(Some(())),
                Link::Refused(kind) => Err(kind.into()),
                Link::Broken => Err(io::ErrorKind::ConnectionReset.into()),
            }
        })?;
        Ok(client)
    }

    /// Bounds how long a read waits; none for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.inner.timeouts.lock().unwrap_or_else(PoisonError::into_inner).read = timeout;
    }

    /// Bounds how long a write waits; none for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        self.inner.timeouts.lock().unwrap_or_else(PoisonError::into_inner).write = timeout;
    }

    /// Ends this direction.
    pub fn finish(&self) {
        self.inner.net.lock().finish(self.inner.id);
    }

    /// Has the connection closed by a reset when the last clone goes.
    pub fn reset_when_closed(&self) {
        *self.inner.aborts.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn timeouts(&self) -> Timeouts {
        *self.inner.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks each time that something happens until the look says so.
    fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut(&mut State, EndId) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let net = &self.inner.net;
        let timeout_ns = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let until_ns = timeout_ns.map(|timeout_ns| net.turn.now_ns().saturating_add(timeout_ns));
        loop {
            let looked = look(&mut net.lock(), self.inner.id)?;
            if let Some(found) = looked {
                return Ok(found);
            }
            match turn::block("waits for a connection", Some(self.inner.condition), until_ns) {
                Some(Woken::Notified) => {}
                Some(Woken::Late) => return Err(io::ErrorKind::TimedOut.into()),
                None => return Err(outside()),
            }
        }
    }
}

impl Read for BlockingClient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.wait_until(self.timeouts().read, |state, id| state.receive(id, buffer))
    }
}

impl Write for BlockingClient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.wait_until(self.timeouts().write, |state, id| match state.send(id, &[IoSlice::new(bytes)])? {
            0 => {
                state.await_room(id);
                Ok(None)
            }
            sent => Ok(Some(sent)),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let abort = *self.aborts.lock().unwrap_or_else(PoisonError::into_inner);
        self.net.lock().close(self.id, abort);
    }
}

fn outside() -> io::Error {
    io::Error::other("the caller is no simulated thread, or its node has crashed")
}
