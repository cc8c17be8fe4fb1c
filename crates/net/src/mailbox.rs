//! Messages to workers, from any thread.
//!
//! A mailbox is a queue without locks and a wake. The sender makes the system call of the wake only when the worker said that
//! it goes to sleep: the worker sets `asleep`, then looks at the queue once more; the sender pushes, then looks at `asleep`.
//! With a full fence between each pair, at least one of them sees the other's write.
//!
//! What is for single connections is bounded in bytes, so a worker that is busy for long does not fill the memory with what others
//! push. Beyond the bound a connection is closed instead, which takes a word per connection.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, PoisonError};

use almandine_base::points::point;
use almandine_io::socket::Descriptor;
use almandine_io::sync::Mutex;
use almandine_io::wake::Wake;
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;

use crate::counters::Counters;
use crate::endpoints::{Endpoint, Endpoints, Origin};
use crate::limits::Limits;
use crate::service::ConnectionId;

/// Bytes of messages for connections that wait for a worker, beyond which the connections that get more are closed.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// What a message costs beside the bytes that it carries.
const MESSAGE_BYTES: usize = 128;

/// What arrives in a mailbox.
pub(crate) enum Mail<M> {
    /// For the service.
    Message(M),
    /// For a connection, with this number of bytes.
    Push(M, usize),
    /// A connection of this worker that was accepted elsewhere.
    Connection(Accepted),
    /// A connection of no worker yet, from an endpoint that is being closed.
    Waiting(Accepted),
    /// What to accept from has changed.
    Endpoints,
}

/// An accepted connection on its way to its worker.
pub(crate) struct Accepted {
    pub(crate) descriptor: Descriptor,
    pub(crate) origin: Arc<Origin>,
}

/// The public side of one worker.
pub(crate) struct SharedWorker<M> {
    mail: CachePadded<SegQueue<Mail<M>>>,
    /// Bytes of the [`Mail::Push`] among it. Senders add, the worker subtracts.
    pushed_bytes: CachePadded<AtomicUsize>,
    /// Connections that a message did not reach, to be closed by the worker.
    missed: Mutex<BTreeSet<ConnectionId>>,
    /// Whether there are any; the worker looks at it in each round.
    has_missed: AtomicBool,
    /// Written by the worker around its waits, cleared by the thread that wakes it.
    asleep: CachePadded<AtomicBool>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) counters: CachePadded<Counters>,
    /// It has begun to read its mail.
    running: AtomicBool,
    /// Connections assigned and not yet closed. Any worker adds, the owner subtracts.
    assigned: CachePadded<AtomicUsize>,
}

