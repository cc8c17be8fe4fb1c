//! What other threads may know of a connection.
//!
//! A session owns its connection; no other thread touches it. What CLIENT LIST shows lies in [`ClientShared`], written by the
//! owning worker with plain stores.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, MutexGuard};
use almandine_keyspace::Waiter;

use crate::lock::lock;
use almandine_acl::DEFAULT_USER_ID;

use crate::tracking::TrackingOptions;

/// What a client told about itself; changed by commands, read by CLIENT LIST.
#[derive(Clone, Debug, Default)]
pub struct ClientIdentity {
    /// CLIENT SETNAME.
    pub name: String,
    /// The authenticated user.
    pub user: String,
    /// The same; tells users of one name from each other.
    pub user_id: u64,
    /// CLIENT SETINFO LIB-NAME.
    pub library_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
}

/// What the owning worker writes after every batch: one cache line, so that it costs one.
#[derive(Debug)]
#[repr(align(64))]
pub struct Activity {
    /// The last batch, Unix milliseconds.
    pub at_ms: AtomicI64,
    /// Commands executed.
    pub commands: AtomicU64,
    /// Bytes of commands.
    pub input_bytes: AtomicU64,
    /// Bytes of replies.
    pub output_bytes: AtomicU64,
    /// Bytes of replies that the peer has not taken.
    pub output_pending_bytes: AtomicUsize,
    /// Bytes of an incomplete command.
    pub query_bytes: AtomicUsize,
    /// Dense index of the last command; `u32::MAX` before the first.
    pub last_command: AtomicU32,
    /// Selected database.
    pub db: AtomicU16,
    /// Protocol version, 2 or 3.
    pub protocol: AtomicU8,
}

const _: () = assert!(size_of::<Activity>() == 64);

/// One connection as other threads see it.
// reason: each of them is written by itself.
#[derive(Debug)]
pub struct ClientShared {
    /// The connection's number, unique in the process.
    pub id: u64,
    /// The worker that owns it.
    pub worker: usize,
    /// The peer's address, `ip:port` or `path:0`.
    pub address: String,
    /// Our address.
    pub local_address: String,
    /// Whether the peer came over a Unix socket.
    pub unix_socket: bool,
    /// The socket's descriptor, for information only.
    pub descriptor: i32,
    /// When it connected, Unix milliseconds.
    pub created_ms: i64,
    /// What changes with every batch.
    pub activity: Activity,
    /// How it is treated.
    pub modes: ModesShown,
    /// CLIENT TRACKING.
    pub tracking: TrackingShown,
    /// MULTI and WATCH.
    pub transaction: TransactionShown,
    /// Subscriptions.
    pub subscriptions: SubscriptionsShown,
    /// What it holds of memory.
    pub memory: MemoryShown,
    /// What it waits for, for CLIENT UNBLOCK.
    pub blocked: Blocked,
    /// Marked by CLIENT KILL; the owner closes it when it next looks.
    pub killed: AtomicBool,
    identity: Mutex<ClientIdentity>,
}

/// What a client waits for, while it does.
#[derive(Debug, Default)]
pub struct Blocked(Mutex<Option<Arc<Waiter>>>);

impl Blocked {
    /// The client waits, or does not any more.
    pub fn set(&self, waiter: Option<Arc<Waiter>>) {
        *lock(&self.0) = waiter;
    }

    /// What it waits for.
    #[must_use]
    pub fn waiter(&self) -> Option<Arc<Waiter>> {
        lock(&self.0).clone()
    }
}

/// What is fixed about a connection from its start.
#[derive(Clone, Debug)]
pub struct ClientOrigin {
    /// See [`ClientShared::id`].
    pub id: u64,
    /// See [`ClientShared::worker`].
    pub worker: usize,
    /// See [`ClientShared::address`].
    pub address: String,
    /// See [`ClientShared::local_address`].
    pub local_address: String,
    /// See [`ClientShared::unix_socket`].
    pub unix_socket: bool,
    /// See [`ClientShared::descriptor`].
    pub descriptor: i32,
    /// See [`ClientShared::created_ms`].
    pub created_ms: i64,
}

/// How a client is treated, for CLIENT LIST.
#[derive(Debug, Default)]
pub struct ModesShown {
    /// Runs MONITOR.
    pub monitor: AtomicBool,
    /// CLIENT NO-EVICT ON.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH ON.
    pub no_touch: AtomicBool,
    /// CLIENT CAPA redirect: it understands redirections, of which there are none yet.
    pub redirects: AtomicBool,
}

/// How a client's transaction stands, for CLIENT LIST.
#[derive(Debug)]
pub struct TransactionShown {
    /// Commands that wait for EXEC; -1 outside of a transaction.
    pub queued: AtomicI64,
    /// Bytes that they take.
    pub bytes: AtomicUsize,
    /// Watched keys.
    pub watched: AtomicUsize,
}

impl Default for TransactionShown {
    fn default() -> Self {
        Self { queued: AtomicI64::new(-1), bytes: AtomicUsize::new(0), watched: AtomicUsize::new(0) }
    }
}

/// How many subscriptions a client has, for CLIENT LIST.
#[derive(Debug, Default)]
pub struct SubscriptionsShown {
    /// Whether there are any: then it receives messages, and nothing else in RESP2.
    pub any: AtomicBool,
    /// Channels.
    pub channels: AtomicUsize,
    /// Patterns.
    pub patterns: AtomicUsize,
    /// Shard channels.
    pub shards: AtomicUsize,
}

