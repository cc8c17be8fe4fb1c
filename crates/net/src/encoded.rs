//! Connections with a transport: what arrives is decoded before it goes to the service, and what the service answers is encoded
//! before it is sent.
//!
//! What is small is encoded at once and goes with the round's other replies. Everything else waits as the service wrote it, and is
//! encoded as the kernel takes it; so a peer that does not read costs no more memory than on a plain connection. What is encoded
//! leaves in the order in which it was: [`Pending`](crate::output::Pending) keeps it before what is not.
//!
//! Handshakes are bounded. One takes long for a worker, so each round has only a few of their steps; what is beyond waits
//! for the next round. The peers of a worker that have not finished theirs are limited in number and in time: they have shown
//! nothing yet.

use std::sync::atomic::Ordering;

use almandine_io::reactor::{End, Reactor, Token};

use crate::connection::{Connection, Life};
use crate::connection_table::ConnectionTable;
use crate::service::{Peer, Service};
use crate::transport::Stage;

/// Most connections of a worker that are in their handshake. One that is not through when this many have come behind it is closed.
const HANDSHAKES_MAX: usize = 512;
/// Larger outputs are encoded as the kernel takes them.
const AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// The handshakes of a worker.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// The last connections that have begun one, oldest first; some are through or gone.
    begun: std::collections::VecDeque<Token>,
    /// Connections whose next step waits for a round with room for it.
    deferred: std::collections::VecDeque<Token>,
    /// Steps that this round may still have.
    left: u32,
}

impl Handshakes {
    /// Whether steps wait for the next round.
    pub(crate) fn are_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }
}

impl<S: Service> ConnectionTable<S> {
    /// A connection with a transport begins; the service hears of it once its handshake is over.
    pub(crate) fn begin_handshake(
        &mut self,
        service: &mut S,
        reactor: &mut Reactor,
        connection: &mut Connection<S::Connection>,
        peer: Peer,
    ) {
        connection.coding.opening = Some(Box::new(peer));
        self.note_transport(connection);
        self.handshakes.begun.push_back(connection.token);
        if self.handshakes.begun.len() > HANDSHAKES_MAX
            && let Some(token) = self.handshakes.begun.pop_front()
            && self.slab.by_place(token.place).is_some_and(|oldest| oldest.token == token && oldest.coding.opening.is_some())
            && let Some(mut oldest) = self.slab.take(token)
        {
            oldest.life = Life::Dead;
            self.settle(service, reactor, oldest);
        }
    }

    /// A round begins: steps that were deferred come first.
    pub(crate) fn begin_handshakes(&mut self, service: &mut S, reactor: &mut Reactor) {
        self.handshakes.left = self.shared.limits.handshakes_per_round.load(Ordering::Relaxed);
        while self.handshakes.left > 0
            && let Some(token) = self.handshakes.deferred.pop_front()
        {
            let Some(mut connection) = self.slab.take(token) else { continue };
            if connection.life == Life::Open && connection.coding.opening.is_some() {
                self.handshakes.left -= 1;
                self.decode(service, &mut connection, &mut []);
            }
            self.settle(service, reactor, connection);
        }
    }

    /// Data arrived on a connection with a transport.
    pub(crate) fn received_encoded(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, data: &mut [u8]) {
        if connection.coding.opening.is_none() {
            connection.second = self.now_s;
        } else if self.handshakes.left > 0 {
            self.handshakes.left -= 1;
        } else if self.defer(connection, data) {
            return;
        }
        self.decode(service, connection, data);
    }

    /// Has a step wait for a later round. False when what has come is too much to be kept: a client may send all of a pipeline
    /// behind its last message.
    fn defer(&mut self, connection: &mut Connection<S::Connection>, data: &[u8]) -> bool {
        let kept = connection.coding.transport.as_mut().is_some_and(|transport| transport.keep(data));
        if kept && !self.handshakes.deferred.contains(&connection.token) {
            self.handshakes.deferred.push_back(connection.token);
        }
        self.note_transport(connection);
        kept
    }

