//! How threads reach a connection that another worker owns: messages to workers.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use almandine_keyspace::{ReadyKey, holds_messages, resume_holding, suspend_holding};
use bytes::Bytes;

use crate::breaks::Breaks;
use crate::client::ClientShared;
use crate::pubsub::{Matched, Publication};
use crate::rest::Rest;
use crate::tracking::Changed;

/// What one worker, or a background thread, asks of another worker.
#[derive(Clone, Debug)]
pub enum Message {
    /// Close these connections.
    Kill(Vec<u64>),
    /// Send these bytes, complete replies, to one connection.
    Push(u64, Bytes),
    /// Clients hold too much memory, and the largest is yours.
    EvictClients,
    /// Scripts of yours have ended that another thread went on with.
    ScriptsEnded,
    /// Look at the pause again: continue connections that wait for its end.
    Resume,
    /// Commands that write may go on: the storage device has caught up.
    StallEnd,
    /// More of the operation log is written or durable: connections that wait for it go on.
    LogAdvanced,
    /// The operation log is broken and given up: connections that wait for it are closed.
    LogBroken,
    /// A client that waits until a backup is sealed has an answer.
    BackupEnded(u64),
    /// Keys that a client may hold a copy of have changed.
    Invalidate {
        /// The connection that is notified.
        client: u64,
        /// The client in whose place it is notified, if not its own. It learns when this connection is gone.
        origin: Option<u64>,
        /// The keys.
        keys: Changed,
        /// Breaks of the log that all workers had heard of.
        breaks: u64,
    },
    /// The wait of a client has ended: it goes on.
    Unblock(Box<Unblock>),
    /// The store has removed a key: serve the clients that wait for its end.
    Lost(ReadyKey),
    /// There may be something for a client that waits sooner than its worker knows.
    LookAgain(u64),
    /// A message for all connections of the worker that listen to it.
    Publish(Arc<Publication>),
    /// Close the connections that listen to a message, which was dropped because too much waits for the worker.
    Unheard(Arc<Publication>),
    /// Close this connection if it listens to what its user may not listen to.
    CheckSubscriptions(u64),
    /// The connection that was to be notified in place of a client is gone.
    RedirectBroken {
        /// The client.
        client: u64,
        /// The connection that is gone.
        redirect: u64,
    },
}

/// How the wait of a client has ended.
#[derive(Clone, Debug)]
pub struct Unblock {
    /// The client.
    pub client: u64,
    /// What it is answered.
    pub answer: UnblockAnswer,
}

/// What a client is answered whose wait has ended.
#[derive(Clone, Debug)]
pub enum UnblockAnswer {
    /// What its command has answered, and messages that follow that.
    Served(Bytes, Bytes),
    /// That its time is up, which it is not.
    TimedOut,
    /// The error of CLIENT UNBLOCK.
    Error,
    /// That what it has waited for is done, or why it is not.
    Done(Result<(), String>),
}

/// Things that are held of one unit of work. Of one that tells of more, those before go when these are reached: as many messages at
/// once would be dropped by any mailbox.
const HELD_MAX: usize = 1 << 16;

/// What a thread has told of a unit of several commands that is not published yet ([`holds_messages`]).
#[derive(Debug)]
pub(crate) enum Held {
    /// A message to the listeners of a channel, and which patterns match that.
    Publication { shard: bool, channel: Bytes, payload: Bytes, matched: Option<Matched> },
    /// A message to a worker.
    Message { worker: usize, message: Message },
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    /// Whether one of the thread's units has told something before it was published.
    static TOLD_EARLY: Cell<bool> = const { Cell::new(false) };
}

/// Holds something. Whether what is held is to go now.
pub(crate) fn hold(held: Held) -> bool {
    HELD.with_borrow_mut(|all| {
        all.push(held);
        let is_full = all.len() >= HELD_MAX;
        if is_full {
            TOLD_EARLY.set(true);
        }
        is_full
    })
}

/// Takes what this thread holds, in its order.
pub(crate) fn take_held() -> Vec<Held> {
    HELD.take()
}

