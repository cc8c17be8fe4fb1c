//! Listening, connecting and accepting.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::direction::{Direction, EndId};
use super::state::{Connection, End, Link, Listening, Owner, State};
use super::{Net, address_of};
use crate::sim::node::NodeId;
use crate::socket::Address;

/// A connection that finds a full backlog is tried again after one second, then two, and so on.
const AGAIN_NS: u64 = 1_000_000_000;
/// So often; then it has timed out.
const TRIES: u32 = 6;
/// The first port that the system chooses.
const PORTS_BEGIN: u16 = 30_000;

impl State {
    /// Listens on an address of a node. `lenders` are listeners that may have the same port.
    pub(super) fn listen(&mut self, node: NodeId, address: Address, backlog: u32, lenders: &[u64]) -> io::Result<(u64, Address)> {
        let address = match address {
            Address::Ip(wanted) => Address::Ip(self.free_address(node, wanted, lenders)?),
            unix @ Address::Unix(_) => {
                if self.on_node(node).any(|(_, listening)| listening.address == unix) {
                    return Err(in_use());
                }
                unix
            }
        };
        let number = self.number();
        let listening = Listening {
            node,
            address: address.clone(),
            backlog: VecDeque::new(),
            backlog_max: backlog as usize + 1,
            closed: false,
            arms: Vec::new(),
        };
        self.listeners.insert(number, listening);
        self.turn.note("listens", [u64::from(node.0), number]);
        Ok((number, address))
    }

    fn on_node(&self, node: NodeId) -> impl Iterator<Item = (u64, &Listening)> {
        let listening = self.listeners.iter().filter(move |(_, listening)| listening.node == node && !listening.closed);
        listening.map(|(number, listening)| (*number, listening))
    }

    fn free_address(&self, node: NodeId, wanted: SocketAddr, lenders: &[u64]) -> io::Result<SocketAddr> {
        let ip = wanted.ip();
        if !ip.is_unspecified() && !ip.is_loopback() && ip != address_of(node) {
            return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        }
        let taken = |port: u16| {
            self.on_node(node).any(|(number, listening)| match listening.address {
                Address::Ip(other) => {
                    let same = other.ip() == ip || (overlaps(other.ip(), ip) && !lenders.contains(&number));
                    other.port() == port && same
                }
                Address::Unix(_) => false,
            })
        };
        let port = match wanted.port() {
            0 => (PORTS_BEGIN..u16::MAX).find(|port| !taken(*port)),
            port => Some(port).filter(|port| !taken(*port)),
        };
        port.map(|port| SocketAddr::new(ip, port)).ok_or_else(in_use)
    }

    /// The listener that a connection to an address of a node comes to.
    fn listener_at(&self, node: NodeId, address: &Address) -> Option<u64> {
        let hears = |listening: &Listening, exact: bool| match (&listening.address, address) {
            (Address::Ip(own), Address::Ip(wanted)) => {
                let is_ours =
                    own.ip() == wanted.ip() || (!exact && own.ip().is_unspecified() && same_family(own.ip(), wanted.ip()));
                is_ours && own.port() == wanted.port()
            }
            (own, wanted) => own == wanted,
        };
        let find = |exact| self.on_node(node).find(|(_, listening)| hears(listening, exact)).map(|(number, _)| number);
        find(true).or_else(|| find(false))
    }

    /// Begins a connection to an address of a node.
    pub(super) fn connect(&mut self, owner: Owner, from: Option<NodeId>, node: NodeId, address: &Address) -> EndId {
        let number = self.number();
        let (ours, theirs) = match address {
            Address::Ip(theirs) => {
                (Some(SocketAddr::new(source(number, from, node, theirs.ip()), source_port(number))), Some(*theirs))
            }
            Address::Unix(_) => (None, None),
        };
        let end =
            |owner, node, address, link| End { owner, node, address, link, awaits_room: false, has_room: false, listed: false };
        let ends = [end(owner, from, ours, Link::Connecting), end(Owner::Nobody, Some(node), theirs, Link::Connected)];
        let window = self.options.window_bytes;
        self.connections.insert(number, Connection { ends, directions: [Direction::new(window), Direction::new(window)] });
        let id = EndId { connection: number, end: 0 };
        self.note("connects", id, u64::from(node.0));
        let (address, at_ns) = (address.clone(), self.arrival_ns());
        self.at(at_ns, move |net| net.knock(id, node, &address, 0));
        id
    }

