//! What all sessions of a server share: configuration, statistics, client registry, command logs, latency monitor, tracking.
//!
//! **Is**: the state of one running server that is not data. Every worker holds the same `Arc<Node>`.
//! **Is not**: a place for keys and values ([`almandine_keyspace`]), for a connection's private state (the session), or for commands.
//! It knows no command by name: commands are dense indexes here.
//! **Invariants**: nothing on a batch's ordinary path takes a mutex or writes a line that another worker writes; mutexes guard
//! what happens at connect, at close, for slow commands, for errors and for administrators.
//! **Start reading at**: [`Node`], then [`statistics`] and [`control`].

pub mod clients;
pub mod control;
pub mod histogram;
pub mod latency;
pub mod metrics;
pub mod rates;
pub mod slowlog;
pub mod statistics;
pub mod tracking;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use almandine_config::{Config, Parameter, SetError, Settings};
use almandine_io::{clock, entropy};
use almandine_keyspace::Keyspace;

pub use clients::{Activity, ClientIdentity, ClientOrigin, ClientShared, Clients};
pub use control::{Mailbox, Message, MonitorFeed, Pause, PauseScope, Shutdown, ShutdownRequest, Workers};
pub use histogram::Histogram;
pub use latency::LatencyMonitor;
pub use rates::Rates;
pub use slowlog::{CommandLogs, SlowEntry, SlowLog};
pub use statistics::{Statistics, WorkerStatistics};
pub use tracking::{Changed, Tracking, TrackingOptions, TrackingTotals};

/// The version that INFO reports as ours.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of Redis whose behaviour clients may expect.
pub const REDIS_VERSION: &str = "7.4.0";

/// Makes settings effective that are not simply read: the memory budget, the network's limits, the log level. Gets the parameters that
/// changed, too.
pub type Applier = Box<dyn Fn(&Settings, &[&'static Parameter]) -> Result<(), SetError> + Send + Sync>;

/// What the server was built with, and runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Build {
    /// The allocator of what is not in the store.
    pub allocator: &'static str,
    /// How sockets are awaited.
    pub reactor: &'static str,
}

/// Figures of the network, copied here ten times a second by a background thread.
#[derive(Debug, Default)]
pub struct NetworkGauges {
    /// Connections refused because of `maxclients`, since the start.
    pub connections_rejected: AtomicU64,
    /// Connections closed because they were idle, since the start.
    pub connections_timed_out: AtomicU64,
    /// Bytes of replies that peers have not taken.
    pub output_pending_bytes: AtomicU64,
    /// Bytes reserved for incomplete input.
    pub input_buffer_bytes: AtomicU64,
}

/// Figures of object storage, copied here ten times a second by a background thread.
#[derive(Debug, Default)]
pub struct ObjectGauges {
    /// Bytes that the directories above it keep.
    pub directory_bytes: AtomicU64,
    /// Bytes that it holds.
    pub bytes: AtomicU64,
    /// Bytes that the directories have and that are on their way to it.
    pub backlog_bytes: AtomicU64,
    /// Reads that failed, since the start.
    pub read_errors: AtomicU64,
    /// Writes that failed, since the start; they are tried again.
    pub write_errors: AtomicU64,
    /// Deletions that failed, since the start.
    pub delete_errors: AtomicU64,
    /// What the last failure said; empty if there was none.
    pub last_error: Mutex<String>,
}

impl ObjectGauges {
    /// What the last failure said, as one line.
    #[must_use]
    pub fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what the last failure said; as one line, which INFO needs.
    pub fn set_last_error(&self, text: &str) {
        let line = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LAST_ERROR_CHARS_MAX).collect();
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }
}

/// Longest error text in INFO: object stores answer with whole documents.
const LAST_ERROR_CHARS_MAX: usize = 500;

/// One running server.
pub struct Node {
    /// The configuration.
    pub config: Config,
    /// The data.
    pub keyspace: Arc<Keyspace>,
    /// Counters.
    pub statistics: Statistics,
    /// Connections.
    pub clients: Clients,
    /// Messages to workers.
    pub workers: Workers,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// MONITOR.
    pub monitors: MonitorFeed,
    /// CLIENT TRACKING.
    pub tracking: Tracking,
    /// SLOWLOG and COMMANDLOG.
    pub logs: CommandLogs,
    /// LATENCY.
    pub latency: LatencyMonitor,
    /// What the network reports.
    pub network: NetworkGauges,
    /// What object storage reports.
    pub objects: ObjectGauges,
    /// Makes changed settings effective.
    applier: OnceLock<Applier>,
    /// Rates of late.
    pub rates: Rates,
    /// SHUTDOWN and signals.
    pub shutdown: Shutdown,
    /// 40 hexadecimal digits that name this run of the process.
    pub run_id: String,
    replication_id: Mutex<String>,
    build: OnceLock<Build>,
    /// The keyspace's counters as of the last CONFIG RESETSTAT.
    store_baseline: Mutex<almandine_keyspace::Totals>,
    peak_bytes: AtomicU64,
    /// Bytes that the empty keyspace used.
    pub startup_bytes: u64,
    /// When the process started, Unix milliseconds.
    pub started_ms: i64,
    /// How many workers run.
    pub worker_count: usize,
}

