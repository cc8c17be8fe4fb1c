//! Where a test runs: on the reactors of this kernel, or with the feature `sim` in simulations of several seeds. There threads,
//! time and connections are simulated ones.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use almandine_io::clock;
use almandine_io::reactor::Kind;
#[cfg(feature = "sim")]
use almandine_io::sim::net::BlockingClient;
use almandine_io::socket::Address;
use almandine_io::thread::{self, JoinHandle};

/// The reactors of this kernel.
pub(crate) const KINDS: [Kind; 2] = [Kind::Epoll, Kind::Uring];

/// How long a client waits for anything.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a test on each reactor; with the feature `sim`, in simulations whose network and schedules do all that a kernel may.
pub(crate) fn each(test: fn(Kind)) {
    #[cfg(not(feature = "sim"))]
    KINDS.into_iter().for_each(test);
    #[cfg(feature = "sim")]
    simulated::roughly(test);
}

/// Runs a test on each reactor; with the feature `sim`, in simulations whose network and schedules are harmless.
pub(crate) fn each_calmly(test: fn(Kind)) {
    #[cfg(not(feature = "sim"))]
    KINDS.into_iter().for_each(test);
    #[cfg(feature = "sim")]
    simulated::calmly(test);
}

#[cfg(feature = "sim")]
mod simulated {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use almandine_io::reactor::Kind;
    use almandine_io::sim::choice::Choices;
    use almandine_io::sim::net::NetOptions;
    use almandine_io::sim::turn::{Policy, Schedule};
    use almandine_io::sim::world::World;

    const DAY_NS: u64 = 24 * 3_600_000_000_000;

    pub(super) fn roughly(test: fn(Kind)) {
        run(0, NetOptions::default(), Schedule::default(), test);
        let policies = [Policy::Random, Policy::Pct { changes: 3, steps: 5_000 }, Policy::Starve("worker".to_owned())];
        for (seed, policy) in (1..).zip(policies) {
            let schedule = Schedule { policy, inner_per_million: 50_000, stalls_per_million: 100 };
            run(seed, NetOptions::rough(), schedule, test);
        }
    }

    pub(super) fn calmly(test: fn(Kind)) {
        for seed in 0..8 {
            // Threads switch within protocols, but none is held up.
            let schedule = Schedule { inner_per_million: 200_000, ..Schedule::default() };
            run(seed, NetOptions::default(), schedule, test);
        }
    }

    /// Runs a test as a thread of a world with one node.
    fn run(seed: u64, options: NetOptions, schedule: Schedule, test: fn(Kind)) {
        World::enter(Choices::from_seed(seed), schedule, |world| {
            world.net().set_options(options);
            let ended = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&ended);
            let _ = world.spawn(world.node(), "test", move || {
                test(Kind::Sim);
                ends.store(true, Ordering::Relaxed);
            });
            if let Err(failure) = world.run(DAY_NS) {
                panic!("seed {seed}: {failure}\n{}{:?}", world.turn().trace_words(), world.net().faults());
            }
            let words = world.turn().trace_words();
            assert!(ended.load(Ordering::Relaxed), "seed {seed}: the test lasts longer than a day\n{words}");
            assert_eq!(world.net().connections(), 0, "seed {seed}: connections are left over");
        });
    }
}

/// Starts a thread of the test.
pub(crate) fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(name, body).unwrap()
}

/// Lets others run for some milliseconds.
pub(crate) fn sleep_ms(time_ms: u64) {
    thread::sleep(Duration::from_millis(time_ms));
}

/// Measures time.
pub(crate) struct Stopwatch(u64);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(clock::monotonic_ns())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::monotonic_ns() - self.0)
    }
}

/// A client's end of a connection.
pub(crate) enum Pipe {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "sim")]
    Sim(BlockingClient),
}

impl Pipe {
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if let Some((_, node)) = almandine_io::sim::world::current() {
            let client = almandine_io::sim::world::connect(node, address, TIMEOUT)?;
            client.set_read_timeout(Some(TIMEOUT));
            return Ok(Self::Sim(client));
        }
        Ok(match address {
            Address::Ip(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
        })
    }

    /// The same end for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            #[cfg(feature = "sim")]
            Self::Sim(client) => Self::Sim(client.clone()),
        })
    }

    pub(crate) fn set_write_timeout(&self, timeout: Duration) {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(Some(timeout)).unwrap(),
            Self::Unix(stream) => stream.set_write_timeout(Some(timeout)).unwrap(),
            #[cfg(feature = "sim")]
            Self::Sim(client) => client.set_write_timeout(Some(timeout)),
        }
    }

    /// Ends the direction to the server.
    pub(crate) fn finish(&self) {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            #[cfg(feature = "sim")]
            Self::Sim(client) => client.finish(),
        }
    }

    /// Makes the close a reset.
    pub(crate) fn reset_when_closed(&self) {
        match self {
            Self::Tcp(stream) => socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap(),
            Self::Unix(_) => {}
            #[cfg(feature = "sim")]
            Self::Sim(client) => client.reset_when_closed(),
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            #[cfg(feature = "sim")]
            Self::Sim(client) => client.read(buffer),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            #[cfg(feature = "sim")]
            Self::Sim(client) => client.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