    /// A connection that waits at a listener.
    ///
    /// # Errors
    /// When the process has no descriptors left; the connection waits on.
    pub(super) fn accept(&mut self, listener: u64) -> io::Result<Option<EndId>> {
        let Some(&first) = self.listeners.get(&listener).and_then(|listening| listening.backlog.front()) else { return Ok(None) };
        if self.fails(self.options.accept_failures_per_million, "accept fails", first) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if let Some(listening) = self.listeners.get_mut(&listener) {
            listening.backlog.pop_front();
        }
        let id = EndId { connection: first, end: 1 };
        if let Some(connection) = self.connections.get_mut(&first) {
            connection.ends[1].owner = Owner::Socket(None);
        }
        self.note("is accepted", id, listener);
        Ok(Some(id))
    }

    /// Has one of the reactors that accept from a listener do so.
    pub(super) fn call_to_accept(&mut self, listener: u64) {
        let Some(listening) = self.listeners.get(&listener) else { return };
        if listening.backlog.is_empty() || listening.arms.is_empty() {
            return;
        }
        let chosen = self.below(listening.arms.len());
        if let Some(watching) = self.listeners[&listener].arms.get(chosen).and_then(|reactor| self.reactors.get_mut(reactor)) {
            watching.call_to_accept(listener, &self.turn);
        }
    }

    /// No peer can connect any more; those that wait are turned away.
    pub(super) fn stop_listening(&mut self, listener: u64, is_off: bool) {
        let Some(listening) = self.listeners.get_mut(&listener) else { return };
        listening.closed = true;
        listening.arms.clear();
        for connection in std::mem::take(&mut listening.backlog) {
            let id = EndId { connection, end: 1 };
            if is_off {
                self.switch_off(id);
            } else {
                self.close(id, true);
            }
        }
    }
}

impl Net {
    /// A connection arrives at a node.
    fn knock(&self, id: EndId, node: NodeId, address: &Address, tries: u32) {
        let mut state = self.lock();
        let (listener, refusals) = (state.listener_at(node, address), state.options.refusals_per_million);
        let listener = listener.filter(|_| !state.fails(refusals, "connection is refused", id.connection));
        let Some(listener) = listener else { return state.answer(id, Link::Refused(io::ErrorKind::ConnectionRefused)) };
        let Some(listening) = state.listeners.get_mut(&listener) else { return };
        if listening.backlog.len() < listening.backlog_max {
            listening.backlog.push_back(id.connection);
            state.call_to_accept(listener);
            state.answer(id, Link::Connected);
        } else if tries == TRIES {
            state.answer(id, Link::Refused(io::ErrorKind::TimedOut));
        } else {
            let (at_ns, address) = (state.turn.now_ns() + (AGAIN_NS << tries), address.clone());
            state.at(at_ns, move |net| net.knock(id, node, &address, tries + 1));
        }
    }
}

impl State {
    /// The answer to a connection goes back.
    fn answer(&mut self, id: EndId, link: Link) {
        if let Link::Refused(_) = link {
            let Some(connection) = self.connections.get_mut(&id.connection) else { return };
            connection.ends[1].owner = Owner::Closed;
        }
        let at_ns = self.arrival_ns();
        // What the listener's side sends comes behind it.
        if let Some(connection) = self.connections.get_mut(&id.connection) {
            connection.directions[1].not_before(at_ns);
        }
        self.at(at_ns, move |net| {
            let mut state = net.lock();
            if let Some(connection) = state.connections.get_mut(&id.connection)
                && connection.ends[0].link == Link::Connecting
            {
                connection.ends[0].link = link;
            }
            let is_client = state.changed(id);
            state.retire(id.connection);
            drop(state);
            if is_client {
                net.serve(id);
            }
        });
    }
}

/// Whether two different addresses of a node cannot both have a port.
fn overlaps(one: IpAddr, other: IpAddr) -> bool {
    same_family(one, other) && (one.is_unspecified() || other.is_unspecified())
}

fn same_family(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4()
}

/// Where a connection comes from.
fn source(number: u64, from: Option<NodeId>, node: NodeId, to: IpAddr) -> IpAddr {
    match from {
        _ if to.is_loopback() => to,
        Some(from) if from == node => to,
        Some(from) => address_of(from),
        None => {
            let [.., high, middle, low] = number.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(10, 128 | high, middle, low))
        }
    }
}

fn source_port(number: u64) -> u16 {
    32_768 + u16::try_from(number % 28_000).unwrap_or(0)
}

fn in_use() -> io::Error {
    io::Error::from_raw_os_error(libc::EADDRINUSE)
}
