//! Clients that are no threads: their behaviour is called by events, so ten thousand of them are cheap.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Weak};

use super::Net;
use super::direction::EndId;
use super::state::{Link, Owner, State};
use crate::sim::node::NodeId;
use crate::socket::Address;

/// What a client does when something happens to it. It may call everything of its [`Client`], and must not block.
pub trait Behaviour: Send {
    /// The connection is made.
    fn connected(&mut self, client: &Client) {
        let _ = client;
    }

    /// Bytes have arrived.
    fn received(&mut self, client: &Client, bytes: &[u8]);

    /// All that was sent is on its way.
    fn sent(&mut self, client: &Client) {
        let _ = client;
    }

    /// No more will arrive. Called once.
    fn closed(&mut self, client: &Client, how: Closed) {
        let _ = how;
        client.close();
    }

    /// A time has come that was asked for by [`Client::call_after`].
    fn time_is_up(&mut self, client: &Client) {
        let _ = client;
    }
}

/// Why no more arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer has ended its direction.
    Finished,
    /// The connection broke.
    Broken,
    /// It was never made.
    Refused(io::ErrorKind),
}

/// See the module. Cheap to clone; the connection stays when all clones are dropped.
#[derive(Clone, Debug)]
pub struct Client {
    net: Weak<Net>,
    id: EndId,
}

pub(super) struct ClientState {
    /// Out while it is called.
    behaviour: Option<Box<dyn Behaviour>>,
    /// Sent when there is room.
    queued: VecDeque<u8>,
    finishing: bool,
    /// It wants what arrives.
    reads: bool,
    told_connected: bool,
    told_closed: bool,
    tell_sent: bool,
    times_up: usize,
}

/// What a behaviour is called with.
enum Call {
    Connected,
    Received(Vec<u8>),
    Sent,
    Closed(Closed),
    TimeIsUp,
}

impl Client {
    /// Connects to an address of a node from outside of all nodes.
    pub fn connect(net: &Arc<Net>, node: NodeId, address: &Address, behaviour: impl Behaviour + 'static) -> Self {
        let mut state = net.lock();
        let id = state.connect(Owner::Client, None, node, address);
        let client = ClientState {
            behaviour: Some(Box::new(behaviour)),
            queued: VecDeque::new(),
            finishing: false,
            reads: true,
            told_connected: false,
            told_closed: false,
            tell_sent: false,
            times_up: 0,
        };
        state.clients.insert(id.connection, client);
        Self { net: Arc::downgrade(net), id }
    }

    /// Tells clients apart.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.id.connection
    }

    /// Sends; what finds no room waits.
    pub fn send(&self, bytes: &[u8]) {
        self.with(|state, client| {
            let direct =
                if client.queued.is_empty() { state.send(self.id, &[IoSlice::new(bytes)]).unwrap_or(bytes.len()) } else { 0 };
            client.queued.extend(&bytes[direct..]);
            if !client.queued.is_empty() {
                client.tell_sent = true;
                state.await_room(self.id);
            }
        });
    }

    /// Ends this direction behind what was sent.
    pub fn finish(&self) {
        self.with(|state, client| {
            client.finishing = true;
            if client.queued.is_empty() {
                state.finish(self.id);
            }
        });
    }

    /// Closes. What was sent and is not on its way is lost.
    pub fn close(&self) {
        self.end(false);
    }

    /// Closes by a reset.
    pub fn reset(&self) {
        self.end(true);
    }

    /// Whether it wants what arrives; what it does not take fills the window.
    pub fn set_reading(&self, reads: bool) {
        self.with(|_, client| client.reads = reads);
        self.serve_soon();
    }

    /// Takes up to this number of bytes that have arrived, for a client that does not read.
    #[must_use]
    pub fn take(&self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut count = 0;
        self.with(|state, _| count = state.receive(self.id, &mut bytes).ok().flatten().unwrap_or(0));
        bytes.truncate(count);
        bytes
    }

    /// Has [`Behaviour::time_is_up`] called after some virtual time.
    pub fn call_after(&self, time_ns: u64) {
        self.with(|state, _| {
            let (id, at_ns) = (self.id, state.turn.now_ns().saturating_add(time_ns));
            state.at(at_ns, move |net| {
                if let Some(client) = net.lock().clients.get_mut(&id.connection) {
                    client.times_up += 1;
                }
                net.serve(id);
            });
        });
    }

    /// Virtual time in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.net.upgrade().map_or(0, |net| net.turn.now_ns())
    }

    fn end(&self, abort: bool) {
        if let Some(net) = self.net.upgrade() {
            net.lock().close(self.id, abort);
        }
    }

    fn serve_soon(&self) {
        let id = self.id;
        if let Some(net) = self.net.upgrade() {
            net.lock().at(0, move |net| net.serve(id));
        }
    }

    /// Calls with the client, unless it is closed.
    fn with(&self, call: impl FnOnce(&mut State, &mut ClientState)) {
        let Some(net) = self.net.upgrade() else { return };
        let mut state = net.lock();
        if let Some(mut client) = state.clients.remove(&self.id.connection) {
            call(&mut state, &mut client);
            state.clients.insert(self.id.connection, client);
        }
    }
}

