//! A worker's connections, and the buffers that they share.
//!
//! The table is apart from the reactor, because an event lends data of the reactor while the table changes; and apart from the
//! service, because the service is called with parts of the table. What handling an event decides about the reactor (what to watch,
//! which one to remove) is therefore noted in the connection and carried out by [`ConnectionTable::settle`] afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use almandine_base::Output;
use almandine_io::reactor::{Outbox, Reactor, Token};
use almandine_io::socket::Stream;
use almandine_io::storage::ReadRequest;

use crate::connection::{Connection, Life};
use crate::counters::Counters;
use crate::encoded::Handshakes;
use crate::mailbox::Shared;
use crate::output;
use crate::service::{Buffers, ConnectionId, Held, Peer, Service};
use crate::slab::Slab;

/// Kept empty buffers for incomplete input.
const SPARE_BUFFERS_MAX: usize = 16;
/// Larger buffers are given back.
pub(crate) const SPARE_BYTES_MAX: usize = 64 * 1024;
/// The scratch output is given back above this capacity.
const SCRATCH_BYTES_MAX: usize = 1024 * 1024;
/// Output above this size is compared with the limits before any of it is sent; Redis, too, does not count the first 16 KiB.
const CHECKED_BYTES_MIN: usize = 16 * 1024;
/// How long a peer may send on after we have ended our direction.
const LINGER_S: u64 = 2;

pub(crate) struct ConnectionTable<S: Service> {
    pub(crate) shared: Arc<Shared<S::Message>>,
    pub(crate) worker: usize,
    pub(crate) slab: Slab<S::Connection>,
    pub(crate) outbox: Outbox,
    /// Where the service writes; empty between events.
    pub(crate) scratch: Output,
    /// What a transport decodes into, what it encodes into, and what it is to encode.
    pub(crate) plain: Vec<u8>,
    pub(crate) wire: Vec<u8>,
    pub(crate) staging: Vec<u8>,
    pub(crate) handshakes: Handshakes,
    /// What was taken back from the outbox.
    pub(crate) queued: Vec<u8>,
    spare: Vec<Vec<u8>>,
    /// Connections to run or to settle after messages.
    pub(crate) listed: Vec<Token>,
    /// Reads on their way from the service to the reactor; empty between events.
    requests: Vec<ReadRequest>,
    /// Monotonic time of this round.
    pub(crate) now_s: u64,
}

