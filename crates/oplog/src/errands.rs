//! What takes long with files, and is not to hold up what is written: a thread of its own does it, one after the other.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Condvar, Mutex, MutexGuard, Receiver, channel};
use almandine_io::thread;

use crate::fault::Fault;

type Job = Box<dyn FnOnce() + Send>;

/// See the module. Dropped, it does what it was given, and ends.
#[derive(Debug)]
pub(crate) struct Errands {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Called when a job is done.
    tell: Tell,
}

/// What is called when something has changed.
#[derive(Clone)]
pub(crate) struct Tell(Arc<dyn Fn() + Send + Sync>);

impl Tell {
    pub(crate) fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Tell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tell")
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    stops: bool,
}

/// A job that is being done.
#[derive(Debug)]
pub(crate) struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// Whether [`Self::wait`] waits for nothing.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_ready()
    }

    /// Its result; none when it has panicked.
    pub(crate) fn wait(self) -> Option<T> {
        self.0.receive()
    }
}

impl Errands {
    pub(crate) fn start(directory: &Path, tell: Tell) -> Result<Self, Fault> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), tell });
        let own = Arc::clone(&shared);
        let thread =
            thread::spawn("log-files", move || own.run()).map_err(|error| Fault::io("start a thread for", directory, error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Has a job done behind those before.
    pub(crate) fn give<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let (sender, receiver) = channel();
        let tell = self.shared.tell.clone();
        self.shared.push(Box::new(move || {
            sender.send(job());
            tell.call();
        }));
        Pending(receiver)
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        self.shared.state().stops = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        self.state().jobs.push_back(job);
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.stops {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            job();
            state = self.state();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn jobs_are_done_in_their_order_and_before_the_thread_ends() {
        let told = Arc::new(AtomicU32::new(0));
        let tells = Arc::clone(&told);
        let errands = Errands::start(Path::new("."), Tell::new(move || _ = tells.fetch_add(1, Ordering::Relaxed))).unwrap();
        let done = Arc::new(AtomicU32::new(0));
        let job = |digit| {
            let done = Arc::clone(&done);
            move || done.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |done| Some(done * 10 + digit))
        };
        let first = errands.give(job(1));
        assert_eq!(first.wait(), Some(Ok(0)));
        let rest = [2, 3].map(|digit| errands.give(job(digit)));
        drop(errands);
        assert!(rest.iter().all(Pending::is_done));
        assert_eq!((done.load(Ordering::Relaxed), told.load(Ordering::Relaxed)), (123, 3));
    }
}
