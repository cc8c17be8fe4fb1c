//! One server, without what belongs to its process: signals, the log, the process' title, the pid file.
//!
//! A process may have several nodes. They share nothing but what `docs/simulation.md` lists.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use almandine_base::limits::STORE_THREADS_MAX;
use almandine_config::choices::IoBackend;
use almandine_config::{Config, SetError, Settings};
use almandine_console::Console;
use almandine_handler::Table;
use almandine_instance::{Build, Instance, Mailbox, Message, PauseScope, ShutdownRequest};
use almandine_io::reactor::{self, Choice, Kind};
use almandine_io::sync::Mutex;
use almandine_io::{clock, entropy};
use almandine_keyspace::{KeptDevice, Keyspace, Storage};
use almandine_net::{Handle, Limits};
use almandine_recovery::LANES_MAX;
use almandine_recovery::base::DeviceHead;

use crate::background::Control;
use crate::listeners::{Asked, Listeners};
use crate::network::Network;
use crate::operation_log::{Archiver, LogSlot, Rewriter, Uploader};
use crate::snapshots::Saver;
use crate::tls::Tls;
use crate::workers::Workers;
use crate::{apply, background, commands, operation_log, snapshots, startup, storage, users, workers};

/// The global allocator's name.
const ALLOCATOR: &str = if cfg!(feature = "jemalloc") { "jemalloc" } else { "mimalloc" };

/// Bytes of files that are loaded in a moment.
const MOMENT_BYTES: u64 = 1 << 20;
/// How long clients wait for a log that is being recovered, before they are told so.
const MOMENT_MS: i64 = 1000;

/// The process that a node runs in, as far as settings concern it. By default they do not.
pub(crate) trait Host: Send + Sync {
    /// Where relative paths of the settings begin; empty for the working directory of the process.
    fn directory(&self, settings: &Settings) -> PathBuf {
        PathBuf::from(&settings.process.dir)
    }

    /// Makes changed settings effective that the system may refuse.
    ///
    /// # Errors
    /// When it does.
    fn prepare(&self, settings: &Settings) -> Result<(), SetError> {
        let _ = settings;
        Ok(())
    }

    /// Makes the others effective.
    fn commit(&self, settings: &Settings) {
        let _ = settings;
    }
}

/// The process of another program, which settings of a node do not change.
struct Guest;

impl Host for Guest {}

/// A running server.
pub struct Node {
    instance: Arc<Instance>,
    table: &'static Table,
    network: Arc<Network>,
    handle: Handle<Message>,
    reactor: Kind,
    /// None once the node is stopped.
    control: Option<Control>,
    /// Writes snapshots; none once the node is stopped.
    saver: Option<Saver>,
    /// The data that is there at the start.
    data: Data,
    /// The operation log; empty before it is recovered.
    log: Arc<LogSlot>,
    /// Gives it new bases; none once the node is stopped.
    rewriter: Option<Rewriter>,
    /// Ship it and its backups to object storage, where settings say so; none once the node is stopped.
    shippers: (Option<Archiver>, Option<Uploader>),
}

/// Where the data is that a node starts with.
enum Data {
    /// Nowhere, or in a snapshot, whose bytes are beside its name.
    Snapshot(Option<(PathBuf, u64)>),
    /// In an operation log.
    Log(Mutex<Option<Box<operation_log::Found>>>),
}

impl Node {
    /// Starts a node that serves, and has loaded its data, by the time this returns.
    ///
    /// # Errors
    /// When the configuration cannot be followed, or the system refuses what it takes.
    pub fn start(config: Config) -> io::Result<Self> {
        let node = Self::open(config, Arc::new(Guest))?;
        node.begin()?;
        Ok(node)
    }

