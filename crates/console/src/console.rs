//! The console of a server, as `metrics-port` and `metrics-bind` say; they can change while the server runs.
//!
//! A change has two steps, as those of the network: [`Console::prepare`] opens what is new beside what there is and may fail,
//! [`Console::commit`] cannot.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, Weak};

use almandine_config::sections::console::Console as Settings;
use almandine_handler::Table;
use almandine_instance::Instance;
use almandine_io::socket::{self, Address, ListenOptions, Listener};
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::thread::{self, JoinHandle, Rank};
use almandine_tls::Acceptor;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use crate::connections::{Common, Open, accept};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 64;

/// See the module.
pub struct Console {
    instance: Weak<Instance>,
    table: &'static Table,
    tls: Arc<Acceptor>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// `metrics-port`; zero while there is no console.
    port: u16,
    /// The words of `metrics-bind`.
    bind: Vec<String>,
    /// One for each word that is available.
    listeners: Vec<(String, Arc<Listener>)>,
    /// Serves while it is here.
    thread: Option<Running>,
}

/// A thread that serves. It ends soon after this goes: a worker that changes the configuration must not wait for it.
struct Running {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Running {
    /// Waits for its end.
    fn end(self) {
        drop(self.stop);
        // A thread that panics ends the process.
        let _ = self.thread.join();
    }
}

/// What [`Console::prepare`] has made ready; `None` inside when nothing changes.
pub struct Change(Option<Prepared>);

struct Prepared {
    /// Has the thread begin; it ends where this goes without a word.
    go: Option<oneshot::Sender<()>>,
    next: Current,
}

/// Whether these settings have the console listen beyond loopback, where it speaks TLS. A name counts as beyond: what it means can
/// change.
#[must_use]
pub fn needs_tls(settings: &Settings) -> bool {
    settings.port != 0 && settings.bind.iter().any(|word| !is_loopback(word))
}

fn is_loopback(word: &str) -> bool {
    let word = word.strip_prefix('-').unwrap_or(word);
    word.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Console {
    /// A console that does not listen yet. `tls` makes its connections beyond loopback.
    #[must_use]
    pub fn new(instance: &Arc<Instance>, table: &'static Table, tls: Arc<Acceptor>) -> Self {
        Self { instance: Arc::downgrade(instance), table, tls, current: Mutex::default() }
    }

    /// Makes ready what `settings` ask for.
    ///
    /// # Errors
    /// When an address cannot be listened on, or the system has no more threads; nothing has changed then.
    pub fn prepare(&self, settings: &Settings) -> io::Result<Change> {
        let current = self.current();
        if settings.port == current.port && (settings.port == 0 || settings.bind == current.bind) {
            return Ok(Change(None));
        }
        if settings.port == 0 {
            return Ok(Change(Some(Prepared { go: None, next: Current::default() })));
        }
        let lenders = if settings.port == current.port { current.listeners.as_slice() } else { &[] };
        let listeners = listen(settings, lenders)?;
        let sockets = listeners
            .iter()
            .map(|(_, listener)| Ok((listener.share()?, !is_on_loopback(listener))))
            .collect::<io::Result<Vec<_>>>()?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (go, begin) = oneshot::channel();
        let (stop, end) = oneshot::channel();
        let (instance, table, tls, bind) = (Weak::clone(&self.instance), self.table, Arc::clone(&self.tls), settings.bind.clone());
        let thread = thread::spawn("console", move || {
            // It works as well without the rank.
            let _ = thread::rank_behind_workers(Rank::Background);
            run(&runtime, sockets, Common { instance, table, tls, bind }, begin, end);
        })?;
        let thread = Some(Running { thread, stop });
        let next = Current { port: settings.port, bind: settings.bind.clone(), listeners, thread };
        Ok(Change(Some(Prepared { go: Some(go), next })))
    }

    /// Makes it so. Connections that were made before the change are closed.
    pub fn commit(&self, change: Change) {
        let Some(Prepared { next, go }) = change.0 else { return };
        let mut current = self.current();
        let before = std::mem::replace(&mut *current, next);
        let stays = |listener: &Arc<Listener>| current.listeners.iter().any(|(_, other)| Arc::ptr_eq(other, listener));
        // Its thread has the sockets, too, for a moment.
        before.listeners.iter().filter(|(_, listener)| !stays(listener)).for_each(|(_, listener)| listener.close());
        if let Some(go) = go {
            // The thread waits for it.
            let _ = go.send(());
            for (_, listener) in &current.listeners {
                let by = if is_on_loopback(listener) { "" } else { " (TLS)" };
                tracing::info!("Metrics and health are at {}{by}", listener.address());
            }
        }
    }

    /// Ends the console, and waits for its end.
    pub fn end(&self) {
        let before = std::mem::take(&mut *self.current());
        if let Some(thread) = before.thread {
            thread.end();
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listener for each word: one of `before` where there is one, else a new one.
fn listen(settings: &Settings, before: &[(String, Arc<Listener>)]) -> io::Result<Vec<(String, Arc<Listener>)>> {
    let lenders: Vec<&Listener> = before.iter().map(|(_, listener)| &**listener).collect();
    let mut all: Vec<(String, Arc<Listener>)> = Vec::new();
    for word in &settings.bind {
        if all.iter().any(|(known, _)| known == word) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("{word} is there twice")));
        }
        if let Some(known) = before.iter().find(|(known, _)| known == word) {
            all.push(known.clone());
        } else if let Some(listener) = socket::bind_one(word, settings.port, ListenOptions::backlog(BACKLOG), &lenders)? {
            all.push((word.clone(), Arc::new(listener)));
        }
    }
    if all.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "none of the addresses of metrics-bind is available"));
    }
    Ok(all)
}

fn is_on_loopback(listener: &Listener) -> bool {
    matches!(listener.address(), Address::Ip(address) if address.ip().is_loopback())
}

/// The thread: serves from the word to begin until the one to end.
fn run(
    runtime: &Runtime,
    sockets: Vec<(std::net::TcpListener, bool)>,
    common: Common,
    begin: oneshot::Receiver<()>,
    end: oneshot::Receiver<()>,
) {
    let (common, open) = (Rc::new(common), Rc::new(RefCell::new(Open::default())));
    LocalSet::new().block_on(runtime, async move {
        if begin.await.is_err() {
            return;
        }
        for (socket, secure) in sockets {
            match TcpListener::from_std(socket) {
                Ok(listener) => drop(spawn_local(accept(listener, secure, Rc::clone(&common), Rc::clone(&open)))),
                Err(error) => tracing::warn!("The console cannot accept connections: {error}"),
            }
        }
        // Nothing is sent: the sender goes.
        let _ = end.await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_loopback_do_without_tls() {
        let settings = |port: u16, bind: &[&str]| Settings { port, bind: bind.iter().map(ToString::to_string).collect() };
        for plain in [&["127.0.0.1"][..], &["127.0.0.1", "-::1"], &["127.9.9.9"]] {
            assert!(!needs_tls(&settings(9121, plain)), "{plain:?}");
        }
        for secure in [&["*"][..], &["::*"], &["0.0.0.0"], &["127.0.0.1", "10.0.0.1"], &["localhost"], &["-192.0.2.1"]] {
            assert!(needs_tls(&settings(9121, secure)), "{secure:?}");
            assert!(!needs_tls(&settings(0, secure)), "there is no console");
        }
    }
}
