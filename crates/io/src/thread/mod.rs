//! Threads: named, optionally pinned, ranked; and a [`Waker`] that loses no signal.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
pub use turns::Turns;
pub use waker::Waker;

#[cfg(feature = "sim")]
use crate::sim::turn::{self as sim, Place, Point};

mod turns;
mod waker;

/// A thread that another one can wait for; dropped, it lets the thread run on.
#[derive(Debug)]
pub struct JoinHandle<T>(Inner<T>);

#[derive(Debug)]
enum Inner<T> {
    System(thread::JoinHandle<T>),
    #[cfg(feature = "sim")]
    Simulated(sim::SimThread<T>),
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// With what it panicked with, when it did.
    pub fn join(self) -> thread::Result<T> {
        match self.0 {
            Inner::System(thread) => thread.join(),
            #[cfg(feature = "sim")]
            Inner::Simulated(thread) => {
                thread.join().ok_or_else(|| Box::new("its node has crashed") as Box<dyn std::any::Any + Send>)
            }
        }
    }

    /// Whether the thread is the calling one.
    #[must_use]
    pub fn is_current(&self) -> bool {
        match &self.0 {
            Inner::System(thread) => thread.thread().id() == thread::current().id(),
            #[cfg(feature = "sim")]
            Inner::Simulated(thread) => thread.is_current(),
        }
    }
}

/// Starts a named thread.
///
/// # Errors
/// When the system cannot create one.
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return Ok(JoinHandle(Inner::Simulated(sim::spawn(name, body))));
    }
    let on_own_signal_stack = move || {
        #[cfg(not(miri))]
        let _stack = crate::crash::SignalStack::new();
        body()
    };
    thread::Builder::new().name(name.to_owned()).spawn(on_own_signal_stack).map(|thread| JoinHandle(Inner::System(thread)))
}

/// Gives up the processor for one scheduling round; used by latches after a short spin.
pub fn yield_now() {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return sim::point(Point::Yield);
    }
    thread::yield_now();
}

/// Sleeps; for a thread that has spun and yielded in vain, so that a preempted one gets the processor.
pub fn sleep(time: Duration) {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return sim::sleep(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
    thread::sleep(time);
}

/// How far a thread stands behind the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// What keeps the store in order: on a busy processor it gets about two thirds of a worker's share.
    Background = 2,
    /// What copies the data: a third. That it gives the processor up at once when a worker wakes up, it needs [`Turns`] for.
    Copies = 5,
}

/// Ranks the calling thread behind the workers.
///
/// # Errors
/// When the system does not allow it.
pub fn rank_behind_workers(rank: Rank) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return Ok(());
    }
    let own = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(None, own + rank as i32).map_err(io::Error::from)
}

/// Pins the calling thread to one processor.
///
/// # Errors
/// When the processor does not exist or the process may not use it.
pub fn pin_to(processor: usize) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return Ok(());
    }
    let mut set = CpuSet::new();
    if processor >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    set.set(processor);
    sched_setaffinity(None, &set).map_err(io::Error::from)
}

/// Keeps all threads of the process, and those that they start from now on, to some processors.
///
/// # Errors
/// When none of them exists or the process may use none.
pub fn keep_to(processors: &[usize]) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &processor in processors.iter().filter(|processor| **processor < CpuSet::MAX_CPU) {
        set.set(processor);
    }
    sched_setaffinity(None, &set)?;
    // What a thread starts while it is being looked at is found the second time.
    for _ in 0..2 {
        for thread in std::fs::read_dir("/proc/self/task")? {
            let id = thread?.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
            match sched_setaffinity(id, &set) {
                // It has ended meanwhile.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The processors that the calling thread may run on.
///
/// # Errors
/// When the system does not say.
pub fn kept_to() -> io::Result<Vec<usize>> {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return Ok((0..sim::PROCESSORS).collect());
    }
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

/// The processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    #[cfg(feature = "sim")]
    if sim::place() != Place::Outside {
        return sim::PROCESSORS;
    }
    thread::available_parallelism().map_or(1, usize::from)
}
