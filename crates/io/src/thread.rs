//! Threads: named, optionally pinned, and a parker that wakes without losing a signal.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// Starts a named thread.
///
/// # Errors
/// When the system cannot create one.
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
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
    let mut set = rustix::thread::CpuSet::new();
    if processor >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).map_err(io::Error::from)
}

/// The processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Wakes one waiting thread. A wake that comes before the wait is not lost; a wake of a running thread is one atomic load.
#[derive(Debug)]
pub struct Waker {
    waiting: AtomicBool,
    signalled: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Default for Waker {
    fn default() -> Self {
        Self::new()
    }
}

impl Waker {
    /// A waker without a thread yet; the first [`Waker::wait`] binds it to its caller.
    #[must_use]
    pub const fn new() -> Self {
        Self { waiting: AtomicBool::new(false), signalled: AtomicBool::new(false), thread: std::sync::OnceLock::new() }
    }

    /// Wakes the waiting thread, or makes its next wait return at once.
    pub fn wake(&self) {
        if !self.signalled.load(Ordering::Relaxed) {
            self.signalled.store(true, Ordering::SeqCst);
        }
        if self.waiting.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Waits until woken or until `timeout` has passed. Called by one thread only.
    pub fn wait(&self, timeout: Duration) {
        self.thread.get_or_init(thread::current);
        self.waiting.store(true, Ordering::SeqCst);
        if !self.signalled.load(Ordering::SeqCst) {
            thread::park_timeout(timeout);
        }
        self.waiting.store(false, Ordering::SeqCst);
        self.signalled.store(false, Ordering::SeqCst);
    }
}