impl<S: Service> ConnectionTable<S> {
    pub(crate) fn new(shared: Arc<Shared<S::Message>>, worker: usize, outbox: Outbox) -> Self {
        Self {
            shared,
            worker,
            slab: Slab::new(),
            outbox,
            scratch: Output::new(),
            plain: Vec::new(),
            wire: Vec::new(),
            staging: Vec::new(),
            handshakes: Handshakes::default(),
            queued: Vec::new(),
            spare: Vec::new(),
            listed: Vec::new(),
            requests: Vec::new(),
            now_s: 0,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.workers[self.worker].counters
    }

    /// Sends the scratch output; what is not taken becomes pending.
    pub(crate) fn deliver(&mut self, connection: &mut Connection<S::Connection>) {
        if self.scratch.is_empty() {
            return;
        }
        if connection.coding.transport.is_some() {
            self.deliver_encoded(connection);
        } else if connection.life == Life::Dead || connection.life == Life::Lingering {
            self.scratch.clear();
            return;
        } else if connection.output.holds > 0 {
            self.queue(connection);
            connection.output.full |= connection.streams();
        } else if self.scratch.has_stream() {
            self.begin_stream(connection);
        } else if let Some(pending) = &mut connection.output.pending {
            pending.push(&mut self.scratch);
        } else if self.scratch.len() > CHECKED_BYTES_MIN && self.shared.limits.may_forbid(self.scratch.len()) {
            self.queue(connection);
        } else {
            match self.send(connection) {
                Ok(sent) if sent == self.scratch.len() => {}
                Ok(sent) if self.scratch.attachments.is_empty() => {
                    connection.output.pending.insert(Box::default()).push_bytes(self.scratch.bytes[sent..].to_vec());
                }
                Ok(sent) => {
                    let pending = connection.output.pending.insert(Box::default());
                    pending.push(&mut self.scratch);
                    pending.advance(sent);
                }
                Err(_) => connection.life = Life::Dead,
            }
        }
        self.scratch.clear();
        if self.scratch.bytes.capacity() > SCRATCH_BYTES_MAX {
            self.scratch = Output::new();
        }
        let pause = self.shared.limits.output_pause_bytes.load(Ordering::Relaxed);
        if !connection.output.full && connection.pending_bytes() > pause {
            (connection.output.full, connection.output.taken_s) = (true, self.now_s);
        }
    }

    /// Sends a scratch output that ends in a stream. The connection executes nothing more before the stream's end.
    #[cold]
    fn begin_stream(&mut self, connection: &mut Connection<S::Connection>) {
        self.queue(connection);
        self.send_pending(connection);
        connection.output.full |= connection.streams();
    }

    /// Makes the scratch output pending, behind what the outbox holds.
    #[cold]
    pub(crate) fn queue(&mut self, connection: &mut Connection<S::Connection>) {
        self.withdraw(connection);
        if !self.queued.is_empty() {
            connection.keep_unsent(self.queued.clone());
        }
        connection.output.pending.get_or_insert_default().push(&mut self.scratch);
    }

    /// Sends the scratch output of a connection that has nothing pending. Returns how much of it needs no further care.
    fn send(&mut self, connection: &mut Connection<S::Connection>) -> std::io::Result<usize> {
        self.counters().writes.add(1);
        let len = self.scratch.len();
        if self.scratch.attachments.is_empty() && self.outbox.accepts(&connection.output.ticket, len) {
            let bytes = &self.scratch.bytes;
            let sent = self.outbox.send(connection.token, &connection.stream, bytes, &mut connection.output.ticket)?;
            self.counters().bytes_out.add(sent);
            return Ok(sent);
        }
        self.withdraw(connection);
        let sent = output::send_once(&connection.stream, &self.queued, &self.scratch)?;
        self.counters().bytes_out.add(sent);
        if sent < self.queued.len() {
            // Nothing of the scratch output is sent, and something comes before it.
            let pending = connection.output.pending.insert(Box::default());
            pending.push_bytes(self.queued[sent..].to_vec());
            pending.push(&mut self.scratch);
            return Ok(0);
        }
        Ok(sent - self.queued.len())
    }

    /// Takes back what the outbox holds for a connection.
    pub(crate) fn withdraw(&mut self, connection: &mut Connection<S::Connection>) {
        self.queued.clear();
        self.outbox.withdraw(&mut connection.output.ticket, &mut self.queued);
        self.counters().bytes_out.subtract(self.queued.len());
    }

    /// Sends pending output of a connection that is not about to be closed. What is small goes together with that of others.
    pub(crate) fn send_released(&mut self, connection: &mut Connection<S::Connection>) {
        if connection.coding.transport.is_some() {
            return self.send_released_encoded(connection);
        }
        let output = &mut connection.output;
        if let Some(pending) = &mut output.pending
            && output.holds == 0
            && let Some(bytes) = pending.one_piece(CHECKED_BYTES_MIN)
            && let Ok(sent) = self.outbox.send(connection.token, &connection.stream, bytes, &mut output.ticket)
        {
            let is_sent = sent == bytes.len();
            pending.advance(sent);
            if is_sent {
                output.pending = None;
            }
            output.taken_s = self.now_s;
            self.counters().bytes_out.add(sent);
            self.counters().writes.add(1);
        } else {
            self.send_pending(connection);
        }
    }

    /// Sends pending output as far as the kernel takes it, unless it is held.
    pub(crate) fn send_pending(&mut self, connection: &mut Connection<S::Connection>) {
        if connection.output.holds > 0 {
            return;
        }
        let Some(pending) = &mut connection.output.pending else { return };
        let outcome = match &mut connection.coding.transport {
            None => pending.send(&connection.stream),
            Some(transport) => pending.send_encoded(&connection.stream, &mut **transport, &mut self.staging),
        };
        match outcome {
            Ok(sent) => {
                if pending.is_empty() {
                    connection.output.pending = None;
                }
                if sent > 0 {
                    connection.output.taken_s = self.now_s;
                }
                self.counters().bytes_out.add(sent);
                self.counters().writes.add(1);
            }
            Err(_) => connection.life = Life::Dead,
        }
    }

    /// Moves queued output to the kernel now, for a connection that is about to be closed.
    fn flush(&mut self, connection: &mut Connection<S::Connection>) {
        if connection.output.pending.is_none() && connection.life != Life::Dead {
            self.withdraw(connection);
            if !self.queued.is_empty() {
                connection.keep_unsent(self.queued.clone());
                self.send_pending(connection);
            }
        }
    }

    /// Starts the reads that the service asks for.
    pub(crate) fn start_reads(&mut self, service: &mut S, reactor: &mut Reactor) {
        service.take_reads(&mut self.requests);
        if !self.requests.is_empty() {
            let counters = self.counters();
            counters.device_reads.add(self.requests.len());
            counters.device_reads_in_flight.add(self.requests.len());
            self.requests.drain(..).for_each(|request| reactor.read(request));
        }
    }

    /// Ends the handling of an event: carries out what it decided, and puts the connection back or removes it.
    pub(crate) fn settle(&mut self, service: &mut S, reactor: &mut Reactor, mut connection: Box<Connection<S::Connection>>) {
        self.start_reads(service, reactor);
        self.check_output(service, &mut connection);
        let finished = connection.ended && !connection.output.full && !connection.awaits && connection.output.holds == 0;
        if (connection.life == Life::Open && finished) || connection.life == Life::Closing {
            self.close_after_flush(service, &mut connection);
        }
        self.count(service, &mut connection);
        if connection.life == Life::Dead {
            return self.remove(service, reactor, connection);
        }
        let (token, wanted) = (connection.token, connection.wanted(self.shared.limits.unread_bytes_max()));
        let mut watched = Ok(());
        if wanted != connection.interest {
            connection.interest = wanted;
            watched = reactor.watch(token, wanted);
        }
        if connection.output.pending.is_some() && !connection.output.awaits_writable && connection.output.holds == 0 {
            connection.output.awaits_writable = true;
            watched = watched.and_then(|()| reactor.notify_writable(token));
        }
        if watched.is_err() {
            connection.life = Life::Dead;
            return self.settle(service, reactor, connection);
        }
        self.slab.put(connection);
    }

    /// Flushes; once everything is sent, forgets the session and ends our direction.
    fn close_after_flush(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) {
        connection.life = Life::Closing;
        self.flush(connection);
        if connection.output.pending.is_some() || connection.life == Life::Dead {
            return;
        }
        self.end_transport(connection);
        if connection.ended {
            connection.life = Life::Dead;
            return;
        }
        self.close_session(service, connection);
        connection.stream.finish();
        connection.life = Life::Lingering;
        connection.second = self.now_s + LINGER_S;
        self.recycle_input(connection);
    }

    /// Closes a connection with more pending output than its limit.
    pub(crate) fn check_output(&mut self, service: &S, connection: &mut Connection<S::Connection>) {
        let Some(pending) = &mut connection.output.pending else {
            connection.output.pushed = 0;
            return;
        };
        let Some(session) = connection.session.as_ref().filter(|_| connection.life != Life::Dead) else { return };
        let (limit, bytes) = self.shared.limits.output(service.output_class(session), pending.len(), connection.output.pushed);
        if limit.is_broken(bytes, &mut pending.over_since_s, self.now_s) {
            connection.life = Life::Dead;
            self.counters().closed_by.output_limit.add(1);
        }
    }

    fn count(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) {
        let now = match (connection.life, &connection.session) {
            (Life::Dead, _) => Buffers::default(),
            (_, Some(session)) => connection.buffers(service.held(session)),
            (_, None) => connection.buffers(Held::default()),
        };
        if now != connection.counted {
            let (counters, before) = (self.counters(), connection.counted);
            counters.input_buffer_bytes.replace(before.input, now.input);
            counters.output_pending_bytes.replace(before.pending, now.pending);
            counters.output_memory_bytes.replace(before.output, now.output);
            if let Some(session) = &mut connection.session {
                service.note_buffers(session, now);
            }
            connection.counted = now;
        }
    }

    fn remove(&mut self, service: &mut S, reactor: &mut Reactor, mut connection: Box<Connection<S::Connection>>) {
        self.withdraw(&mut connection);
        self.close_session(service, &mut connection);
        if connection.coding.opening.is_some() {
            self.shared.release(self.worker);
        }
        reactor.remove(connection.token);
        self.recycle_input(&mut connection);
        self.slab.release(connection.token, connection.id);
    }

    /// Has the service see a connection, which may refuse it.
    pub(crate) fn open_session(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, peer: &Peer) {
        connection.session = service.open(connection.id, peer, &mut self.scratch);
        self.counters().opened.add(1);
        if connection.session.is_none() {
            connection.life = Life::Closing;
            self.counters().closed.add(1);
            self.shared.release(self.worker);
        }
        self.deliver(connection);
    }

    fn close_session(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) {
        if let Some(session) = connection.session.take() {
            service.close(session);
            self.counters().closed.add(1);
            self.shared.release(self.worker);
        }
    }

    /// An empty buffer for incomplete input.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Frees a connection's input.
    pub(crate) fn recycle_input(&mut self, connection: &mut Connection<S::Connection>) {
        let kept = std::mem::take(&mut connection.input);
        self.recycle(kept.into_buffer());
    }

    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES_MAX && self.spare.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Puts a connection on the list of those that run or settle after the messages.
    pub(crate) fn list(listed: &mut Vec<Token>, connection: &mut Connection<S::Connection>) {
        if !connection.listed {
            connection.listed = true;
            listed.push(connection.token);
        }
    }

    /// Closes everything; output is offered to the kernel once. Each peer reads its end at once: the kernel may let go of a
    /// socket only after the process has gone, and would answer what the peer sends meanwhile by a reset.
    pub(crate) fn close_all(&mut self, service: &mut S, reactor: &mut Reactor) {
        for place in 0..self.slab.places() {
            let Some(token) = self.slab.by_place(place).map(|connection| connection.token) else { continue };
            let Some(mut connection) = self.slab.take(token) else { continue };
            self.flush(&mut connection);
            self.send_pending(&mut connection);
            self.end_transport(&mut connection);
            connection.stream.finish();
            connection.life = Life::Dead;
            self.settle(service, reactor, connection);
        }
    }

    /// A place for a new connection, which the first [`ConnectionTable::settle`] fills.
    pub(crate) fn connect(
        &mut self,
        reactor: &mut Reactor,
        stream: Stream,
        id: ConnectionId,
    ) -> Option<Box<Connection<S::Connection>>> {
        let token = self.slab.reserve(id);
        if reactor.add(token, &stream).is_err() {
            self.slab.release(token, id);
            return None;
        }
        Some(Box::new(Connection::new(id, token, stream, self.now_s)))
    }
}
