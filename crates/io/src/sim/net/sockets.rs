//! Sockets of nodes: what stands behind the types of [`crate::socket`] in a simulation.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::Net;
use super::direction::EndId;
use super::state::{Owner, State};
use crate::sim::node::NodeId;
use crate::socket::Address;

/// Descriptors below these are not of sockets.
const NUMBERS_BEGIN: u64 = 8;

/// An end of a connection that a node has. It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Socket {
    net: Arc<Net>,
    id: EndId,
}

impl Socket {
    pub(super) fn id(&self) -> EndId {
        self.id
    }

    /// As a descriptor's; used once.
    pub(crate) fn number(&self) -> i32 {
        i32::try_from(self.id.connection + NUMBERS_BEGIN).unwrap_or(i32::MAX)
    }

    pub(crate) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.net.lock().send(self.id, slices)
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.net.lock().receive(self.id, buffer)
    }

    pub(crate) fn finish(&self) {
        self.net.lock().finish(self.id);
    }

    /// Bounds what is under way.
    pub(crate) fn set_send_buffer(&self, bytes: usize) {
        if let Some(connection) = self.net.lock().connections.get_mut(&self.id.connection) {
            connection.directions[self.id.end].window = bytes.max(1);
        }
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.address(self.id.other())
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.address(self.id)
    }

    fn address(&self, id: EndId) -> Option<SocketAddr> {
        self.net.lock().connections.get(&id.connection)?.ends[id.end].address
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut state = self.net.lock();
        let is_ours = |state: &State| match state.connections.get(&self.id.connection) {
            Some(connection) => matches!(connection.ends[self.id.end].owner, Owner::Socket(_)),
            None => false,
        };
        if is_ours(&state) {
            state.close(self.id, false);
        }
    }
}

/// A listener of a node. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct ListenSocket {
    net: Arc<Net>,
    number: u64,
}

impl ListenSocket {
    /// Listens on a node.
    pub(crate) fn new(
        net: &Arc<Net>,
        node: NodeId,
        address: Address,
        backlog: u32,
        lenders: &[&Self],
    ) -> io::Result<(Self, Address)> {
        let lenders: Vec<u64> = lenders.iter().map(|lender| lender.number).collect();
        let (number, address) = net.lock().listen(node, address, backlog, &lenders)?;
        Ok((Self { net: Arc::clone(net), number }, address))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn set_backlog(&self, backlog: u32) {
        if let Some(listening) = self.net.lock().listeners.get_mut(&self.number) {
            listening.backlog_max = backlog as usize + 1;
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Option<Socket>> {
        let id = self.net.lock().accept(self.number)?;
        Ok(id.map(|id| Socket { net: Arc::clone(&self.net), id }))
    }

    pub(crate) fn close(&self) {
        self.net.lock().stop_listening(self.number, false);
    }
}

impl Drop for ListenSocket {
    fn drop(&mut self) {
        let mut state = self.net.lock();
        state.stop_listening(self.number, false);
        state.listeners.remove(&self.number);
    }
}

/// A name or an address, as every node knows it.
pub(crate) fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let ip: Result<IpAddr, _> = match host {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        "*" => Ok(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
        host => host.parse(),
    };
    let unknown = |_| io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    ip.map(|ip| SocketAddr::new(ip, port)).map_err(unknown)
}
