//! Threads: named, optionally pinned, ranked; and a [`Waker`] that loses no signal.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
pub use waker::Waker;

mod waker;

/// A thread that another one can wait for; dropped, it lets the thread run on.
#[derive(Debug)]
pub struct JoinHandle<T>(thread::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread.
    ///
    /// # Errors
    /// With what it panicked with, when it did.
    pub fn join(self) -> thread::Result<T> {
        self.0.join()
    }

    /// Whether the thread is the calling one.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.0.thread().id() == thread::current().id()
    }
}

/// Starts a named thread.
///
/// # Errors
/// When the system cannot create one.
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    let on_own_signal_stack = move || {
        #[cfg(not(miri))]
        let _stack = crate::crash::SignalStack::new();
        body()
    };
    thread::Builder::new().name(name.to_owned()).spawn(on_own_signal_stack).map(JoinHandle)
}

/// Gives up the processor for one scheduling round; used by latches after a short spin.
pub fn yield_now() {
    thread::yield_now();
}

/// Sleeps; for a thread that has spun and yielded in vain, so that a preempted one gets the processor.
pub fn sleep(time: Duration) {
    thread::sleep(time);
}

/// Ranks the calling thread behind the workers: on a busy processor it gets about two thirds of their share.
///
/// # Errors
/// When the system does not allow it.
pub fn rank_behind_workers() -> io::Result<()> {
    let own = rustix::process::getpriority_process(None)?;
    rustix::process::setpriority_process(None, own + 2).map_err(io::Error::from)
}

/// Pins the calling thread to one processor.
///
/// # Errors
/// When the processor does not exist or the process may not use it.
pub fn pin_to(processor: usize) -> io::Result<()> {
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
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

/// The processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