impl Net {
    /// Calls the behaviour of a client as long as there is something to tell. To be called by events only.
    pub(super) fn serve(&self, id: EndId) {
        loop {
            let mut state = self.lock();
            let Some(mut client) = state.clients.remove(&id.connection) else { return };
            let call = state.next_call(id, &mut client);
            let behaviour = call.as_ref().and_then(|_| client.behaviour.take());
            state.clients.insert(id.connection, client);
            drop(state);
            let (Some(call), Some(mut behaviour)) = (call, behaviour) else { return };
            let handle = Client { net: Weak::clone(&self.own), id };
            match call {
                Call::Connected => behaviour.connected(&handle),
                Call::Received(bytes) => behaviour.received(&handle, &bytes),
                Call::Sent => behaviour.sent(&handle),
                Call::Closed(how) => behaviour.closed(&handle, how),
                Call::TimeIsUp => behaviour.time_is_up(&handle),
            }
            if let Some(client) = self.lock().clients.get_mut(&id.connection) {
                client.behaviour = Some(behaviour);
            }
        }
    }
}

impl State {
    /// Sends what a client has queued, and says what it is to be told next.
    fn next_call(&mut self, id: EndId, client: &mut ClientState) -> Option<Call> {
        client.behaviour.as_ref()?;
        let connection = self.connections.get_mut(&id.connection)?;
        connection.ends[id.end].has_room = false;
        let link = connection.ends[id.end].link;
        if link == Link::Connecting {
            return None;
        }
        if let Link::Refused(kind) = link {
            return (!std::mem::replace(&mut client.told_closed, true)).then_some(Call::Closed(Closed::Refused(kind)));
        }
        if !std::mem::replace(&mut client.told_connected, true) {
            return Some(Call::Connected);
        }
        if client.times_up > 0 {
            client.times_up -= 1;
            return Some(Call::TimeIsUp);
        }
        if !client.queued.is_empty() {
            self.flush(id, client);
        }
        if client.queued.is_empty() && std::mem::take(&mut client.tell_sent) {
            return Some(Call::Sent);
        }
        let inbound = &self.connections.get(&id.connection)?.directions[1 - id.end];
        let (arrived, ended) = (inbound.arrived_bytes(), inbound.ended);
        if arrived > 0 && !client.reads && link != Link::Broken {
            return None;
        }
        if arrived > 0 && client.reads {
            let mut bytes = vec![0; arrived];
            let count = self.receive(id, &mut bytes).ok().flatten().unwrap_or(0);
            bytes.truncate(count);
            return Some(Call::Received(bytes));
        }
        let how = if link == Link::Broken { Closed::Broken } else { Closed::Finished };
        let closed = (ended || link == Link::Broken) && !std::mem::replace(&mut client.told_closed, true);
        closed.then_some(Call::Closed(how))
    }

    /// Sends what there is room for.
    fn flush(&mut self, id: EndId, client: &mut ClientState) {
        let (first, second) = client.queued.as_slices();
        match self.send(id, &[IoSlice::new(first), IoSlice::new(second)]) {
            Ok(sent) => drop(client.queued.drain(..sent)),
            Err(_) => client.queued.clear(),
        }
        if !client.queued.is_empty() {
            self.await_room(id);
        } else if client.finishing {
            self.finish(id);
        }
    }
}
