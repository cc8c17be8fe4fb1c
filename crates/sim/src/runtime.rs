//! The clients of testkit's proofs, as threads of the simulation.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use almandine_io::sim::net::BlockingClient;
use almandine_io::sim::turn;
use almandine_io::sim::world::{self, NodeId};
use almandine_io::socket::Address;
use almandine_testkit::client::READ_TIMEOUT;
use almandine_testkit::runtime::{Joiner, Runtime, Stream};

/// The server of a node, as clients see it. Its clients are threads of the node of the caller.
#[derive(Clone)]
pub struct Simulated {
    server: NodeId,
    address: Address,
    next: Arc<AtomicU64>,
}

impl Simulated {
    /// The server that listens on a node.
    #[must_use]
    pub fn new(server: NodeId, address: Address) -> Self {
        Self { server, address, next: Arc::default() }
    }
}

/// A connection in the simulated network.
#[derive(Debug)]
pub struct Connection(BlockingClient);

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Connection {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout);
        Ok(())
    }

    fn end_writing(&self) {
        self.0.finish();
    }
}

impl Runtime for Simulated {
    type Stream = Connection;

    fn open(&self) -> io::Result<Connection> {
        let client = world::connect(self.server, &self.address, Duration::from_secs(5))?;
        client.set_read_timeout(Some(READ_TIMEOUT));
        client.set_write_timeout(Some(READ_TIMEOUT));
        Ok(Connection(client))
    }

    fn now_ns(&self) -> u64 {
        turn::simulation().map_or(0, |turn| turn.now_ns())
    }

    fn sleep(&self, time: Duration) {
        turn::sleep(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    fn spawn<T: Send + 'static>(&self, name: &str, body: impl FnOnce() -> T + Send + 'static) -> Joiner<T> {
        let (world, node) = world::current().expect("a proof runs in a simulated thread");
        let thread = world.spawn(node, name, body);
        Joiner::new(move || thread.join().expect("the machine of the clients does not crash"))
    }

    fn unique(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}
