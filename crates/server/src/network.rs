//! Listeners and workers of a server that runs: CONFIG SET `port`, `tls-port`, `bind`, `unixsocket`, `workers` and their like.
//!
//! A change has two steps. [`Network::prepare`] opens listeners and starts workers beside those that serve, and may fail; then
//! nothing has changed. [`Network::commit`] cannot fail. A change of the configuration holds its lock, so changes follow one
//! another.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use almandine_config::{SetError, Settings};
use almandine_console::Console;
use almandine_instance::Message;
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_net::Handle;

use crate::listeners::{Asked, Failure, Listeners, On};
use crate::tls::{self, Tls};
use crate::workers::{self, Workers};

/// The network of a server.
pub(crate) struct Network {
    handle: Handle<Message>,
    workers: Workers,
    tls: Arc<Tls>,
    console: Console,
    current: Mutex<Current>,
}

struct Current {
    listeners: Listeners,
    settings: Settings,
}

/// What [`Network::prepare`] has made ready.
pub(crate) struct Change {
    listeners: Listeners,
    tls: tls::Prepared,
    console: almandine_console::Change,
    settings: Settings,
}

impl Network {
    pub(crate) fn new(
        handle: Handle<Message>,
        workers: Workers,
        (tls, console): (Arc<Tls>, Console),
        listeners: Listeners,
        settings: Settings,
    ) -> Self {
        Self { handle, workers, tls, console, current: Mutex::new(Current { listeners, settings }) }
    }

    /// Begins to serve.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        let active = workers::wanted(&self.current().settings);
        self.workers.start(active)?;
        self.workers.activate(active);
        Ok(())
    }

    /// Says in the log that clients can connect, and where.
    pub(crate) fn announce(&self) {
        tracing::info!("Server initialized");
        self.current().listeners.announce();
        tracing::info!("Ready to accept connections");
    }

    /// Makes ready what `settings` ask for; their relative paths begin at `directory`. Files of TLS are read `anew` or where others
    /// are named.
    ///
    /// # Errors
    /// In Redis' words, with the parameter; the log says more.
    pub(crate) fn prepare(&self, settings: &Settings, directory: &Path, anew: bool) -> Result<Change, SetError> {
        let current = self.current();
        self.check_workers(settings, &current.settings)?;
        let tls = self.tls.prepare(settings, directory, anew).map_err(|fault| SetError::failed(fault.parameter, fault.text))?;
        let transports = self.tls.transports();
        let asked = Asked { network: &settings.network, tls_port: settings.tls.port, transports: &transports, directory };
        let listeners = current.listeners.following(asked).map_err(|failure| {
            tracing::warn!("CONFIG SET: {}", failure.error);
            refusal(&failure, settings, &current.settings)
        })?;
        let console = self.console.prepare(&settings.console).map_err(|error| {
            tracing::warn!("CONFIG SET: metrics on port {}: {error}", settings.console.port);
            let is_port = settings.console.port != current.settings.console.port;
            SetError::failed(if is_port { "metrics-port" } else { "metrics-bind" }, error.to_string())
        })?;
        self.workers
            .start(workers::wanted(settings))
            .map_err(|error| SetError::failed(stated(settings), format!("Unable to start a worker: {error}")))?;
        Ok(Change { listeners, tls, console, settings: settings.clone() })
    }

    /// Makes it so.
    pub(crate) fn commit(&self, change: Change) {
        let mut current = self.current();
        let wanted = workers::wanted(&change.settings);
        if wanted != workers::wanted(&current.settings) {
            self.workers.activate(wanted);
            tracing::info!("{wanted} workers take new connections");
        }
        self.tls.commit(change.tls);
        self.console.commit(change.console);
        if !change.listeners.are(&current.listeners) {
            self.handle.listen(change.listeners.endpoints().map(Arc::clone).collect());
            change.listeners.announce();
        }
        current.settings = change.settings;
        // The file of a Unix socket that is not listened on any more goes with this.
        current.listeners = change.listeners;
    }

    /// Waits for the end of all workers, and removes the Unix socket's file.
    ///
    /// # Errors
    /// When one has failed.
    pub(crate) fn join(&self) -> std::io::Result<()> {
        let outcome = self.workers.join();
        self.current().listeners = Listeners::default();
        outcome
    }

    /// Ends the console, last: until then it says that the server is ending.
    pub(crate) fn end_console(&self) {
        self.console.end();
    }

    fn check_workers(&self, settings: &Settings, before: &Settings) -> Result<(), SetError> {
        let (workers, threads) = (settings.engine.workers, settings.threads.io_threads);
        if threads != before.threads.io_threads && workers != 0 && workers != threads {
            let text = format!("'workers' is {workers} and decides. Set 'workers', or set it to 0 to leave it to 'io-threads'");
            return Err(SetError::failed("io-threads", text));
        }
        let (wanted, most) = (workers::wanted(settings), self.workers.most());
        if wanted > most {
            let text = format!("there can be at most {most} workers until a restart. Restart with 'workers {wanted}' for more");
            return Err(SetError::failed(stated(settings), text));
        }
        Ok(())
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parameter that says how many workers there are.
fn stated(settings: &Settings) -> &'static str {
    if settings.engine.workers == 0 { "io-threads" } else { "workers" }
}

/// The error reply, which tools of Redis look for.
fn refusal(failure: &Failure, settings: &Settings, before: &Settings) -> SetError {
    match failure.on {
        On::Tcp if settings.network.port != before.network.port => {
            SetError::failed("port", "Unable to listen on this port. Check server logs.")
        }
        On::Tcp if settings.network.bind == before.network.bind => SetError::failed("tcp-backlog", failure.error.to_string()),
        On::Tls if settings.network.bind == before.network.bind => {
            SetError::failed("tls-port", "Unable to listen on this port. Check server logs.")
        }
        On::Tcp | On::Tls => SetError::failed("bind", "Failed to bind to specified addresses."),
        On::Unix => {
            let changed = settings.network.unix_socket != before.network.unix_socket;
            SetError::failed(if changed { "unixsocket" } else { "unixsocketperm" }, failure.error.to_string())
        }
    }
}
