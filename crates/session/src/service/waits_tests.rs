//! Connections that wait for the log cost the same each, however many they are and however often the log moves on before; those
//! that ask for a sync share one.
#![cfg(debug_assertions)]

use std::sync::Arc;

use almandine_base::{Output, steps};
use almandine_config::{Config, Startup};
use almandine_handler::Table;
use almandine_instance::{Acl, Instance, LogPurpose, Message};
use almandine_io::socket::Address;
use almandine_keyspace::{Keyspace, Options};
use almandine_net::{ConnectionId, Control, Next, Peer, Service};
use almandine_oplog::writer::SyncMode;

use super::log_rig::LogRig;
use super::receive::WorkerService;
use crate::state::connection::Connection;

/// The connections of a worker, and which of them went on.
#[derive(Default)]
struct Clients {
    connections: Vec<(Connection, Output)>,
    released: usize,
    resumed: usize,
}

impl Control<Connection> for Clients {
    fn connection(&mut self, id: ConnectionId) -> Option<(&mut Connection, &mut Output)> {
        self.connections.get_mut(usize::try_from(id).unwrap()).map(|(connection, out)| (connection, out))
    }

    fn kill(&mut self, id: ConnectionId, _: bool) -> bool {
        panic!("{id} is closed")
    }

    fn resume(&mut self, _: ConnectionId) {
        self.resumed += 1;
    }

    fn hold(&mut self, _: ConnectionId) {}

    fn release(&mut self, _: ConnectionId) {
        self.released += 1;
    }

    fn each(&mut self, _: &mut dyn FnMut(ConnectionId, &mut Connection)) {}
}

struct Rig {
    log: LogRig,
    service: WorkerService,
    clients: Clients,
}

impl Rig {
    /// A worker with a log and this many clients.
    fn new(name: &str, clients: u64) -> Self {
        let log = LogRig::new(&format!("{name}-{clients}"));
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let Ok(Startup::Run(config)) = Config::load(&["--protected-mode", "no", "--save", ""].map(str::to_owned)) else {
            panic!("a configuration")
        };
        let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), &[], &[]).unwrap();
        let instance = Arc::new(Instance::new(*config, Arc::clone(&keyspace), 1, Acl::open(table.catalog()), "0".repeat(40)));
        instance.persistence.log.begin(
            LogPurpose::Durability,
            Arc::clone(&log.progress),
            Arc::clone(&log.rings),
            Arc::clone(&log.order),
        );
        let mut service = WorkerService::new(instance, table, keyspace.accessor().unwrap(), 0);
        let local = Address::Ip("127.0.0.1:6379".parse().unwrap());
        let peer = Peer { remote: local.clone(), local, worker: 0, descriptor: 0, names: Vec::new() };
        let open = |id| (service.open(id, &peer, &mut Output::new()).unwrap(), Output::new());
        let clients = Clients { connections: (0..clients).map(open).collect(), ..Clients::default() };
        Self { log, service, clients }
    }

    /// Each client sends a command. How many of the replies wait, and how many clients.
    fn send(&mut self, command: &[u8]) -> (usize, usize) {
        let (mut held, mut waiting) = (0, 0);
        for (connection, out) in &mut self.clients.connections {
            let progress = self.service.receive(connection, command, out);
            held += usize::from(progress.holds);
            waiting += usize::from(progress.next == Next::Pause);
        }
        (held, waiting)
    }

    /// Steps of a message that the log has moved on.
    fn advance(&mut self) -> u64 {
        let before = steps::taken();
        self.service.message(Message::LogAdvanced, &mut self.clients);
        steps::taken() - before
    }

    /// Steps that it takes until all have gone on, beside those of messages before that.
    fn steps_of(&mut self, command: &[u8]) -> u64 {
        let session = self.log.epoch.register().unwrap();
        session.enter();
        self.log.end_unit();
        self.send(command);
        for _ in 0..100 {
            assert_eq!(self.advance(), 0, "those that wait on cost nothing");
        }
        session.leave();
        let clients = self.clients.connections.len();
        let mut taken = 0;
        while self.clients.released + self.clients.resumed < clients {
            taken += self.advance();
            std::thread::yield_now();
        }
        taken
    }
}

#[test]
fn those_that_wait_for_the_log_cost_the_same_each() {
    for (name, command) in [("waitaof", "*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n0\r\n"), ("dbsize", "DBSIZE\r\n")] {
        let [small, large] = [500, 1000].map(|clients| Rig::new(name, clients).steps_of(command.as_bytes()));
        assert_eq!((small, large), (500, 1000), "{name}");
    }
}

const COMMITAOF: &[u8] = b"*1\r\n$9\r\nCOMMITAOF\r\n";

/// Those that ask before the cut of the first is closed, which is all of them here, have at most what a second one needs beside it.
#[test]
fn commits_that_are_asked_for_at_once_share_a_sync() {
    for mode in [SyncMode::Never, SyncMode::EverySecond, SyncMode::Always] {
        let syncs = [500, 1000].map(|clients| {
            let mut rig = Rig::new("commit", clients);
            rig.log.progress.set_mode(mode);
            let session = rig.log.epoch.register().unwrap();
            session.enter();
            rig.log.end_unit();
            let before = rig.log.progress.figures().syncs;
            assert_eq!(rig.send(COMMITAOF), (0, usize::try_from(clients).unwrap()));
            session.leave();
            while rig.clients.resumed < rig.clients.connections.len() {
                rig.advance();
                std::thread::yield_now();
            }
            assert!(rig.clients.connections.iter().all(|(_, out)| *out.bytes == *b"+AOF file committed\r\n"));
            let syncs = rig.log.progress.figures().syncs - before;
            assert_eq!(rig.send(COMMITAOF), (0, 0), "all is durable");
            assert_eq!(rig.log.progress.figures().syncs - before, syncs);
            syncs
        });
        assert!(syncs.iter().all(|syncs| (1..=2).contains(syncs)), "{mode:?}: {syncs:?} syncs");
    }
}

#[test]
fn commits_of_a_log_that_breaks_are_denied() {
    let mut rig = Rig::new("denied", 10);
    let session = rig.log.epoch.register().unwrap();
    session.enter();
    rig.log.end_unit();
    assert_eq!(rig.send(COMMITAOF), (0, 10));
    rig.service.message(Message::LogBroken, &mut rig.clients);
    assert!(
        rig.clients.connections.iter().all(|(_, out)| out.bytes.starts_with(b"-ERR The log of writes could not be made durable"))
    );
    assert_eq!((rig.clients.resumed, rig.service.unconfirmed.len()), (10, 0));
    session.leave();
}

/// Also while the log is never synced.
#[test]
fn one_that_has_given_up_is_forgotten() {
    let mut rig = Rig::new("forgotten", 1);
    let session = rig.log.epoch.register().unwrap();
    session.enter();
    rig.log.end_unit();
    for _ in 0..100 {
        assert_eq!(rig.send(b"*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n1\r\n"), (0, 1));
        assert_eq!(rig.service.unconfirmed.len(), 1);
        rig.service.time_is_up(u64::MAX / 2, &mut rig.clients);
        assert!(rig.service.unconfirmed.is_empty(), "its time is up");
    }
    session.leave();
}
