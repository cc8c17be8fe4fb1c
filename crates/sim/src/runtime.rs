//! The clients of testkit's proofs, as threads of the simulation.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// How long a client waits for an answer.
    patience: Duration,
    /// The only operations that clients perform, and those that they came to.
    only: Arc<Option<BTreeSet<(usize, u64)>>>,
    asked: Arc<Mutex<Vec<(usize, u64)>>>,
}

impl Simulated {
    /// The server that listens on a node.
    #[must_use]
    pub fn new(server: NodeId, address: Address) -> Self {
        Self { server, address, next: Arc::default(), patience: READ_TIMEOUT, only: Arc::default(), asked: Arc::default() }
    }

    /// The machine of the server.
    #[must_use]
    pub fn server(&self) -> NodeId {
        self.server
    }

    /// Clients wait longer for an answer: under a schedule that gives some threads no more than what others leave.
    #[must_use]
    pub fn patient(self) -> Self {
        Self { patience: 5 * READ_TIMEOUT, ..self }
    }

    /// Clients perform these operations only, each by the number of a client and its own.
    #[must_use]
    pub fn only(self, operations: Option<BTreeSet<(usize, u64)>>) -> Self {
        Self { only: Arc::new(operations), ..self }
    }

    /// The operations that clients had, in the order in which they came to them, but for those that they left out.
    #[must_use]
    pub fn operations(&self) -> Arc<Mutex<Vec<(usize, u64)>>> {
        Arc::clone(&self.asked)
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
        client.set_read_timeout(Some(self.patience));
        client.set_write_timeout(Some(self.patience));
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

    fn includes(&self, client: usize, operation: u64) -> bool {
        let is_included = self.only.as_ref().as_ref().is_none_or(|only| only.contains(&(client, operation)));
        if is_included {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((client, operation));
        }
        is_included
    }
}
