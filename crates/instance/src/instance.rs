//! The instance: everything that all sessions share, in one place.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use almandine_acl::Defaults;
use almandine_config::choices::ChannelsByDefault;
use almandine_config::{Config, Parameter, SetError, Settings};
use almandine_io::sync::Mutex;
use almandine_io::{clock, entropy};
use almandine_keyspace::{Accessor, Keyspace, Work};
use almandine_oplog::LibraryForm;
use almandine_script::{ChangeKind, LibraryChange, Scripts};

use crate::acl::Acl;
use crate::client::Clients;
use crate::lock::lock;
use crate::messages::{Message, Workers};
use crate::observe::gauges::Gauges;
use crate::observe::latency::LatencyMonitor;
use crate::observe::monitor::MonitorFeed;
use crate::observe::slowlog::CommandLogs;
use crate::observe::statistics::Statistics;
use crate::pause::Pause;
use crate::persistence::Persistence;
use crate::pubsub::PubSub;
use crate::shutdown::Shutdown;
use crate::tracking::Tracking;

/// Makes settings effective that are not simply read: the memory budget, the network's limits, the log level. Gets the parameters
/// that changed, too.
pub type Applier = Box<dyn Fn(&Settings, &[&'static Parameter]) -> Result<(), SetError> + Send + Sync>;

/// What the server was built with, and runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Build {
    /// The allocator of what is not in the store.
    pub allocator: &'static str,
    /// How sockets are awaited.
    pub reactor: &'static str,
}

/// One running server.
// reason: a field for each thing that the sessions share.
pub struct Instance {
    /// The configuration.
    pub config: Config,
    /// The data.
    pub keyspace: Arc<Keyspace>,
    /// Counters.
    pub statistics: Statistics,
    /// Connections.
    pub clients: Arc<Clients>,
    /// Users.
    pub acl: Acl,
    /// Messages to workers.
    pub workers: Arc<Workers>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// MONITOR.
    pub monitors: MonitorFeed,
    /// CLIENT TRACKING.
    pub tracking: Arc<Tracking>,
    /// Publish/subscribe.
    pub pubsub: Arc<PubSub>,
    /// EVAL and SCRIPT.
    pub scripts: Scripts,
    /// SLOWLOG and COMMANDLOG.
    pub logs: CommandLogs,
    /// LATENCY.
    pub latency: LatencyMonitor,
    /// Figures that background threads bring.
    pub gauges: Gauges,
    /// Files that are loaded and written.
    pub persistence: Persistence,
    /// Makes changed settings effective.
    applier: OnceLock<Applier>,
    /// SHUTDOWN and signals.
    pub shutdown: Shutdown,
    /// This run of the process.
    pub run: Run,
}

/// What CONFIG RESETSTAT begins anew.
#[derive(Debug)]
struct SinceReset {
    /// The keyspace's counters as of then.
    baseline: Mutex<almandine_keyspace::Totals>,
    /// What the background had freed as of then.
    freed: AtomicU64,
    /// The highest use of memory since.
    peak_bytes: AtomicU64,
}

/// One run of the process.
#[derive(Debug)]
pub struct Run {
    /// 40 hexadecimal digits that name it.
    pub id: String,
    replication_id: Mutex<String>,
    build: OnceLock<Build>,
    /// Bytes that the empty keyspace used.
    pub startup_bytes: u64,
    /// When it started, Unix milliseconds.
    pub started_ms: i64,
    /// Whether RESTORE takes payloads whatever their checksum is; DEBUG says so.
    pub payloads_unsummed: AtomicBool,
    /// Whether the registers of HyperLogLogs are gone through one by one; PFDEBUG SIMD OFF says so.
    pub registers_one_by_one: AtomicBool,
    since_reset: SinceReset,
}

impl Instance {
    /// Says in the log of writes, where there is one, which libraries of functions there are now. Within a batch.
    pub fn log_functions(&self, accessor: &mut Accessor) {
        if self.persistence.log.is_on() {
            let (version, texts) = self.scripts.libraries.texts();
            self.keyspace.log().functions(accessor, version, LibraryForm::All, &texts);
            self.scripts.libraries.logged(version);
        }
    }

    /// Says there how the libraries of functions were changed: by texts that were loaded, or names that were deleted. Within the
    /// batch that has changed them.
    pub fn log_library_change(&self, accessor: &mut Accessor, change: LibraryChange, changed: &[impl AsRef<[u8]>]) {
        let form = match change.kind {
            ChangeKind::Any => return self.log_functions(accessor),
            ChangeKind::Loaded => LibraryForm::Loaded,
            ChangeKind::Deleted => LibraryForm::Deleted,
        };
        if self.persistence.log.is_on() {
            self.keyspace.log().functions(accessor, change.version, form, changed);
            self.scripts.libraries.logged(change.version);
        }
    }

    /// An instance configured by `config` over `keyspace`, with at most `workers` workers and the users of `acl`, whose run is
    /// named by `run_id`.
    #[must_use]
    pub fn new(config: Config, keyspace: Arc<Keyspace>, workers: usize, acl: Acl, run_id: String) -> Self {
        let startup_bytes = keyspace.figures().used_bytes();
        let (clients, mailboxes) = (Arc::new(Clients::new(workers)), Arc::new(Workers::default()));
        let pubsub = Arc::new(PubSub::new(Arc::clone(&mailboxes)));
        let held = Arc::clone(&pubsub);
        keyspace.listeners().on_unit_end(move || held.tell_held());
        let tracking = Tracking::new(Arc::clone(&keyspace), Arc::clone(&clients), Arc::clone(&mailboxes));
        Self {
            config,
            keyspace,
            statistics: Statistics::new(workers, acl.catalog().len()),
            clients,
            acl,
            pubsub,
            workers: mailboxes,
            pause: Pause::default(),
            monitors: MonitorFeed::default(),
            tracking: Arc::new(tracking),
            scripts: Scripts::default(),
            logs: CommandLogs::default(),
            latency: LatencyMonitor::default(),
            gauges: Gauges::default(),
            persistence: Persistence::default(),
            applier: OnceLock::new(),
            shutdown: Shutdown::default(),
            run: Run {
                id: run_id,
                replication_id: Mutex::new(random_id()),
                build: OnceLock::new(),
                startup_bytes,
                started_ms: clock::unix_ms(),
                payloads_unsummed: AtomicBool::new(false),
                registers_one_by_one: AtomicBool::new(false),
                since_reset: SinceReset {
                    baseline: Mutex::default(),
                    freed: AtomicU64::new(0),
                    peak_bytes: AtomicU64::new(startup_bytes),
                },
            },
        }
    }

    /// Publishes keyspace events, of the classes that
    /// [`tell_events`](almandine_keyspace::Listeners::tell_events) names. Once, before there are any.
    pub fn publish_events(&self) {
        let pubsub = Arc::clone(&self.pubsub);
        self.keyspace.listeners().on_events(move |event| pubsub.publish_event(event));
    }

    /// Has a worker serve the clients that wait for the end of a key when the store removes it by itself. Called once, before there
    /// are clients.
    pub fn follow_lost_keys(&self) {
        let workers = Arc::clone(&self.workers);
        self.keyspace.listeners().on_lost(move |key| workers.send_to_some(key.hash >> 32, Message::Lost(key)));
    }

    /// Installs what makes changed settings effective; a second call changes nothing.
    pub fn install_applier(&self, applier: Applier) {
        let _ = self.applier.set(applier);
    }

    /// CONFIG SET: changes all of `pairs` or none, and makes the changes effective. `local` says whether the peer is on this
    /// machine.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing is changed then.
    pub fn configure(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), SetError> {
        let apply = |settings: &Settings, changed: &[&'static Parameter]| {
            self.applier.get().map_or(Ok(()), |apply| apply(settings, changed))
        };
        let changed = self.config.set(pairs, local, apply)?;
        if changed.iter().any(|parameter| parameter.name == "requirepass") {
            self.acl.set_default_password(self.config.snapshot().settings.security.requirepass.as_bytes());
        }
        let settings = &self.config.snapshot().settings;
        if settings.connections.clients_memory_max.bytes(settings.memory.maxmemory) > 0 {
            // Workers that wait for events would not notice a lower limit.
            self.workers.broadcast(&Message::EvictClients);
        }
        Ok(())
    }

    /// The lines of the configuration file that describe the users; none when they have a file of their own.
    #[must_use]
    pub fn user_lines(&self) -> Vec<String> {
        if !self.config.snapshot().settings.security.acl_file.is_empty() {
            return Vec::new();
        }
        self.acl.users().iter().map(|user| String::from_utf8_lossy(&user.describe()).into_owned()).collect()
    }

    /// What the configuration says of new users.
    #[must_use]
    pub fn user_defaults(&self) -> Defaults {
        let channels = self.config.snapshot().settings.security.channels_by_default;
        Defaults { all_channels: channels == ChannelsByDefault::All }
    }

    /// Says what the server was built with; a second call changes nothing.
    pub fn install_build(&self, build: Build) {
        let _ = self.run.build.set(build);
    }

    /// What the server was built with, as far as it has said so.
    #[must_use]
    pub fn build(&self) -> Build {
        self.run.build.get().copied().unwrap_or_default()
    }

    /// Takes the samples that rates and peaks are made of, and holds the table of tracked keys to its limit. Called ten times a
    /// second by one background thread.
    pub fn sample(&self) {
        let now_ms = clock::unix_ms();
        self.gauges.rates.sample(now_ms, self.statistics.totals());
        self.statistics.hot_keys.expire(now_ms);
        // What is being loaded loses keys behind its end only: until then, a log may have changes of them.
        let is_held = || self.pause.active(now_ms).is_some() || self.persistence.is_loading();
        self.keyspace.settings().hold_expiry(is_held());
        if is_held() {
            // It may have begun between the look and the word.
            self.keyspace.settings().hold_expiry(true);
        }
        self.tracking.limit_quietly(self.config.snapshot().settings.connections.tracking_keys_max);
        self.note_memory(self.keyspace.figures().used_bytes());
    }

    /// Notes that `bytes` are in use, and returns the highest use so far.
    pub fn note_memory(&self, bytes: u64) -> u64 {
        self.run.since_reset.peak_bytes.fetch_max(bytes, Relaxed).max(bytes)
    }

    /// The keyspace's counters since the last CONFIG RESETSTAT; its gauges as they are.
    #[must_use]
    pub fn store_totals(&self) -> almandine_keyspace::Totals {
        let (mut totals, before) = (self.keyspace.figures().totals(), *lock(&self.run.since_reset.baseline));
        totals.expired -= before.expired;
        totals.evicted -= before.evicted;
        totals
    }

    /// Changes since the last snapshot.
    #[must_use]
    pub fn unsaved_changes(&self) -> u64 {
        let changes = self.keyspace.figures().totals().changes - self.persistence.saves.figures().changes;
        changes.max(0).unsigned_abs()
    }

    /// Large values and emptied databases that the background has freed since the last CONFIG RESETSTAT.
    #[must_use]
    pub fn freed_objects(&self) -> u64 {
        freed(&self.keyspace.figures().work()).saturating_sub(self.run.since_reset.freed.load(Relaxed))
    }

    /// CONFIG RESETSTAT.
    pub fn reset_statistics(&self) {
        self.statistics.reset();
        self.gauges.network.reset();
        self.scripts.reset_statistics();
        self.run.since_reset.freed.store(freed(&self.keyspace.figures().work()), Relaxed);
        *lock(&self.run.since_reset.baseline) = self.keyspace.figures().totals();
        self.run.since_reset.peak_bytes.store(self.keyspace.figures().used_bytes(), Relaxed);
    }

    /// 40 hexadecimal digits that name this history of writes.
    #[must_use]
    pub fn replication_id(&self) -> String {
        lock(&self.run.replication_id).clone()
    }

    /// Gives the history of writes another name.
    pub fn change_replication_id(&self) {
        *lock(&self.run.replication_id) = random_id();
    }

    /// Seconds since the start.
    #[must_use]
    pub fn uptime_s(&self) -> u64 {
        u64::try_from((clock::unix_ms() - self.run.started_ms) / 1000).unwrap_or(0)
    }
}

/// Objects that the background has freed since the start.
fn freed(work: &Work) -> u64 {
    work.values_freed + work.namespaces_swept
}

/// 40 hexadecimal digits.
fn random_id() -> String {
    let id: String = (0..3).map(|_| format!("{:016x}", entropy::seed())).collect();
    id[..40].to_owned()
}
