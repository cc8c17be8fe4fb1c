//! All connections and listeners of a world, and the owners of their ends.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use super::Net;
use super::client::ClientState;
use super::direction::{Direction, EndId, Parcel};
use super::options::{DELAY_NS_MAX, NetOptions};
use super::watching::Watching;
use crate::sim::choice::Subsystem;
use crate::sim::node::{CrashKind, NodeId};
use crate::sim::turn::{Condition, Turn};
use crate::socket::Address;

pub(super) struct Connection {
    pub(super) ends: [End; 2],
    /// Each goes out from the end of its index.
    pub(super) directions: [Direction; 2],
}

pub(super) struct End {
    pub(super) owner: Owner,
    pub(super) node: Option<NodeId>,
    /// None for Unix sockets.
    pub(super) address: Option<SocketAddr>,
    pub(super) link: Link,
    /// It is told when there is room again.
    pub(super) awaits_room: bool,
    /// There is room, and it is not told yet.
    pub(super) has_room: bool,
    /// It is on the list of its reactor.
    pub(super) listed: bool,
}

/// What an end belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It waits at a listener.
    Nobody,
    /// A socket of a node, the reactor that watches it, and what that knows it by.
    Socket(Option<(u64, u64)>),
    /// See [`super::Client`].
    Client,
    /// A simulated thread, which may wait for this.
    Thread(Condition),
    /// What arrives is answered by a reset.
    Closed,
    /// The machine is off: nothing is answered but by its next boot.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Connecting,
    Connected,
    Refused(io::ErrorKind),
    Broken,
}

pub(super) struct Listening {
    pub(super) node: NodeId,
    pub(super) address: Address,
    pub(super) backlog: VecDeque<u64>,
    pub(super) backlog_max: usize,
    pub(super) closed: bool,
    /// Reactors that accept from it.
    pub(super) arms: Vec<u64>,
}

pub(super) struct State {
    pub(super) turn: Arc<Turn>,
    own: Weak<Net>,
    pub(super) options: NetOptions,
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) listeners: BTreeMap<u64, Listening>,
    pub(super) reactors: BTreeMap<u64, Watching>,
    pub(super) clients: BTreeMap<u64, ClientState>,
    /// Numbers are used once.
    next: u64,
}

