//! The network of a world: listeners, connections of two directions, and what goes wrong with them.
//!
//! A send becomes parcels that arrive in order, each after a latency of its own, and wait at the other end until they are received.
//! What is under way and what waits fill the window; a full one takes nothing more. By choice, sends and receives are short,
//! parcels are cut or late, connections break or are refused, and a process has no descriptors left.
//!
//! An end of a connection belongs to a socket of a node, which a [`crate::reactor::Reactor`] may watch; to a [`Client`], whose
//! behaviour is called by events; or to a [`BlockingClient`] of a simulated thread. Nothing here blocks while it holds the state.
//!
//! A node has the address [`address_of`] its number and those of its loopback. Between all nodes everything passes: networks that
//! are divided are not built.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

pub use self::blocking::BlockingClient;
pub use self::client::{Behaviour, Client, Closed};
pub use self::options::NetOptions;
pub(crate) use self::sockets::{ListenSocket, Socket, resolve};
use self::state::State;
pub(crate) use self::watch::Alarm;
use super::node::{CrashKind, NodeId};
use super::turn::Turn;

mod blocking;
mod client;
mod connect;
mod direction;
mod options;
mod sockets;
mod state;
mod transfer;
mod watch;
mod watching;

#[cfg(test)]
mod tests;

/// See the module.
pub struct Net {
    own: Weak<Self>,
    turn: Arc<Turn>,
    state: Mutex<State>,
}

/// The address of a node in the network.
#[must_use]
pub const fn address_of(node: NodeId) -> IpAddr {
    let [_, high, middle, low] = (node.0 + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, high, middle, low))
}

impl Net {
    pub(super) fn new(turn: &Arc<Turn>) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            let state = State::new(Arc::clone(turn), Weak::clone(own));
            Self { own: Weak::clone(own), turn: Arc::clone(turn), state: Mutex::new(state) }
        })
    }

    /// What may go wrong from now on.
    pub fn set_options(&self, options: NetOptions) {
        self.lock().options = options;
    }

    /// What may go wrong now.
    #[must_use]
    pub fn options(&self) -> NetOptions {
        self.lock().options.clone()
    }

    /// How often each fault has happened, by its name.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.lock().faults.clone()
    }

    /// Connections that at least one end has not closed.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.lock().connections.len()
    }

    /// The process of a node has ended. The system closes its sockets; when power fails, peers learn nothing until they send.
    pub(super) fn crash(&self, node: NodeId, kind: CrashKind) {
        self.lock().crash(node, kind);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}