    /// Puts a node together. It listens, and answers no client before [`Node::serve`].
    pub(crate) fn open(config: Config, host: Arc<dyn Host>) -> io::Result<Self> {
        let snapshot = config.snapshot();
        let settings = &snapshot.settings;
        let directory = host.directory(settings);
        storage::check(settings, &directory).map_err(io::Error::other)?;
        operation_log::check(settings).map_err(io::Error::other)?;
        let table = follow_directives(&config)?;
        let acl = users::load(&config, table, &directory)?;
        let found = find_log(settings, &directory)?;
        let kept = found.as_ref().map_or(Ok(None), |found| found.device())?;
        let contents = match (&found, kept) {
            (None, _) => storage::Contents::Passing(operation_log::passed_over(settings, &directory)),
            (Some(found), None) => storage::Contents::Begun(found.id()),
            (Some(found), Some(head)) => storage::Contents::Kept(storage::LastBase { log: found.id(), number: head.base }),
        };
        let keys = match &found {
            Some(found) => found.keys(),
            None => operation_log::read_keys(settings, &directory)?,
        };
        let storage::Opened { storage, health, watch } = storage::open(settings, &directory, (contents, keys))?;
        let (workers, active) = (workers::most(settings), workers::wanted(settings));
        let keyspace = Keyspace::open(keyspace_options(settings, workers, (storage, kept)))?;
        if let Some(device) = keyspace.log().device().filter(|_| found.is_some()) {
            device.keep_for_bases();
        }
        apply::set_eviction(settings, &keyspace);
        apply::set_storage(settings, &keyspace);
        keyspace.listeners().tell_events(settings.observe.keyspace_events);
        let limits = apply::limits(settings);
        let selected = reactor::select(backend(settings.engine.io_backend))?;
        if let Some(reason) = &selected.reason {
            tracing::info!("Using epoll: {reason}");
        }
        let tls = Arc::<Tls>::default();
        tls.commit(tls.prepare(settings, &directory, true).map_err(io::Error::other)?);
        let (network, transports) = (&settings.network, tls.transports());
        let asked = Asked { network, tls_port: settings.tls.port, transports: &transports, directory: &directory };
        let listeners = Listeners::at_start(asked).map_err(|failure| failure.error)?;
        if listeners.endpoints().next().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "configured to not listen anywhere, exiting"));
        }
        let endpoints = listeners.endpoints().map(Arc::clone).collect();
        let options = almandine_net::Options { workers, active, reactor: selected.kind, endpoints, limits: Arc::clone(&limits) };
        let (handle, seats) = almandine_net::open::<Message>(options)?;
        let instance = Arc::new(Instance::new(config, keyspace, workers, acl, run_id()));
        connect(&instance, &handle, workers);
        let data = find_data(&instance, &directory, found)?;
        instance.gauges.storage.install(health);
        instance.install_build(Build { allocator: ALLOCATOR, reactor: selected.kind.name() });
        let control = background::start(Arc::clone(&instance), handle.clone(), watch, Arc::clone(&tls))?;
        let workers = Workers::new(seats, handle.clone(), &instance, table, settings.engine.pin_workers);
        let console = open_console(&instance, table, &tls)?;
        let network = Arc::new(Network::new(handle.clone(), workers, (tls, console), listeners, settings.clone()));
        let log = Arc::<LogSlot>::default();
        follow_changes(&instance, &network, limits, Arc::clone(&host), Arc::clone(&log));
        instance.persistence.saves.begin_from(instance.run.started_ms / 1000, 0);
        let saver = snapshots::start(Arc::clone(&instance), Arc::clone(&host), load_log(&instance, &host, &log, table))?;
        let (control, saver) = (Some(control), Some(saver));
        let below = Arc::clone(&host);
        let helpers = operation_log::install_backups(&instance, move |settings| below.directory(settings));
        let below = Arc::clone(&host);
        let uploader = Uploader::start(&instance, Arc::clone(&helpers.outbox), move |settings| below.directory(settings))?;
        let rewriter = Some(operation_log::start(
            Arc::clone(&instance),
            Arc::clone(&log),
            Box::new(move |settings| host.directory(settings)),
            helpers,
        )?);
        let archiver = Archiver::start(Arc::clone(&instance), Arc::clone(&log))?;
        let shippers = (archiver, uploader);
        Ok(Self { instance, table, network, handle, reactor: selected.kind, control, saver, data, log, rewriter, shippers })
    }

    /// Begins to serve, and loads the data that is there. What takes a moment only is loaded before: clients wait for it, and are
    /// not told of it.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors, or there is data that cannot be loaded whole.
    pub(crate) fn begin(&self) -> io::Result<()> {
        // Behind a log the workers are there already: the manifest says how many rings there are.
        let bytes = match &self.data {
            Data::Snapshot(found) => found.as_ref().map_or(0, |(_, bytes)| *bytes),
            Data::Log(_) => u64::MAX,
        };
        let is_slowed = self.instance.config.snapshot().settings.memory.key_load_delay_us != 0;
        let settings = &self.instance.config.snapshot().settings;
        startup::announce(settings, workers::wanted(settings), self.reactor);
        if bytes <= MOMENT_BYTES && !is_slowed {
            self.load()?;
            return self.serve();
        }
        let (pause, now_ms) = (&self.instance.pause, clock::unix_ms());
        let until_ms = now_ms + MOMENT_MS;
        let is_awaited = matches!(self.data, Data::Log(_)) && !is_slowed;
        if is_awaited {
            pause.start(PauseScope::All, until_ms, now_ms);
        }
        self.serve()?;
        self.load()?;
        // A client that was told so may have begun a pause of its own.
        if is_awaited && pause.end_ms() == Some(until_ms) {
            pause.stop();
            self.instance.workers.broadcast(&Message::Resume);
        }
        Ok(())
    }

    fn serve(&self) -> io::Result<()> {
        // The sockets listen, and clients wait for a worker: a client that is answered finds this in the log.
        self.network.announce();
        self.network.start()
    }

    /// Clients are told meanwhile that data is loaded.
    fn load(&self) -> io::Result<()> {
        let loaded = match &self.data {
            Data::Snapshot(None) => return Ok(()),
            Data::Snapshot(Some((path, _))) => snapshots::load(&self.instance, path)?,
            Data::Log(found) => {
                let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
                let log = found.map(|found| operation_log::recover(&self.instance, self.table, *found)).transpose()?.flatten();
                let settings = &self.instance.config.snapshot().settings;
                self.instance.keyspace.settings().set_budget(settings.memory.maxmemory);
                apply::set_eviction(settings, &self.instance.keyspace);
                let has_log = log.map(|log| self.log.put(log)).is_some();
                self.instance.persistence.archive.wake();
                has_log
            }
        };
        if loaded {
            self.instance.persistence.end_loading();
        }
        Ok(())
    }

    /// What its sessions share.
    #[must_use]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// What reaches its workers.
    pub(crate) fn handle(&self) -> &Handle<Message> {
        &self.handle
    }

    /// Its commands.
    #[must_use]
    pub fn commands(&self) -> &'static Table {
        self.table
    }

    /// Waits until its end is granted: what SHUTDOWN or the process asked for was saved before, or a worker has failed.
    pub fn wait(&self) {
        let _ = self.instance.shutdown.wait();
    }

    /// Closes all connections and ends all threads. The data goes with the last reference to the instance.
    ///
    /// # Errors
    /// When a worker has failed.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(control) = self.control.take() else { return Ok(()) };
        // The first request stands, where there was one.
        self.instance.shutdown.end(ShutdownRequest::default());
        let is_told = self.instance.shutdown.wait().save != Some(false)
            && !self.instance.persistence.is_loading()
            && self.log.get().is_none();
        if is_told && self.instance.unsaved_changes() > 0 {
            startup::warn_of_loss(&self.instance.keyspace);
        }
        tracing::warn!("Shutdown requested: closing {} connections", self.instance.clients.connected());
        self.handle.stop();
        let outcome = self.network.join();
        control.join();
        if let Some(saver) = self.saver.take() {
            saver.join(&self.instance);
        }
        if let Some(rewriter) = self.rewriter.take() {
            rewriter.join(&self.instance);
        }
        // A node that unwinds leaves its log as a crash does: the next start takes what the rings have.
        if !std::thread::panicking() {
            operation_log::end(&self.instance, &self.log);
        }
        let (archiver, uploader) = std::mem::take(&mut self.shippers);
        if let Some(uploader) = uploader {
            uploader.join();
        }
        if let Some(archiver) = archiver {
            archiver.join();
        }
        self.network.end_console();
        outcome
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A worker's failure is in the log.
        let _ = self.end();
    }
}

