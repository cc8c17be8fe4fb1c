//! Where a proof runs: against a server on this machine, which its address stands for, or in a simulation, which brings time,
//! threads and connections of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::READ_TIMEOUT;

/// A connection to the server. Reads and writes block.
pub trait Stream: Read + Write + Send + 'static {
    /// Bounds the time that a read takes; without a bound it waits for ever.
    ///
    /// # Errors
    /// Of the socket.
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// Ends what this side sends.
    fn end_writing(&self);
}

/// See the module.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Its connections.
    type Stream: Stream;

    /// Connects to the server.
    ///
    /// # Errors
    /// When the server does not accept.
    fn open(&self) -> io::Result<Self::Stream>;

    /// Nanoseconds since some start.
    fn now_ns(&self) -> u64;

    /// Lets time pass.
    fn sleep(&self, time: Duration);

    /// Lets a very short time pass, as exactly as it can.
    fn pause(&self, time: Duration) {
        self.sleep(time);
    }

    /// Starts a thread.
    fn spawn<T: Send + 'static>(&self, name: &str, body: impl FnOnce() -> T + Send + 'static) -> Joiner<T>;

    /// A number that no other call has got, for the names of keys.
    fn unique(&self) -> u64;

    /// Whether a client performs its operation of this number: a run that has failed is repeated with fewer. An operation that is
    /// left out takes its client a moment.
    fn includes(&self, _client: usize, _operation: u64) -> bool {
        true
    }
}

/// How long a client takes for an operation that is left out, so that its time goes on.
pub const LEFT_OUT: Duration = Duration::from_micros(50);

/// Waits for a thread.
pub struct Joiner<T>(Box<dyn FnOnce() -> T>);

impl<T> Joiner<T> {
    /// With what waits for the thread and gives its result.
    pub fn new(join: impl FnOnce() -> T + 'static) -> Self {
        Self(Box::new(join))
    }

    /// Waits for the end of the thread.
    pub fn join(self) -> T {
        (self.0)()
    }
}

impl Stream for TcpStream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Self::set_read_timeout(self, timeout)
    }

    fn end_writing(&self) {
        self.shutdown(Shutdown::Write).ok();
    }
}

impl Runtime for SocketAddr {
    type Stream = TcpStream;

    fn open(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(self, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        Ok(stream)
    }

    fn now_ns(&self) -> u64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed().as_nanos() as u64
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn pause(&self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {}
    }

    fn spawn<T: Send + 'static>(&self, name: &str, body: impl FnOnce() -> T + Send + 'static) -> Joiner<T> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).expect("the system has a thread left");
        Joiner::new(move || thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn unique(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}
