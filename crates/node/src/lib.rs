//! What all sessions of a server share: configuration, statistics, client registry, slow log, latency monitor.
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

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use almandine_config::{Config, Parameter, SetError, Settings};
use almandine_io::clock;
use almandine_keyspace::Keyspace;

pub use clients::{Activity, ClientIdentity, ClientOrigin, ClientShared, Clients};
pub use control::{Mailbox, Message, MonitorFeed, Pause, PauseScope, Shutdown, ShutdownRequest, Workers};
pub use histogram::Histogram;
pub use latency::LatencyMonitor;
pub use rates::Rates;
pub use slowlog::{SlowEntry, SlowLog};
pub use statistics::{Statistics, WorkerStatistics};

/// The version that INFO reports as ours.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of Redis whose behaviour clients may expect.
pub const REDIS_VERSION: &str = "7.4.0";

/// Makes settings effective that are not simply read: the memory budget, the network's limits, the log level.
pub type Applier = Box<dyn Fn(&Settings) -> Result<(), SetError> + Send + Sync>;

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
    /// SLOWLOG.
    pub slowlog: SlowLog,
    /// LATENCY.
    pub latency: LatencyMonitor,
    /// What the network reports.
    pub network: NetworkGauges,
    /// Makes changed settings effective.
    applier: OnceLock<Applier>,
    /// Rates of late.
    pub rates: Rates,
    /// SHUTDOWN and signals.
    pub shutdown: Shutdown,
    /// 40 hexadecimal digits that name this run of the process.
    pub run_id: String,
    /// When the process started, Unix milliseconds.
    pub started_ms: i64,
    /// How many workers run.
    pub worker_count: usize,
}

impl Node {
    /// A node configured by `config` over `keyspace`, with `workers` workers and `commands` commands, whose run is named by `run_id`.
    #[must_use]
    pub fn new(config: Config, keyspace: Arc<Keyspace>, workers: usize, commands: usize, run_id: String) -> Self {
        Self {
            config,
            keyspace,
            statistics: Statistics::new(workers, commands),
            clients: Clients::default(),
            workers: Workers::default(),
            pause: Pause::default(),
            monitors: MonitorFeed::default(),
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            network: NetworkGauges::default(),
            applier: OnceLock::new(),
            rates: Rates::default(),
            shutdown: Shutdown::default(),
            run_id,
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
        let apply = |settings: &Settings, _: &[&'static Parameter]| self.applier.get().map_or(Ok(()), |apply| apply(settings));
        self.config.set(pairs, local, apply).map(|_| ())
    }

    /// Seconds since the start.
    #[must_use]
    pub fn uptime_s(&self) -> u64 {
        u64::try_from((clock::unix_ms() - self.started_ms) / 1000).unwrap_or(0)
    }
}
