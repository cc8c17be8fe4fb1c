//! A worker with one client, whose commands run one after the other in the calling thread, which therefore counts their steps.

use std::sync::Arc;

use almandine_base::events::Classes;
use almandine_base::{Output, steps};
use almandine_config::{Config, Startup};
use almandine_handler::Table;
use almandine_instance::{Acl, Instance};
use almandine_io::socket::Address;
use almandine_keyspace::{Keyspace, Options};
use almandine_net::{ConnectionId, Control, Next, Peer, Service};
use almandine_session::{Connection, WorkerService};

/// A worker with one client.
pub(crate) struct Rig {
    sessions: WorkerService,
    client: Client,
    input: Vec<u8>,
}

/// The only connection of the worker.
struct Client {
    connection: Connection,
    out: Output,
    resumed: bool,
}

impl Control<Connection> for Client {
    fn connection(&mut self, _id: ConnectionId) -> Option<(&mut Connection, &mut Output)> {
        Some((&mut self.connection, &mut self.out))
    }

    fn kill(&mut self, _id: ConnectionId, _after_flush: bool) -> bool {
        false
    }

    fn resume(&mut self, _id: ConnectionId) {
        self.resumed = true;
    }

    fn hold(&mut self, _: ConnectionId) {}

    fn release(&mut self, _: ConnectionId) {}

    fn each(&mut self, visit: &mut dyn FnMut(ConnectionId, &mut Connection)) {
        visit(1, &mut self.connection);
    }
}

impl Rig {
    /// Of a server without keys, which tells these keyspace events.
    pub(crate) fn new(events: &str) -> Self {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { databases: 16, store, ..Options::default() }).unwrap();
        keyspace.listeners().tell_events(Classes::parse(events).unwrap());
        let Ok(Startup::Run(config)) = Config::load(&["--protected-mode", "no", "--save", ""].map(str::to_owned)) else {
            panic!("a configuration")
        };
        let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), &[], &[]).unwrap();
        let instance = Instance::new(*config, Arc::clone(&keyspace), 1, Acl::open(table.catalog()), "0".repeat(40));
        let mut sessions = WorkerService::new(Arc::new(instance), table, keyspace.accessor().unwrap(), 0);
        let local = Address::Ip("127.0.0.1:6379".parse().unwrap());
        let peer = Peer { remote: local.clone(), local, worker: 0, descriptor: 0, names: Vec::new() };
        let mut out = Output::new();
        let connection = sessions.open(1, &peer, &mut out).unwrap();
        Self { sessions, client: Client { connection, out, resumed: false }, input: Vec::new() }
    }

    /// Runs a command to its end, also one that computes in slices. An error fails the proof.
    pub(crate) fn run(&mut self, command: &[String]) {
        self.input.clear();
        self.input.extend(format!("*{}\r\n", command.len()).bytes());
        for word in command {
            self.input.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
        self.client.out.clear();
        let mut done = 0;
        while done < self.input.len() {
            let Client { connection, out, .. } = &mut self.client;
            let progress = self.sessions.receive(connection, &self.input[done..], out);
            done += progress.consumed;
            match progress.next {
                Next::Await | Next::Pause if self.sessions.has_work() => {
                    self.client.resumed = false;
                    while !self.client.resumed {
                        self.sessions.work(&mut self.client);
                    }
                }
                // A command that waits is over.
                Next::Pause => break,
                Next::Continue => {}
                other => panic!("{command:?} ends with {other:?}"),
            }
        }
        self.sessions.idle();
        let reply = &self.client.out.bytes;
        assert_ne!(reply.first(), Some(&b'-'), "{:?}: {}", &command[..2.min(command.len())], String::from_utf8_lossy(reply));
    }

    /// Steps that were taken so far.
    pub(crate) fn steps(&self) -> u64 {
        steps::taken()
    }
}
