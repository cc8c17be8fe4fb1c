//! Messages to workers, from any thread.
//!
//! A mailbox is a queue without locks and a wake. The sender makes the system call of the wake only when the worker said that
//! it goes to sleep: the worker sets `asleep`, then looks at the queue once more; the sender pushes, then looks at `asleep`.
//! With a full fence between each pair, at least one of them sees the other's write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use almandine_io::wake::Wake;
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;

use crate::counters::Counters;
use crate::limits::Limits;
use crate::service::ConnectionId;

/// What arrives in a mailbox.
pub(crate) enum Mail<M> {
    /// For the service.
    Message(M),
    /// A connection that another worker accepted.
    Connection(Accepted),
}

/// An accepted connection on its way to its worker.
pub(crate) struct Accepted {
    pub(crate) descriptor: std::os::fd::OwnedFd,
    pub(crate) endpoint: usize,
}

/// The public side of one worker.
pub(crate) struct SharedWorker<M> {
    mail: CachePadded<SegQueue<Mail<M>>>,
    /// Written by the worker around its waits, cleared by whoever wakes it.
    asleep: CachePadded<AtomicBool>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) counters: CachePadded<Counters>,
    /// Connections assigned and not yet closed. Any worker adds, the owner subtracts.
    assigned: CachePadded<AtomicUsize>,
}

/// What all workers share.
pub(crate) struct Shared<M> {
    pub(crate) workers: Box<[SharedWorker<M>]>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) stopping: AtomicBool,
    /// Serializes the choice of a worker, so that the balance is exact. Taken once per connection.
    balance: std::sync::Mutex<()>,
    ids: AtomicU64,
}

/// Reaches every worker; cheap to clone.
pub struct Handle<M> {
    shared: Arc<Shared<M>>,
}

impl<M> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> Handle<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Self {
        Self { shared }
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// Sends a message to a worker's service. A worker may send to itself; it gets the message in the same round.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn send(&self, worker: usize, message: M) {
        self.shared.workers[worker].post(Mail::Message(message));
    }

    /// What a worker counts.
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn counters(&self, worker: usize) -> &Counters {
        &self.shared.workers[worker].counters
    }

    /// Connections that a worker has now, with those on their way to it.
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn connections(&self, worker: usize) -> usize {
        self.shared.workers[worker].assigned.load(Ordering::Relaxed)
    }

    /// The sum of one counter over all workers.
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&Counters) -> &crate::counters::Counter) -> u64 {
        self.shared.workers.iter().map(|worker| counter(&worker.counters).value()).fold(0, u64::wrapping_add)
    }

    /// Makes every worker close its connections and return from [`crate::Worker::run`].
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for worker in &self.shared.workers {
            worker.wake.wake();
        }
    }
}

impl<M> Shared<M> {
    pub(crate) fn new(workers: usize, limits: Arc<Limits>) -> io::Result<Self> {
        let workers = (0..workers).map(|_| SharedWorker::new()).collect::<io::Result<_>>()?;
        Ok(Self { workers, limits, stopping: AtomicBool::new(false), balance: std::sync::Mutex::new(()), ids: AtomicU64::new(1) })
    }

    pub(crate) fn next_id(&self) -> ConnectionId {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Chooses the worker with the fewest connections for a new one; on a tie `own`, the worker that accepted it. `None` when
    /// there are too many connections already.
    pub(crate) fn assign(&self, own: usize) -> Option<usize> {
        let _guard = self.balance.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = |worker: usize| self.workers[worker].assigned.load(Ordering::Relaxed);
        let total: usize = (0..self.workers.len()).map(count).sum();
        if total >= self.limits.connections_max.load(Ordering::Relaxed) {
            return None;
        }
        let mut chosen = own;
        for worker in 0..self.workers.len() {
            if count(worker) < count(chosen) {
                chosen = worker;
            }
        }
        self.workers[chosen].assigned.fetch_add(1, Ordering::Relaxed);
        Some(chosen)
    }

    /// A connection of `worker` is gone.
    pub(crate) fn release(&self, worker: usize) {
        self.workers[worker].assigned.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<M> SharedWorker<M> {
    fn new() -> io::Result<Self> {
        Ok(Self {
            mail: CachePadded::default(),
            asleep: CachePadded::default(),
            wake: Arc::new(Wake::new()?),
            counters: CachePadded::default(),
            assigned: CachePadded::default(),
        })
    }

    pub(crate) fn post(&self, mail: Mail<M>) {
        self.mail.push(mail);
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake.wake();
        }
    }

    pub(crate) fn take(&self) -> Option<Mail<M>> {
        self.mail.pop()
    }

    /// The worker is about to wait. Returns whether it may: mail that is there already would not wake it.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.mail.is_empty()
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