impl Node {
    /// A node configured by `config` over `keyspace`, with `workers` workers and `commands` commands, whose run is named by `run_id`.
    #[must_use]
    pub fn new(config: Config, keyspace: Arc<Keyspace>, workers: usize, commands: usize, run_id: String) -> Self {
        let startup_bytes = keyspace.used_memory();
        let tracking = Tracking::new(Arc::clone(&keyspace));
        Self {
            config,
            keyspace,
            statistics: Statistics::new(workers, commands),
            clients: Clients::default(),
            workers: Workers::default(),
            pause: Pause::default(),
            monitors: MonitorFeed::default(),
            tracking,
            logs: CommandLogs::default(),
            latency: LatencyMonitor::default(),
            network: NetworkGauges::default(),
            objects: ObjectGauges::default(),
            applier: OnceLock::new(),
            rates: Rates::default(),
            shutdown: Shutdown::default(),
            run_id,
            replication_id: Mutex::new(random_id()),
            build: OnceLock::new(),
            store_baseline: Mutex::default(),
            peak_bytes: AtomicU64::new(startup_bytes),
            startup_bytes,
            started_ms: clock::unix_ms(),
            worker_count: workers,
        }
    }

    /// Installs what makes changed settings effective; a second call changes nothing.
    pub fn install_applier(&self, applier: Applier) {
        let _ = self.applier.set(applier);
    }

    /// CONFIG SET: changes all of `pairs` or none, and makes the changes effective. `local` says whether the peer is on this machine.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing is changed then.
    pub fn configure(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), SetError> {
        let apply = |settings: &Settings, changed: &[&'static Parameter]| {
            self.applier.get().map_or(Ok(()), |apply| apply(settings, changed))
        };
        self.config.set(pairs, local, apply).map(|_| ())
    }

    /// Says what the server was built with; a second call changes nothing.
    pub fn install_build(&self, build: Build) {
        let _ = self.build.set(build);
    }

    /// What the server was built with, as far as it has said so.
    #[must_use]
    pub fn build(&self) -> Build {
        self.build.get().copied().unwrap_or_default()
    }

    /// Takes the samples that rates and peaks are made of, and holds the table of tracked keys to its limit. Called ten times a second by
    /// one background thread.
    pub fn sample(&self) {
        self.rates.sample(clock::unix_ms(), self.statistics.totals());
        self.sample_tracking();
        self.note_memory(self.keyspace.used_memory());
    }

    /// Notes that `bytes` are in use, and returns the highest use so far.
    pub fn note_memory(&self, bytes: u64) -> u64 {
        self.peak_bytes.fetch_max(bytes, Relaxed).max(bytes)
    }

    /// The keyspace's counters since the last CONFIG RESETSTAT; its gauges as they are.
    #[must_use]
    pub fn store_totals(&self) -> almandine_keyspace::Totals {
        let (mut totals, before) = (self.keyspace.totals(), *lock(&self.store_baseline));
        totals.expired -= before.expired;
        totals.evicted -= before.evicted;
        totals
    }

    /// CONFIG RESETSTAT.
    pub fn reset_statistics(&self) {
        self.statistics.reset();
        *lock(&self.store_baseline) = self.keyspace.totals();
        self.peak_bytes.store(self.keyspace.used_memory(), Relaxed);
    }

    /// 40 hexadecimal digits that name this history of writes.
    #[must_use]
    pub fn replication_id(&self) -> String {
        lock(&self.replication_id).clone()
    }

    /// Gives the history of writes another name.
    pub fn change_replication_id(&self) {
        *lock(&self.replication_id) = random_id();
    }

    /// Seconds since the start.
    #[must_use]
    pub fn uptime_s(&self) -> u64 {
        u64::try_from((clock::unix_ms() - self.started_ms) / 1000).unwrap_or(0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 40 hexadecimal digits.
fn random_id() -> String {
    let id: String = (0..3).map(|_| format!("{:016x}", entropy::seed())).collect();
    id[..40].to_owned()
}
