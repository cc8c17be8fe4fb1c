//! What reactors see of the network, and how they are woken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Net;
use super::sockets::{ListenSocket, Socket};
use super::state::{Link, Owner};
use super::transfer::Look;
use super::watching::Watching;
use crate::sim::turn::{self, Point, Turn};

/// Wakes one reactor, and is what the network knows it by.
#[derive(Debug)]
pub(crate) struct Alarm {
    net: Arc<Net>,
    reactor: u64,
}

impl Alarm {
    pub(crate) fn new(net: &Arc<Net>) -> Self {
        let condition = net.turn.condition();
        let mut state = net.lock();
        let reactor = state.number();
        state.reactors.insert(reactor, Watching::new(condition));
        drop(state);
        Self { net: Arc::clone(net), reactor }
    }

    pub(crate) fn wake(&self) {
        self.with(|watching, turn| {
            watching.woken = true;
            watching.notify(turn);
        });
    }

    /// Waits until something may have happened or time is up. Others may run even if nothing is waited for.
    ///
    /// # Errors
    /// When the caller is no simulated thread.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let has_anything = self.with(|watching, _| {
            let has_anything = std::mem::take(&mut watching.woken) || watching.has_anything();
            watching.waits = !has_anything && !timeout.is_zero();
            has_anything
        });
        if has_anything || timeout.is_zero() {
            turn::point(Point::Yield);
        } else {
            let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            let until_ns = self.net.turn.now_ns().saturating_add(timeout_ns);
            let condition = self.with(|watching, _| watching.condition);
            if turn::block("waits for events", Some(condition), Some(until_ns)).is_none() {
                return Err(io::Error::other("the reactor is of another simulation"));
            }
        }
        self.with(|watching, _| (watching.waits, watching.woken) = (false, false));
        Ok(())
    }

    /// Watches an end for its reactor, which knows it by this number.
    pub(crate) fn watch(&self, socket: &Socket, token: u64) {
        let id = socket.id();
        let mut state = self.net.lock();
        if let Some(connection) = state.connections.get_mut(&id.connection)
            && let Owner::Socket(watcher) = &mut connection.ends[id.end].owner
        {
            *watcher = Some((self.reactor, token));
            state.changed(id);
        }
    }

    pub(crate) fn leave(&self, socket: &Socket) {
        let id = socket.id();
        let mut state = self.net.lock();
        if let Some(connection) = state.connections.get_mut(&id.connection)
            && let Owner::Socket(watcher) = &mut connection.ends[id.end].owner
        {
            *watcher = None;
            connection.ends[id.end].listed = false;
        }
    }

    /// The connections to look at. Each is on the list again when something happens.
    pub(crate) fn take_ready(&self) -> Vec<u64> {
        let mut state = self.net.lock();
        let ready = state.reactors.get_mut(&self.reactor).map(|watching| std::mem::take(&mut watching.ready)).unwrap_or_default();
        let mut tokens = Vec::with_capacity(ready.len());
        for id in ready {
            if let Some(connection) = state.connections.get_mut(&id.connection)
                && let Owner::Socket(Some((reactor, token))) = connection.ends[id.end].owner
                && reactor == self.reactor
                && std::mem::take(&mut connection.ends[id.end].listed)
            {
                tokens.push(token);
            }
        }
        tokens
    }

    /// Has the reactor look at a connection again.
    pub(crate) fn look_again(&self, socket: &Socket) {
        self.net.lock().changed(socket.id());
    }

    pub(crate) fn look(&self, socket: &Socket) -> Look {
        self.net.lock().look(socket.id())
    }

    /// Asks to be told when there is room.
    pub(crate) fn await_room(&self, socket: &Socket) {
        self.net.lock().await_room(socket.id());
    }

    /// Whether there is room, which is told once.
    pub(crate) fn take_room(&self, socket: &Socket) -> bool {
        let id = socket.id();
        let mut state = self.net.lock();
        let Some(connection) = state.connections.get_mut(&id.connection) else { return true };
        let end = &mut connection.ends[id.end];
        std::mem::take(&mut end.has_room) || end.link == Link::Broken
    }

    /// Accepts from a listener.
    pub(crate) fn arm(&self, listener: &ListenSocket) {
        let mut state = self.net.lock();
        let number = listener.number();
        let Some(listening) = state.listeners.get_mut(&number) else { return };
        if listening.closed {
            return;
        }
        listening.arms.push(self.reactor);
        if !listening.backlog.is_empty() {
            self.call(&mut state, number);
        }
    }

    /// Accepts no more from a listener.
    pub(crate) fn disarm(&self, listener: &ListenSocket) {
        let mut state = self.net.lock();
        let number = listener.number();
        if let Some(listening) = state.listeners.get_mut(&number)
            && let Some(place) = listening.arms.iter().position(|reactor| *reactor == self.reactor)
        {
            listening.arms.remove(place);
        }
        if let Some(watching) = state.reactors.get_mut(&self.reactor) {
            watching.accepts.retain(|called| *called != number);
        }
    }

    /// A listener at which connections may wait.
    pub(crate) fn next_accept(&self) -> Option<u64> {
        self.with(|watching, _| watching.accepts.pop_front())
    }

    /// Whether the run wants a fault of this rate now.
    pub(crate) fn fails(&self, per_million: impl Fn(&super::NetOptions) -> u32, name: &'static str) -> bool {
        let mut state = self.net.lock();
        let per_million = per_million(&state.options);
        state.fails(per_million, name, self.reactor)
    }

    pub(crate) fn buffers(&self) -> usize {
        self.net.lock().options.buffers.max(1)
    }

    fn call(&self, state: &mut super::state::State, listener: u64) {
        if let Some(watching) = state.reactors.get_mut(&self.reactor) {
            watching.call_to_accept(listener, &self.net.turn);
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Watching, &Turn) -> T) -> T {
        let mut state = self.net.lock();
        let watching = state.reactors.get_mut(&self.reactor).expect("it lives as long as its alarm");
        look(watching, &self.net.turn)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let gone = self.net.lock().reactors.remove(&self.reactor);
        drop(gone);
    }
}