    fn decode(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, data: &mut [u8]) {
        let Some(transport) = &mut connection.coding.transport else { return };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        self.wire.clear();
        let outcome = transport.decode(data, &mut plain, &mut self.wire);
        let stage = transport.stage();
        self.send_wire(connection);
        self.note_transport(connection);
        if outcome.is_err() && connection.life == Life::Open {
            connection.life = Life::Closing;
        } else if stage != Stage::Handshake
            && let Some(peer) = connection.coding.opening.take()
        {
            let names = connection.coding.transport.as_ref().map(|transport| transport.names()).unwrap_or_default();
            connection.second = self.now_s;
            self.open_session(service, connection, &Peer { names, ..*peer });
        }
        if !plain.is_empty() && connection.life == Life::Open {
            self.digest(service, connection, &plain);
        }
        if stage == Stage::Ended && !connection.ended {
            self.ended(connection, End::Finished);
        }
        plain.shrink_to(crate::connection_table::SPARE_BYTES_MAX);
        self.plain = plain;
    }

    /// [`ConnectionTable::deliver`] through the transport.
    pub(crate) fn deliver_encoded(&mut self, connection: &mut Connection<S::Connection>) {
        let output = &mut connection.output;
        if connection.life == Life::Dead || connection.life == Life::Lingering {
        } else if output.holds > 0
            || output.pending.is_some()
            || self.scratch.has_stream()
            || self.scratch.len() > AT_ONCE_BYTES_MAX
        {
            let waits = output.holds > 0 || output.pending.is_some() || self.shared.limits.may_forbid(self.scratch.len());
            self.queue(connection);
            if !waits {
                self.send_pending(connection);
            }
            connection.output.full |= connection.streams();
        } else if let Some(transport) = &mut connection.coding.transport {
            self.wire.clear();
            self.scratch.flatten();
            match transport.encode(&self.scratch.bytes, &mut self.wire) {
                Ok(()) => self.send_wire(connection),
                Err(_) => connection.life = Life::Dead,
            }
        }
    }

    /// [`ConnectionTable::send_released`] through the transport: one piece of at most `bytes_max` bytes goes with the round's other
    /// replies.
    pub(crate) fn send_released_encoded(&mut self, connection: &mut Connection<S::Connection>) {
        let output = &mut connection.output;
        let piece = output.pending.as_ref().filter(|_| output.holds == 0).and_then(|pending| pending.one_piece(AT_ONCE_BYTES_MAX));
        let (Some(piece), Some(transport)) = (piece, &mut connection.coding.transport) else {
            return self.send_pending(connection);
        };
        self.wire.clear();
        if transport.encode(piece, &mut self.wire).is_err() {
            connection.life = Life::Dead;
            return;
        }
        (output.pending, output.taken_s) = (None, self.now_s);
        self.send_wire(connection);
    }

    /// Sends what the transport has encoded; what is not taken becomes pending, before what is not encoded yet.
    fn send_wire(&mut self, connection: &mut Connection<S::Connection>) {
        if self.wire.is_empty() {
            return;
        }
        if connection.output.pending.is_some() || connection.output.holds > 0 {
            connection.output.pending.get_or_insert_default().push_encoded(&self.wire);
            return;
        }
        self.counters().writes.add(1);
        let sent = if self.outbox.accepts(&connection.output.ticket, self.wire.len()) {
            self.outbox.send(connection.token, &connection.stream, &self.wire, &mut connection.output.ticket)
        } else {
            self.withdraw(connection);
            self.queued.extend_from_slice(&self.wire);
            std::mem::swap(&mut self.queued, &mut self.wire);
            connection.stream.send(&self.wire)
        };
        match sent {
            Ok(sent) => {
                self.counters().bytes_out.add(sent);
                if sent < self.wire.len() {
                    connection.output.pending.get_or_insert_default().push_encoded(&self.wire[sent..]);
                }
            }
            Err(_) => connection.life = Life::Dead,
        }
    }

    /// Tells the peer that nothing more comes, as far as the kernel takes it. Everything else was sent.
    pub(crate) fn end_transport(&mut self, connection: &mut Connection<S::Connection>) {
        if let Some(transport) = &mut connection.coding.transport
            && connection.output.pending.is_none()
        {
            self.wire.clear();
            transport.end(&mut self.wire);
            let _ = connection.stream.send(&self.wire);
        }
    }

    /// Counts the transport's memory to that of the connection.
    fn note_transport(&self, connection: &mut Connection<S::Connection>) {
        let memory = connection.coding.transport.as_ref().map_or(0, |transport| transport.memory_bytes());
        connection.coding.bytes = size_of::<Connection<S::Connection>>() + memory;
    }
}