/// What a client holds of memory, for CLIENT LIST; written when it changes. What is pending of output and of input is in
/// [`Activity`].
#[derive(Debug, Default)]
pub struct MemoryShown {
    /// Bytes reserved for input.
    pub input_bytes: AtomicUsize,
    /// Bytes of it that are headers and arguments of an incomplete command.
    pub understood_bytes: AtomicUsize,
    /// Pieces that pending output lies in.
    pub outputs: AtomicUsize,
    /// Bytes of memory for pending output, shared values included.
    pub output_bytes: AtomicUsize,
    /// All that the client holds.
    pub total_bytes: AtomicUsize,
}

/// How a client tracks, for CLIENT LIST and for a worker that finds its redirection broken.
#[derive(Debug)]
pub struct TrackingShown {
    /// The connection that gets its messages, 0 for itself; -1 while it does not track.
    pub redirect: AtomicI64,
    /// BCAST.
    pub broadcast: AtomicBool,
    /// A message did not find the connection that it was to go to.
    pub broken: AtomicBool,
}

impl Default for TrackingShown {
    fn default() -> Self {
        Self { redirect: AtomicI64::new(-1), broadcast: AtomicBool::new(false), broken: AtomicBool::new(false) }
    }
}

impl TrackingShown {
    /// Shows how the client tracks from now on; `None` when it does not.
    pub(crate) fn show(&self, options: Option<TrackingOptions>) {
        let redirect = options.map_or(-1, |options| i64::try_from(options.redirect).unwrap_or(i64::MAX));
        self.redirect.store(redirect, Relaxed);
        self.broadcast.store(options.is_some_and(|options| options.broadcast), Relaxed);
        self.broken.store(false, Relaxed);
    }
}

impl Activity {
    /// Adds one batch. Called by the owning worker only.
    #[inline]
    pub fn record(&self, now_ms: i64, commands: u64, last_command: u32, input_bytes: u64, output_bytes: u64) {
        let add = |counter: &AtomicU64, n: u64| counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
        self.at_ms.store(now_ms, Relaxed);
        self.last_command.store(last_command, Relaxed);
        add(&self.commands, commands);
        add(&self.input_bytes, input_bytes);
        add(&self.output_bytes, output_bytes);
    }

    /// Adds what a reply had that was made behind its batch. Called by the owning worker only.
    pub fn record_output(&self, bytes: u64) {
        self.output_bytes.store(self.output_bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    /// Adds a command that has waited, and its reply. Called by the owning worker only.
    pub fn record_waited(&self, bytes: u64) {
        self.commands.store(self.commands.load(Relaxed).wrapping_add(1), Relaxed);
        self.record_output(bytes);
    }
}

impl ClientShared {
    pub(super) fn new(origin: ClientOrigin) -> Self {
        Self {
            id: origin.id,
            worker: origin.worker,
            address: origin.address,
            local_address: origin.local_address,
            unix_socket: origin.unix_socket,
            descriptor: origin.descriptor,
            created_ms: origin.created_ms,
            activity: Activity {
                at_ms: AtomicI64::new(origin.created_ms),
                commands: AtomicU64::new(0),
                input_bytes: AtomicU64::new(0),
                output_bytes: AtomicU64::new(0),
                output_pending_bytes: AtomicUsize::new(0),
                query_bytes: AtomicUsize::new(0),
                last_command: AtomicU32::new(u32::MAX),
                db: AtomicU16::new(0),
                protocol: AtomicU8::new(2),
            },
            modes: ModesShown::default(),
            tracking: TrackingShown::default(),
            transaction: TransactionShown::default(),
            subscriptions: SubscriptionsShown::default(),
            memory: MemoryShown::default(),
            blocked: Blocked::default(),
            killed: AtomicBool::new(false),
            identity: Mutex::new(ClientIdentity {
                user: "default".to_owned(),
                user_id: DEFAULT_USER_ID,
                ..ClientIdentity::default()
            }),
        }
    }

    /// The client's own words. Never held across a batch.
    pub fn identity(&self) -> MutexGuard<'_, ClientIdentity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// CLIENT LIST's letters: `O` monitor, `P` subscriber, `b` waits for a key, `t` tracks, `R` its redirection is broken, `B` it
    /// tracks by prefix, `U` Unix socket, `A` to be closed, `e` never evicted, `T` touches no keys, `N` nothing of note.
    #[must_use]
    pub fn flags(&self) -> String {
        let letters = [
            (self.modes.monitor.load(Relaxed), 'O'),
            (self.subscriptions.any.load(Relaxed), 'P'),
            (self.transaction.queued.load(Relaxed) >= 0, 'x'),
            (self.blocked.waiter().is_some(), 'b'),
            (self.tracking.redirect.load(Relaxed) >= 0, 't'),
            (self.tracking.broken.load(Relaxed), 'R'),
            (self.tracking.broadcast.load(Relaxed), 'B'),
            (self.unix_socket, 'U'),
            (self.killed.load(Relaxed), 'A'),
            (self.modes.no_evict.load(Relaxed), 'e'),
            (self.modes.no_touch.load(Relaxed), 'T'),
        ];
        let set: String = letters.iter().filter(|(on, _)| *on).map(|(_, letter)| *letter).collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }
}