/// The console, which answers from now on where there is to be one.
fn open_console(instance: &Arc<Instance>, table: &'static Table, tls: &Tls) -> io::Result<Console> {
    let settings = &instance.config.snapshot().settings.console;
    let console = Console::new(instance, table, tls.acceptor());
    let change = console.prepare(settings).map_err(|error| {
        io::Error::new(error.kind(), format!("Failed listening on port {} (metrics), aborting: {error}", settings.port))
    })?;
    console.commit(change);
    Ok(console)
}

/// The log, where there is to be one.
fn find_log(settings: &Settings, directory: &Path) -> io::Result<Option<operation_log::Found>> {
    let find = || operation_log::find(settings, directory, directory.join(&settings.persistence.snapshot_file));
    settings.persistence.append_only.then(find).transpose()
}

/// What is to be loaded: commands are refused from now on until it is.
fn find_data(instance: &Instance, directory: &Path, log: Option<operation_log::Found>) -> io::Result<Data> {
    let settings = &instance.config.snapshot().settings;
    match almandine_recovery::save::remove_stale(directory) {
        Ok(0) => {}
        Ok(removed) => tracing::info!("Removed {removed} snapshots that an earlier process has not finished"),
        Err(error) => tracing::warn!("Unfinished snapshots of earlier processes stay: {error}"),
    }
    let path = directory.join(&settings.persistence.snapshot_file);
    if let Some(found) = log {
        instance.persistence.begin_loading(found.bytes());
        return Ok(Data::Log(Mutex::new(Some(Box::new(found)))));
    }
    let Some(bytes) = snapshots::announced_bytes(&path)? else { return Ok(Data::Snapshot(None)) };
    instance.persistence.begin_loading(bytes);
    Ok(Data::Snapshot(Some((path, bytes))))
}