impl State {
    pub(super) fn new(turn: Arc<Turn>, own: Weak<Net>) -> Self {
        Self {
            turn,
            own,
            options: NetOptions::default(),
            faults: BTreeMap::new(),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            reactors: BTreeMap::new(),
            clients: BTreeMap::new(),
            next: 1,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Calls back at a time, if the world is still there.
    pub(super) fn at(&self, at_ns: u64, call: impl FnOnce(&Net) + Send + 'static) {
        let own = Weak::clone(&self.own);
        self.turn.at(at_ns, move || {
            if let Some(net) = own.upgrade() {
                call(&net);
            }
        });
    }

    /// A number below `limit` that the run chooses.
    pub(super) fn below(&self, limit: usize) -> usize {
        usize::try_from(self.turn.below(Subsystem::Net, limit as u64)).unwrap_or(0)
    }

    /// Whether a fault happens now; then it is counted and noted.
    pub(super) fn fails(&mut self, per_million: u32, name: &'static str, about: u64) -> bool {
        let happens = self.turn.hits(Subsystem::Net, per_million);
        if happens {
            *self.faults.entry(name).or_default() += 1;
            self.turn.note(name, [about, 0]);
        }
        happens
    }

    pub(super) fn note(&self, what: &'static str, end: EndId, number: u64) {
        self.turn.note(what, [end.number(), number]);
    }

    /// When something that is sent now arrives.
    pub(super) fn arrival_ns(&mut self) -> u64 {
        let (least, more) = self.options.latency_ns;
        let mut time_ns = least + self.turn.below(Subsystem::Net, more.saturating_add(1));
        if self.fails(self.options.delays_per_million, "parcel is delayed", 0) {
            time_ns += self.turn.below(Subsystem::Net, DELAY_NS_MAX);
        }
        self.turn.now_ns().saturating_add(time_ns)
    }

    /// Sends a parcel from an end.
    pub(super) fn put(&mut self, from: EndId, parcel: Parcel) {
        let at_ns = self.arrival_ns();
        let Some(connection) = self.connections.get_mut(&from.connection) else { return };
        let direction = &mut connection.directions[from.end];
        direction.put(at_ns, parcel);
        if !std::mem::replace(&mut direction.moves, true) {
            let next_ns = direction.next_ns().unwrap_or(at_ns);
            self.at(next_ns, move |net| net.arrive(from));
        }
    }

    /// Something has happened at an end: its owner is told. True when that is a client, which is to be served without the lock.
    pub(super) fn changed(&mut self, id: EndId) -> bool {
        let Some(end) = self.connections.get_mut(&id.connection).map(|connection| &mut connection.ends[id.end]) else {
            return false;
        };
        match end.owner {
            Owner::Socket(Some((reactor, _))) => {
                if !std::mem::replace(&mut end.listed, true)
                    && let Some(watching) = self.reactors.get_mut(&reactor)
                {
                    watching.ready.push_back(id);
                    watching.notify(&self.turn);
                }
            }
            Owner::Thread(condition) => self.turn.notify_all(condition),
            Owner::Client => return true,
            Owner::Nobody | Owner::Socket(None) | Owner::Closed | Owner::Off => {}
        }
        false
    }

    /// An end is closed. What is unread, or comes later, makes it a reset.
    pub(super) fn close(&mut self, id: EndId, abort: bool) {
        let Some(connection) = self.connections.get_mut(&id.connection) else { return };
        let end = &mut connection.ends[id.end];
        if matches!(end.owner, Owner::Closed | Owner::Off) {
            return;
        }
        let is_client = end.owner == Owner::Client;
        (end.owner, end.listed) = (Owner::Closed, false);
        let was_broken = end.link == Link::Broken;
        let unread = connection.directions[1 - id.end].arrived_bytes();
        connection.directions[1 - id.end].drop_arrived();
        let out = &mut connection.directions[id.end];
        let was_finished = std::mem::replace(&mut out.finished, true);
        let parcels = out.parcels();
        self.note("closes a connection", id, unread as u64);
        if !was_broken && (abort || unread > 0) {
            // The system forgets what it has not sent.
            let lost = self.below(parcels + 1);
            if let Some(connection) = self.connections.get_mut(&id.connection) {
                connection.directions[id.end].lose(lost);
            }
            self.put(id, Parcel::Reset);
        } else if !was_broken && !was_finished {
            self.put(id, Parcel::End);
        }
        if is_client {
            self.clients.remove(&id.connection);
        }
        self.retire(id.connection);
    }

    /// Forgets a connection whose ends have no owner and on which nothing is under way.
    pub(super) fn retire(&mut self, number: u64) {
        let gone = |end: &End| matches!(end.owner, Owner::Closed | Owner::Off);
        if let Some(connection) = self.connections.get(&number)
            && connection.ends.iter().all(gone)
            && connection.directions.iter().all(|direction| !direction.moves)
        {
            self.connections.remove(&number);
        }
    }

    pub(super) fn crash(&mut self, node: NodeId, kind: CrashKind) {
        let listening: Vec<u64> = self.listeners.iter().filter(|(_, listener)| listener.node == node).map(|(id, _)| *id).collect();
        for listener in listening {
            self.stop_listening(listener, kind == CrashKind::Machine);
            self.listeners.remove(&listener);
        }
        let mut ends = Vec::new();
        for (&connection, both) in &self.connections {
            for (end, of_node) in both.ends.iter().enumerate() {
                let lives = matches!(of_node.owner, Owner::Socket(_) | Owner::Thread(_) | Owner::Nobody);
                if lives && of_node.node == Some(node) {
                    ends.push(EndId { connection, end });
                }
            }
        }
        for id in ends {
            if kind == CrashKind::Machine {
                self.switch_off(id);
            } else {
                self.close(id, false);
            }
        }
    }

    /// The machine of an end has lost its power.
    pub(super) fn switch_off(&mut self, id: EndId) {
        if let Some(connection) = self.connections.get_mut(&id.connection) {
            connection.ends[id.end].owner = Owner::Off;
            connection.directions[1 - id.end].drop_arrived();
        }
        self.retire(id.connection);
    }
}
