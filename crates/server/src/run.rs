//! From a configuration to a running server, and to its end.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use almandine_base::limits::STORE_THREADS_MAX;
use almandine_config::choices::IoBackend;
use almandine_config::{Config, Settings};
use almandine_handler::Table;
use almandine_instance::{Build, Instance, Mailbox, Message};
use almandine_io::entropy;
use almandine_io::reactor::{self, Choice, Kind};
use almandine_io::signal::{Signal, Signals};
use almandine_keyspace::{Keyspace, Storage};
use almandine_net::Handle;

use crate::listeners::Listeners;
use crate::network::Network;
use crate::process::PidFile;
use crate::workers::Workers;
use crate::{
    apply, background, commands, cores, crash, log, oom_score, open_files, process, startup, storage, title, users, workers,
};

/// The global allocator's name.
const ALLOCATOR: &str = if cfg!(feature = "jemalloc") { "jemalloc" } else { "mimalloc" };

/// Runs the server until it is asked to end. `program` and `args` are the command line.
pub(crate) fn run(config: Config, program: &str, args: &[String]) -> ExitCode {
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    // Before the server leaves the terminal, so that the operator reads the reason.
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
    cores::begin(settings);
    let file = config.file().map(|file| file.display().to_string()).unwrap_or_default();
    title::begin(settings, program, &file);
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

fn serve(config: Config) -> io::Result<()> {
    let signals = Signals::block()?;
    startup::introduce(&config);
    open_files::prepare(&config)?;
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    std::env::set_current_dir(&settings.process.dir)
        .map_err(|error| io::Error::new(error.kind(), format!("Can't chdir to '{}': {error}", settings.process.dir)))?;
    storage::check(settings).map_err(io::Error::other)?;
    oom_score::apply(settings).map_err(io::Error::other)?;
    let table = follow_directives(&config)?;
    let acl = users::load(&config, table)?;
    let storage::Opened { storage, health, watch } = storage::open(settings)?;
    let (workers, active) = (workers::most(settings), workers::wanted(settings));
    let keyspace = Keyspace::open(keyspace_options(settings, workers, storage))?;
    apply::set_eviction(settings, &keyspace);
    apply::set_storage(settings, &keyspace);
    keyspace.listeners().tell_events(settings.observe.keyspace_events);
    let limits = apply::limits(settings);
    let selected = reactor::select(backend(settings.engine.io_backend))?;
    if let Some(reason) = &selected.reason {
        tracing::info!("Using epoll: {reason}");
    }
    let listeners = Listeners::default().following(&settings.network).map_err(|failure| failure.error)?;
    if listeners.endpoints().next().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "configured to not listen anywhere, exiting"));
    }
    let endpoints = listeners.endpoints().map(Arc::clone).collect();
    let options = almandine_net::Options { workers, active, reactor: selected.kind, endpoints, limits: Arc::clone(&limits) };
    let (handle, seats) = almandine_net::open::<Message>(options)?;
    let instance = Arc::new(Instance::new(config, Arc::clone(&keyspace), workers, acl, run_id()));
    instance.workers.install((0..workers).map(|worker| mailbox(&handle, worker)).collect());
    instance.tracking.follow_changes();
    instance.publish_events();
    instance.follow_lost_keys();
    let (waiting, stalled) = (Arc::downgrade(&instance), Arc::clone(&instance.keyspace));
    stalled.listeners().on_stall_end(move || {
        if let Some(instance) = waiting.upgrade() {
            instance.workers.broadcast(&Message::StallEnd);
        }
    });
    crash::attach(Arc::downgrade(&instance), table);
    instance.gauges.storage.install(health);
    instance.install_build(Build { allocator: ALLOCATOR, reactor: selected.kind.name() });
    watch_signals(signals, &instance)?;
    background::count_connections(&instance, handle.clone());
    background::count_buffers(&instance, handle.clone());
    background::start(Arc::clone(&instance), handle.clone(), watch)?;
    let workers = Workers::new(seats, handle.clone(), &instance, table, settings.engine.pin_workers);
    let network = Arc::new(Network::new(handle.clone(), workers, listeners, settings.clone()));
    let changing = Arc::clone(&network);
    instance.install_applier(Box::new(move |settings, changed| {
        apply::apply(settings, &limits, &keyspace, &changing)?;
        startup::warn_without_effect(changed.iter().copied().filter(|parameter| !parameter.effective));
        Ok(())
    }));
    let pid_file = PidFile::write(settings);
    startup::announce(settings, active, selected.kind);
    // The sockets listen, and clients wait for a worker: a client that is answered finds this in the log.
    network.announce();
    network.start()?;
    process::notify_ready(settings);

    // A worker that fails asks for the end as well.
    let request = instance.shutdown.wait();
    if request.save != Some(false) {
        startup::warn_of_loss(&instance.keyspace);
    }
    tracing::warn!("Shutdown requested: closing {} connections", instance.clients.connected());
    handle.stop();
    let outcome = network.join();
    drop(pid_file);
    tracing::warn!("Almandine is now ready to exit, bye bye...");
    outcome
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

/// The first SIGTERM or SIGINT asks for the end, a second SIGINT does not wait for it. SIGHUP is ignored.
fn watch_signals(signals: Signals, instance: &Arc<Instance>) -> io::Result<()> {
    let instance = Arc::clone(instance);
    signals.watch(move |signal| {
        match signal {
            Signal::HangUp => {}
            Signal::Interrupt if instance.shutdown.requested() => {
                tracing::warn!("Received SIGINT again: exiting now.");
                std::process::exit(1);
            }
            Signal::Terminate | Signal::Interrupt => {
                tracing::warn!("Received {} scheduling shutdown...", signal.name());
                instance.shutdown.signal();
            }
        }
        true
    })
}