/// The lines of the file that are no parameters, users apart. What cannot be followed is refused.
pub(crate) fn follow_directives(config: &Config) -> io::Result<&'static Table> {
    let fault = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    let mut renames = Vec::new();
    for directive in config.directives() {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        match (directive.name, words.as_slice()) {
            ("rename-command", [old, new]) => renames.push((*old, *new)),
            // See `users`.
            ("user", _) => {}
            (name, words) => {
                let subject = words.first().unwrap_or(&"");
                return Err(fault(format!("'{name} {subject}' in the configuration file is not supported yet")));
            }
        }
    }
    commands::table(&renames).map_err(fault)
}

/// Tells the instance what the store and the network say, and the store what counts as memory beside it.
fn connect(instance: &Arc<Instance>, handle: &Handle<Message>, workers: usize) {
    instance.workers.install((0..workers).map(|worker| mailbox(handle, worker)).collect());
    instance.tracking.follow_changes();
    instance.publish_events();
    instance.follow_lost_keys();
    // The instance holds the store, so the store must not hold the instance.
    let waiting = Arc::downgrade(instance);
    instance.keyspace.listeners().on_stall_end(move || {
        if let Some(instance) = waiting.upgrade() {
            instance.workers.broadcast(&Message::StallEnd);
        }
    });
    background::count_connections(instance, handle.clone());
    background::count_buffers(instance, handle.clone());
    let handle = handle.clone();
    instance.shutdown.install_stop_listening(move || handle.listen(Vec::new()));
}

