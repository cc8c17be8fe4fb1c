//! One worker without sockets, whose steps are counted.

use std::fmt::Write;
use std::sync::Arc;

use almandine_base::{Output, steps};
use almandine_config::{Config, Startup};
use almandine_handler::{Command, Table};
use almandine_instance::{Acl, Instance};
use almandine_io::socket::Address;
use almandine_keyspace::{Accessor, Keyspace, Options};
use almandine_net::{ConnectionId, Control, Next, Peer, Service};
use almandine_session::WorkerService;

type Connection = <WorkerService as Service>::Connection;

/// Workers that there may be.
const WORKERS: usize = 3;

/// One worker, and the clients that a test has opened.
pub(crate) struct Rig {
    sessions: WorkerService,
    instance: Arc<Instance>,
    table: &'static Table,
    clients: Vec<Option<Connection>>,
    /// How the last connection goes on.
    pub(crate) next: Next,
}

/// A request in the form of clients.
pub(crate) fn request<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<S> = words.into_iter().collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in &words {
        let word = word.as_ref();
        write!(bytes, "${}\r\n{word}\r\n", word.len()).unwrap();
    }
    bytes
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A worker that has further commands.
    pub(crate) fn with(commands: &'static [&'static Command]) -> Self {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let Ok(Startup::Run(config)) = Config::load(&["--protected-mode", "no", "--save", ""].map(str::to_owned)) else {
            panic!("a configuration")
        };
        let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS, &[commands]].concat(), &[], &[]).unwrap();
        let instance = Arc::new(Instance::new(*config, Arc::clone(&keyspace), WORKERS, Acl::open(table.catalog()), "0".repeat(40)));
        let sessions = WorkerService::new(Arc::clone(&instance), table, keyspace.accessor().unwrap(), 0);
        Self { sessions, instance, table, clients: Vec::new(), next: Next::Continue }
    }

    /// Another worker of the same keys.
    pub(crate) fn beside(&self, worker: usize) -> Self {
        assert!(worker < WORKERS);
        let instance = Arc::clone(&self.instance);
        let sessions = WorkerService::new(Arc::clone(&instance), self.table, self.other(), worker);
        Self { sessions, instance, table: self.table, clients: Vec::new(), next: Next::Continue }
    }

    /// What is shared.
    pub(crate) fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Transactions that have run alone.
    pub(crate) fn units_alone(&self) -> u64 {
        self.instance.statistics.totals().units_alone
    }

    /// What another worker has of the same keys.
    pub(crate) fn accessor(&self) -> Accessor {
        self.instance.keyspace.accessor().unwrap()
    }

    /// Opens a client and returns its number.
    pub(crate) fn open(&mut self) -> usize {
        let local = Address::Ip("127.0.0.1:6379".parse().unwrap());
        let peer = Peer { remote: local.clone(), local, worker: 0, descriptor: 0, names: Vec::new() };
        let id = self.clients.len() as u64 + 1;
        self.clients.push(Some(self.sessions.open(id, &peer, &mut Output::new()).unwrap()));
        self.clients.len() - 1
    }

    /// Sends requests of a client and returns what is answered at once.
    pub(crate) fn send(&mut self, client: usize, requests: &str) -> String {
        let (mut out, mut input) = (Output::new(), requests.as_bytes());
        let connection = self.clients[client].as_mut().unwrap();
        while !input.is_empty() {
            let progress = self.sessions.receive(connection, input, &mut out);
            self.next = progress.next;
            if progress.consumed == 0 || matches!(self.next, Next::Close | Next::CloseAfterFlush | Next::CloseOverInput) {
                break;
            }
            input = &input[progress.consumed..];
        }
        String::from_utf8_lossy(&out.bytes).into_owned()
    }

    /// Sends requests of a client and returns what is answered before the worker looks at another connection, and what is not yet
    /// executed.
    pub(crate) fn look<'r>(&mut self, client: usize, requests: &'r str) -> (String, &'r str) {
        let mut out = Output::new();
        let progress = self.sessions.receive(self.clients[client].as_mut().unwrap(), requests.as_bytes(), &mut out);
        self.next = progress.next;
        (String::from_utf8_lossy(&out.bytes).into_owned(), &requests[progress.consumed..])
    }

    /// Does the work that waits for no event. Returns the clients whose connections are resumed.
    pub(crate) fn work(&mut self) -> Vec<usize> {
        let mut control = Resumed { clients: &mut self.clients, out: Output::new(), resumed: Vec::new() };
        if self.sessions.has_work() {
            self.sessions.work(&mut control);
        }
        control.resumed
    }

    /// The way to the data of another worker.
    pub(crate) fn other(&self) -> Accessor {
        self.instance.keyspace.accessor().unwrap()
    }

    /// The connection of a client is gone.
    pub(crate) fn close(&mut self, client: usize) {
        self.sessions.close(self.clients[client].take().unwrap());
    }

    /// The steps that `work` takes.
    pub(crate) fn steps(&mut self, work: impl FnOnce(&mut Self)) -> u64 {
        let before = steps::taken();
        work(self);
        steps::taken() - before
    }
}

/// Connections, as the worker's service sees them between two looks.
struct Resumed<'c> {
    clients: &'c mut [Option<Connection>],
    out: Output,
    resumed: Vec<usize>,
}

impl Control<Connection> for Resumed<'_> {
    fn connection(&mut self, id: ConnectionId) -> Option<(&mut Connection, &mut Output)> {
        let client = self.clients.get_mut(id as usize - 1)?.as_mut()?;
        Some((client, &mut self.out))
    }

    fn kill(&mut self, _id: ConnectionId, _after_flush: bool) -> bool {
        false
    }

    fn resume(&mut self, id: ConnectionId) {
        self.resumed.push(id as usize - 1);
    }

    fn hold(&mut self, _id: ConnectionId) {}

    fn release(&mut self, _id: ConnectionId) {}

    fn each(&mut self, visit: &mut dyn FnMut(ConnectionId, &mut Connection)) {
        self.clients.iter_mut().zip(1..).for_each(|(client, id)| client.iter_mut().for_each(|client| visit(id, client)));
    }
}