/// What a unit of work has told that goes on in another thread.
#[derive(Debug)]
pub struct HeldOfUnit {
    holds: bool,
    told: Vec<Held>,
    told_early: bool,
}

impl HeldOfUnit {
    /// Whether the calling thread has told something of its unit before the end of that: it is heard when the unit cannot be open
    /// any more.
    #[must_use]
    pub fn is_told_early() -> bool {
        TOLD_EARLY.get()
    }

    /// Takes it from the calling thread, which has the unit open.
    #[must_use]
    pub fn take() -> Self {
        Self { holds: suspend_holding(), told: take_held(), told_early: TOLD_EARLY.take() }
    }

    /// The calling thread goes on with the unit.
    pub fn put(self) {
        resume_holding(self.holds);
        HELD.set(self.told);
        TOLD_EARLY.set(self.told_early);
    }
}

/// Where a worker's messages go. Installed once by the server.
pub trait Mailbox: Send + Sync {
    /// Queues `message` and wakes the worker. Returns false when the message was dropped, because too much waits for the worker;
    /// the connection that it was for is closed then.
    fn send(&self, message: Message) -> bool;
}

/// The workers' mailboxes. Not all of them need have a worker that reads it: workers begin one after the other, and do not end
/// before the server does.
#[derive(Default)]
pub struct Workers {
    mailboxes: OnceLock<Vec<Arc<dyn Mailbox>>>,
    /// Workers that run, from the first.
    running: AtomicUsize,
    /// Workers that take new connections, from the first.
    active: AtomicUsize,
    /// Whether all of them rest.
    pub rest: Arc<Rest>,
    /// Breaks of the log that they have heard of.
    pub breaks: Breaks,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workers({})", self.mailboxes.get().map_or(0, Vec::len))
    }
}

impl Message {
    /// Of a message that tells of units of work, the breaks of the log that all workers had heard of when it was sent.
    #[must_use]
    pub fn breaks(&self) -> Option<u64> {
        match self {
            Self::Publish(publication) => Some(publication.breaks),
            Self::Invalidate { breaks, .. } => Some(*breaks),
            _ => None,
        }
    }
}

impl Workers {
    /// Installs the mailboxes; a second call changes nothing. All workers run then, or are about to.
    pub fn install(&self, mailboxes: Vec<Arc<dyn Mailbox>>) {
        self.set_running(mailboxes.len(), mailboxes.len());
        let _ = self.mailboxes.set(mailboxes);
    }

    /// Says how many workers run, or are about to, and how many of those take new connections.
    pub fn set_running(&self, running: usize, active: usize) {
        self.running.store(running, Ordering::SeqCst);
        self.active.store(active, Ordering::SeqCst);
    }

    /// How many workers take new connections.
    #[must_use]
    pub fn active(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    /// Sends to one worker; before the server is up the message is lost. Returns false when the message was dropped
    /// ([`Mailbox::send`]).
    pub fn send(&self, worker: usize, message: Message) -> bool {
        self.mailboxes.get().and_then(|mailboxes| mailboxes.get(worker)).is_some_and(|mailbox| mailbox.send(message))
    }

    /// As [`Workers::send`], of what tells of a unit of work: it may have to wait for the end of that.
    pub fn tell(&self, worker: usize, message: Message) -> bool {
        if !holds_messages() {
            return self.send(worker, message);
        }
        // Those of one unit are bounded by the table of tracked keys.
        let _ = hold(Held::Message { worker, message });
        true
    }

    /// Sends to one of the workers that run, by a number.
    pub fn send_to_some(&self, number: u64, message: Message) {
        let running = self.running.load(Ordering::SeqCst).max(1);
        self.send((number % running as u64) as usize, message);
    }

    /// Sends to every worker that runs.
    pub fn broadcast(&self, message: &Message) {
        let running = self.running.load(Ordering::SeqCst);
        self.mailboxes.get().into_iter().flatten().take(running).for_each(|mailbox| _ = mailbox.send(message.clone()));
    }

    /// Closes a connection, whichever worker owns it.
    pub fn kill(&self, client: &ClientShared) {
        client.killed.store(true, Ordering::Relaxed);
        self.send(client.worker, Message::Kill(vec![client.id]));
    }
}