/// What all workers share.
pub(crate) struct Shared<M> {
    pub(crate) workers: Box<[SharedWorker<M>]>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) endpoints: Endpoints,
    pub(crate) stopping: AtomicBool,
    /// Serializes the choice of a worker, so that the balance is exact. Taken once per connection.
    balance: Mutex<()>,
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

    /// Sends a message that brings a connection of that worker `bytes` bytes of output. When too many bytes wait there already,
    /// the message is dropped and the connection is closed, because its client could not know of the loss. Returns whether the
    /// message was sent; the connection may still be gone when it arrives.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn push(&self, worker: usize, connection: ConnectionId, message: M, bytes: usize) -> bool {
        let worker = &self.shared.workers[worker];
        let fits = worker.post_within(message, bytes);
        if !fits {
            worker.miss(connection);
        }
        fits
    }

    /// Sends a message that brings several connections of that worker output, `bytes` bytes in the mailbox. Returns false when
    /// too many of those wait there already; the message is dropped then.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn try_send(&self, worker: usize, message: M, bytes: usize) -> bool {
        self.shared.workers[worker].post_within(message, bytes)
    }

    /// Bytes of [`Handle::push`] that a worker has not seen yet.
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn pushed_bytes(&self, worker: usize) -> usize {
        self.shared.workers[worker].pushed_bytes.load(Ordering::Relaxed)
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

    /// Makes these the endpoints that connections are accepted from. Endpoints that are not among them have stopped listening
    /// when this returns; their connections stay, including those that were not accepted yet.
    pub fn listen(&self, endpoints: Vec<Arc<Endpoint>>) {
        let left = self.shared.endpoints.replace(endpoints);
        point("endpoints change");
        self.shared.endpoints_changed();
        for endpoint in left {
            point("an endpoint is left");
            let origin = || Origin { address: endpoint.listener.address().clone(), transport: endpoint.transport.clone() };
            while let Ok(Some(descriptor)) = endpoint.listener.accept() {
                self.shared.workers[0].post(Mail::Waiting(Accepted { descriptor, origin: Arc::new(origin()) }));
            }
            endpoint.listener.close();
        }
    }

    /// The first `active` workers take new connections from now on, and the others only serve those that they have. The first
    /// ones must run.
    ///
    /// # Panics
    /// When `active` is zero, or more than there are workers.
    pub fn set_active(&self, active: usize) {
        assert!((1..=self.workers()).contains(&active));
        {
            let _guard = self.shared.balance.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.endpoints.set_active(active);
        }
        self.shared.endpoints_changed();
    }

    /// Whether a worker has begun. It serves until [`Handle::stop`].
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn is_running(&self, worker: usize) -> bool {
        self.shared.workers[worker].running.load(Ordering::SeqCst)
    }

    /// Has a worker that sleeps make a round, which it counts.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn wake(&self, worker: usize) {
        self.shared.workers[worker].wake.wake();
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
    pub(crate) fn new(workers: usize, endpoints: Endpoints, limits: Arc<Limits>) -> io::Result<Self> {
        let workers = (0..workers).map(|_| SharedWorker::new()).collect::<io::Result<_>>()?;
        Ok(Self { workers, limits, endpoints, stopping: AtomicBool::new(false), balance: Mutex::new(()), ids: AtomicU64::new(1) })
    }

    pub(crate) fn next_id(&self) -> ConnectionId {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Chooses the active worker with the fewest connections for a new one; on a tie `own`, the worker that accepted it. `None`
    /// when there are too many connections already.
    pub(crate) fn assign(&self, own: usize) -> Option<usize> {
        let _guard = self.balance.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |worker: usize| self.workers[worker].assigned.load(Ordering::Relaxed);
        let total: usize = (0..self.workers.len()).map(count).sum();
        if total >= self.limits.connections_max.load(Ordering::Relaxed) {
            return None;
        }
        let active = self.endpoints.active();
        let mut chosen = if own < active { own } else { 0 };
        for worker in 0..active {
            if count(worker) < count(chosen) {
                chosen = worker;
            }
        }
        self.workers[chosen].assigned.fetch_add(1, Ordering::Relaxed);
        Some(chosen)
    }

    /// Has the running workers look at the endpoints again.
    fn endpoints_changed(&self) {
        for worker in self.workers.iter().filter(|worker| worker.running.load(Ordering::SeqCst)) {
            worker.post(Mail::Endpoints);
        }
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
            pushed_bytes: CachePadded::default(),
            missed: Mutex::default(),
            has_missed: AtomicBool::new(false),
            asleep: CachePadded::default(),
            wake: Arc::new(Wake::new()?),
            counters: CachePadded::default(),
            running: AtomicBool::new(false),
            assigned: CachePadded::default(),
        })
    }

    /// The worker reads its mail from now on; see [`crate::endpoints`].
    pub(crate) fn begin(&self) {
        self.running.store(true, Ordering::SeqCst);
    }

    pub(crate) fn post(&self, mail: Mail<M>) {
        self.mail.push(mail);
        point("mail is posted");
        self.wake_if_asleep();
    }

    /// Posts a message if not too many bytes wait already. Says whether it did.
    fn post_within(&self, message: M, bytes: usize) -> bool {
        let bytes = bytes + MESSAGE_BYTES;
        // Added before it is compared, so that senders together keep to the bound.
        let fits = self.pushed_bytes.fetch_add(bytes, Ordering::Relaxed) < BYTES_MAX;
        if fits {
            self.post(Mail::Push(message, bytes));
        } else {
            self.pushed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn miss(&self, connection: ConnectionId) {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(connection);
        point("a message has missed");
        self.has_missed.store(true, Ordering::Release);
        self.wake_if_asleep();
    }

    fn wake_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake.wake();
        }
    }

    pub(crate) fn take(&self) -> Option<Mail<M>> {
        let mail = self.mail.pop();
        if let Some(Mail::Push(_, bytes)) = &mail {
            self.pushed_bytes.fetch_sub(*bytes, Ordering::Relaxed);
        }
        mail
    }

    /// The connections that a message did not reach since the last call.
    pub(crate) fn take_missed(&self) -> BTreeSet<ConnectionId> {
        if !self.has_missed.load(Ordering::Relaxed) || !self.has_missed.swap(false, Ordering::Acquire) {
            return BTreeSet::new();
        }
        std::mem::take(&mut *self.missed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The worker is about to wait. Returns whether it may: mail that is there already would not wake it.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        point("falls asleep");
        self.mail.is_empty() && !self.has_missed.load(Ordering::Relaxed)
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