/// What DEBUG LOADAOF does.
fn load_log(instance: &Arc<Instance>, host: &Arc<dyn Host>, log: &Arc<LogSlot>, table: &'static Table) -> snapshots::LoadLog {
    let (instance, host, log) = (Arc::downgrade(instance), Arc::clone(host), Arc::clone(log));
    Box::new(move || {
        let Some(instance) = instance.upgrade() else { return Ok(()) };
        let settings = &instance.config.snapshot().settings;
        let loaded = operation_log::reload(&instance, table, &log, &host.directory(settings));
        instance.keyspace.settings().set_budget(settings.memory.maxmemory);
        apply::set_eviction(settings, &instance.keyspace);
        loaded
    })
}

/// Has CONFIG SET make changes effective.
fn follow_changes(instance: &Arc<Instance>, network: &Arc<Network>, limits: Arc<Limits>, host: Arc<dyn Host>, log: Arc<LogSlot>) {
    let (keyspace, network) = (Arc::clone(&instance.keyspace), Arc::clone(network));
    let node = Arc::downgrade(instance);
    instance.install_applier(Box::new(move |settings, changed| {
        apply::apply(settings, &limits, &keyspace, &network, &*host, changed)?;
        if let Some(instance) = node.upgrade() {
            operation_log::follow(&instance, &log, (settings, changed), &host.directory(settings))?;
        }
        startup::warn_without_effect(changed.iter().copied().filter(|parameter| !parameter.effective));
        Ok(())
    }));
}

fn keyspace_options(
    settings: &Settings,
    workers: usize,
    (storage, kept): (Option<Storage>, Option<DeviceHead>),
) -> almandine_keyspace::Options {
    let engine = &settings.engine;
    // Of a bucket of 64 bytes seven entries are keys.
    let keys_expected = (engine.index_bytes as u64 / 64) * 7;
    let store = almandine_store::Options {
        // Beside the workers: what loads keys, what goes on with scripts, and a reserve for control work.
        sessions_max: (workers + workers.min(LANES_MAX) + 5).min(STORE_THREADS_MAX),
        keys_expected,
        seed: kept.map_or_else(entropy::seed, |kept| kept.seed),
        kept: kept.map(|kept| KeptDevice { index_buckets: kept.index_buckets, next_page: kept.next_page.into() }),
        mutable_fraction: f64::from(engine.log_mutable_percent) / 100.0,
        free_fraction_max: f64::from(engine.compaction_garbage_percent) / 100.0,
        storage,
        ..almandine_store::Options::default()
    };
    almandine_keyspace::Options { databases: settings.process.databases, maxmemory: settings.memory.maxmemory, store }
}

fn backend(choice: IoBackend) -> Choice {
    match choice {
        IoBackend::Auto => Choice::Auto,
        IoBackend::IoUring => Choice::Only(Kind::Uring),
        IoBackend::Epoll => Choice::Only(Kind::Epoll),
    }
}

/// 40 hexadecimal digits.
fn run_id() -> String {
    let id: String = (0..3).map(|_| format!("{:016x}", entropy::seed())).collect();
    id[..40].to_owned()
}

/// A worker's mailbox, as the instance knows it.
struct WorkerMailbox {
    network: Handle<Message>,
    worker: usize,
}

impl Mailbox for WorkerMailbox {
    fn send(&self, message: Message) -> bool {
        match message {
            Message::Push(client, ref bytes) => {
                let bytes = bytes.len();
                self.network.push(self.worker, client, message, bytes)
            }
            Message::Invalidate { client, ref keys, .. } => {
                let bytes = keys.as_ref().map_or(0, |keys| keys.len());
                self.network.push(self.worker, client, message, bytes)
            }
            Message::Publish(ref publication) => {
                let bytes = publication.bytes();
                self.network.try_send(self.worker, message, bytes)
            }
            message => {
                self.network.send(self.worker, message);
                true
            }
        }
    }
}

fn mailbox(network: &Handle<Message>, worker: usize) -> Arc<dyn Mailbox> {
    Arc::new(WorkerMailbox { network: network.clone(), worker })
}
