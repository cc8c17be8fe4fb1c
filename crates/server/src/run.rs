//! From a configuration to a running server, and to its end.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use almandine_base::limits::{STORE_THREADS_MAX, WORKERS_MAX};
use almandine_call::Table;
use almandine_config::choices::IoBackend;
use almandine_config::{Config, Settings};
use almandine_io::reactor::{self, Choice, Kind};
use almandine_io::signal::{Signal, Signals};
use almandine_io::socket::{self, Listener};
use almandine_io::{entropy, thread};
use almandine_keyspace::{Keyspace, Storage};
use almandine_net::{Endpoint, Handle, Worker};
use almandine_node::{Build, Mailbox, Message, Node, ShutdownRequest};
use almandine_session::Sessions;

use crate::process::PidFile;
use crate::{apply, background, commands, crash, log, oom_score, open_files, process, startup, storage, users};

/// The global allocator's name.
const ALLOCATOR: &str = if cfg!(feature = "jemalloc") { "jemalloc" } else { "mimalloc" };

/// Runs the server until it is asked to end. `args` is the command line without the program's name.
pub(crate) fn run(config: Config, args: &[String]) -> ExitCode {
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    // Before the server leaves the terminal, so that whoever starts it reads the reason.
    if let Err(error) = log::check(settings) {
        eprintln!("almandine-server: {error}");
        return ExitCode::FAILURE;
    }
    match process::went_to_background(settings, args) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => {
            eprintln!("Can't run in the background: {error}");
            return ExitCode::FAILURE;
        }
    }
    log::install(settings);
    match crash::install(settings).and_then(|()| serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("Fatal: {error}");
            eprintln!("almandine-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The lines of the file that are no parameters, users apart. What cannot be followed is refused.
fn follow_directives(config: &Config) -> io::Result<&'static Table> {
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

fn serve(config: Config) -> io::Result<()> {
    let signals = Signals::block()?;
    startup::introduce(&config);
    let workers = worker_count(&config.snapshot().settings);
    open_files::prepare(&config, workers)?;
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    std::env::set_current_dir(&settings.process.dir)
        .map_err(|error| io::Error::new(error.kind(), format!("Can't chdir to '{}': {error}", settings.process.dir)))?;
    storage::check_budget(settings).map_err(io::Error::other)?;
    oom_score::apply(settings).map_err(io::Error::other)?;
    let table = follow_directives(&config)?;
    let acl = users::load(&config, table)?;
    let storage::Opened { storage, health, watch } = storage::open(settings)?;
    let keyspace = Keyspace::open(keyspace_options(settings, workers, storage))?;
    apply::set_eviction(settings, &keyspace);
    apply::set_storage(settings, &keyspace);
    keyspace.tell_events(settings.observe.keyspace_events);
    let limits = apply::limits(settings);
    let selected = reactor::select(backend(settings.engine.io_backend))?;
    if let Some(reason) = &selected.reason {
        tracing::info!("Using epoll: {reason}");
    }
    let listeners = listeners(settings)?;
    let endpoints = listeners.iter().map(|listener| Endpoint { listener: Arc::clone(listener), transport: None }).collect();
    let options = almandine_net::Options { workers, reactor: selected.kind, endpoints, limits: Arc::clone(&limits) };
    let (network, seats) = almandine_net::open::<Message>(options)?;
    let node = Arc::new(Node::new(config, Arc::clone(&keyspace), workers, acl, run_id()));
    node.workers.install((0..workers).map(|worker| mailbox(&network, worker)).collect());
    node.tracking.follow_changes();
    node.publish_events();
    let (waiting, stalled) = (Arc::downgrade(&node), Arc::clone(&node.keyspace));
    stalled.on_stall_end(move || {
        if let Some(node) = waiting.upgrade() {
            node.workers.broadcast(&Message::StallEnd);
        }
    });
    crash::attach(Arc::downgrade(&node), table);
    node.gauges.storage.install(health);
    node.install_build(Build { allocator: ALLOCATOR, reactor: selected.kind.name() });
    let started = settings.clone();
    node.install_applier(Box::new(move |settings, changed| {
        apply::apply(settings, &started, &limits, &keyspace, workers)?;
        startup::warn_without_effect(changed.iter().copied().filter(|parameter| !parameter.effective));
        Ok(())
    }));
    watch_signals(signals, &node)?;
    background::count_buffers(&node, network.clone());
    background::start(Arc::clone(&node), network.clone(), watch)?;
    let threads = start_workers(seats, &node, table, settings.engine.pin_workers)?;
    let pid_file = PidFile::write(settings);
    startup::announce(settings, workers, selected.kind, &listeners);
    process::notify_ready(settings);

    // A worker that fails asks for the end as well.
    let _request = node.shutdown.wait();
    tracing::warn!("Shutdown requested: closing {} connections", node.clients.connected());
    network.stop();
    let outcome = join(threads);
    process::remove_unix_socket(settings);
    drop(pid_file);
    tracing::warn!("Almandine is now ready to exit, bye bye...");
    outcome
}

fn worker_count(settings: &Settings) -> usize {
    let workers = if settings.engine.workers == 0 { thread::processors() } else { settings.engine.workers };
    workers.clamp(1, WORKERS_MAX)
}

fn keyspace_options(settings: &Settings, workers: usize, storage: Option<Storage>) -> almandine_keyspace::Options {
    let engine = &settings.engine;
    // Of a bucket of 64 bytes seven entries are keys.
    let keys_expected = (engine.index_bytes as u64 / 64) * 7;
    let store = almandine_store::Options {
        // Beside the workers: the store's own threads and a reserve for control work.
        sessions_max: (workers + 4).min(STORE_THREADS_MAX),
        keys_expected,
        seed: entropy::seed(),
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

fn listeners(settings: &Settings) -> io::Result<Vec<Arc<Listener>>> {
    let network = &settings.network;
    let mut listeners = Vec::new();
    if network.port != 0 {
        let addresses: Vec<&str> = network.bind.iter().map(String::as_str).collect();
        listeners = socket::bind(&addresses, network.port, network.tcp_backlog).map_err(|error| {
            io::Error::new(error.kind(), format!("Failed listening on port {} (TCP), aborting: {error}", network.port))
        })?;
    }
    if !network.unix_socket.is_empty() {
        let mode = (network.unix_socket_permissions != 0).then_some(network.unix_socket_permissions);
        let listener = Listener::unix(Path::new(&network.unix_socket), mode, network.tcp_backlog)
            .map_err(|error| io::Error::new(error.kind(), format!("could not listen on {}: {error}", network.unix_socket)))?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "configured to not listen anywhere, exiting"));
    }
    Ok(listeners.into_iter().map(Arc::new).collect())
}

/// 40 hexadecimal digits.
fn run_id() -> String {
    let id: String = (0..3).map(|_| format!("{:016x}", entropy::seed())).collect();
    id[..40].to_owned()
}

/// A worker's mailbox, as the node knows it.
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

/// The first SIGTERM or SIGINT asks for the end, a second SIGINT does not wait for it. SIGHUP is ignored.
fn watch_signals(signals: Signals, node: &Arc<Node>) -> io::Result<()> {
    let node = Arc::clone(node);
    signals.watch(move |signal| {
        match signal {
            Signal::HangUp => {}
            Signal::Interrupt if node.shutdown.requested() => {
                tracing::warn!("Received SIGINT again: exiting now.");
                std::process::exit(1);
            }
            Signal::Terminate | Signal::Interrupt => {
                tracing::warn!("Received {} scheduling shutdown...", signal.name());
                node.shutdown.request(ShutdownRequest::default());
            }
        }
        true
    })
}

type WorkerThread = JoinHandle<io::Result<()>>;

fn start_workers(seats: Vec<Worker<Message>>, node: &Arc<Node>, table: &'static Table, pin: bool) -> io::Result<Vec<WorkerThread>> {
    seats.into_iter().map(|seat| start_worker(seat, Arc::clone(node), table, pin)).collect()
}

fn start_worker(seat: Worker<Message>, node: Arc<Node>, table: &'static Table, pin: bool) -> io::Result<WorkerThread> {
    let worker = seat.index();
    thread::spawn(&format!("worker-{worker}"), move || {
        if pin && let Err(error) = thread::pin_to(worker) {
            tracing::warn!("Worker {worker} is not pinned: {error}");
        }
        let outcome = match node.keyspace.accessor() {
            Some(accessor) => seat.run(Sessions::new(Arc::clone(&node), table, accessor, worker)).map(drop),
            None => Err(io::Error::other("the store has no session left for a worker")),
        };
        if let Err(error) = &outcome {
            tracing::error!("Worker {worker} failed: {error}");
            node.shutdown.request(ShutdownRequest::default());
        }
        outcome
    })
}

/// Waits for all workers; the first failure is the outcome.
fn join(threads: Vec<WorkerThread>) -> io::Result<()> {
    let join_one = |thread: WorkerThread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
    let outcomes: Vec<_> = threads.into_iter().map(join_one).collect();
    outcomes.into_iter().collect()
}
