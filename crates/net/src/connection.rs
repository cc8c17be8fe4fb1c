//! One connection: its identity, what is left of its input and output, and the state of its life.

use almandine_io::reactor::{Interest, Ticket, Token};
use almandine_io::socket::Stream;

use crate::kept::KeptInput;
use crate::output::Pending;
use crate::service::{Buffers, ConnectionId, Held, Peer};
use crate::transport::Transport;

/// A paused connection's input is read ahead up to this many bytes, so that the end of the stream is noticed. What comes behind
/// stays in the kernel; its window bounds how far ahead an end can be seen.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// The parts of a connection's life, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Input is executed.
    Open,
    /// Output is sent, input is ignored.
    Closing,
    /// The service has forgotten it and our direction is ended; what the peer still sends is dropped, because closing on top of it
    /// would reset the connection and could destroy the last reply on its way.
    Lingering,
    /// To be removed.
    Dead,
}

/// Output on its way to the peer, and what it makes the connection wait for.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// What the outbox holds for it in this round.
    pub(crate) ticket: Ticket,
    /// What the kernel has not taken.
    pub(crate) pending: Option<Box<Pending>>,
    /// Bytes that messages have brought since nothing was pending.
    pub(crate) pushed: usize,
    /// Back-pressure: too much is pending, so no input is executed until the peer has taken some of it.
    pub(crate) full: bool,
    /// Second in which the peer has last taken any of what is pending, or in which it became too much.
    pub(crate) taken_s: u64,
    /// A writable event is asked for.
    pub(crate) awaits_writable: bool,
    /// How many things must happen before any of it is sent.
    pub(crate) holds: u32,
}

/// What stands between the wire and the service.
pub(crate) struct Coding {
    /// None where the service sees what is on the wire.
    pub(crate) transport: Option<Box<dyn Transport>>,
    /// While the handshake of the transport is not over: what the service will be told of the peer.
    pub(crate) opening: Option<Box<Peer>>,
    /// Memory of the connection beside its buffers.
    pub(crate) bytes: usize,
}

pub(crate) struct Connection<C> {
    pub(crate) id: ConnectionId,
    pub(crate) token: Token,
    pub(crate) stream: Stream,
    /// The service's part; `None` before the handshake is over, and once the service has closed it.
    pub(crate) session: Option<C>,
    /// Input that is not consumed; without memory when it is empty.
    pub(crate) input: KeptInput,
    /// Length of `input` below which the service need not be called.
    pub(crate) needed: usize,
    pub(crate) output: Outgoing,
    pub(crate) coding: Coding,
    pub(crate) life: Life,
    /// The service asked for it.
    pub(crate) paused: bool,
    /// While paused: what it waits for is sure to come, so the end of the stream does not close it before.
    pub(crate) awaits: bool,
    /// The peer sends nothing any more.
    pub(crate) ended: bool,
    /// It is on the worker's list of connections to run or to settle.
    pub(crate) listed: bool,
    /// What the reactor watches.
    pub(crate) interest: Interest,
    /// Second of the last input; when closing, of the last output that the peer took; when lingering, of the end.
    pub(crate) second: u64,
    /// What the counters hold for it.
    pub(crate) counted: Buffers,
}

impl<C> Connection<C> {
    pub(crate) fn new(id: ConnectionId, token: Token, stream: Stream, second: u64) -> Self {
        Self {
            id,
            token,
            stream,
            session: None,
            input: KeptInput::default(),
            needed: 0,
            output: Outgoing::default(),
            coding: Coding { transport: None, opening: None, bytes: size_of::<Self>() },
            life: Life::Open,
            paused: false,
            awaits: false,
            ended: false,
            listed: false,
            interest: Interest::Data,
            second,
            counted: Buffers::default(),
        }
    }

    /// Whether input may be executed now.
    pub(crate) fn runs(&self) -> bool {
        self.life == Life::Open && !self.paused && !self.output.full && self.output.holds == 0
    }

    /// Whether there is anything to execute once it runs.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_empty() && self.input.len() >= self.needed
    }

    /// Whether the peer must read before anything goes on: it has sent as much as is kept, and left as much unread.
    pub(crate) fn is_choked(&self, unread_max: usize) -> bool {
        self.life == Life::Open && !self.ended && self.output.full && self.input.len() >= unread_max
    }

    /// Output that the kernel has not taken.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.output.pending.as_ref().map_or(0, |pending| pending.len())
    }

    /// What it holds, as it and the service know it.
    pub(crate) fn buffers(&self, held: Held) -> Buffers {
        let mut buffers = Buffers {
            fixed: self.coding.bytes,
            input: self.input.capacity(),
            input_used: self.input.len(),
            held,
            ..Buffers::default()
        };
        if let Some(pending) = &self.output.pending {
            (buffers.pending, buffers.outputs) = (pending.len(), pending.outputs());
            (buffers.output, buffers.attached) = (pending.memory_bytes(), pending.attached_bytes());
        }
        buffers
    }

    /// Output that the outbox took and the kernel did not comes before anything that is pending.
    pub(crate) fn keep_unsent(&mut self, bytes: Vec<u8>) {
        let pending = self.output.pending.get_or_insert_default();
        if self.coding.transport.is_some() { pending.push_encoded(&bytes) } else { pending.push_bytes(bytes) }
    }

    /// Whether a reply is still being made.
    pub(crate) fn streams(&self) -> bool {
        self.output.pending.as_ref().is_some_and(|pending| pending.has_stream())
    }

    /// What the reactor should watch. Of a peer that does not read its replies, up to `unread_max` bytes are kept: many clients
    /// send all of a pipeline before they read the first reply, and would wait for ever if we did not take it.
    pub(crate) fn wanted(&self, unread_max: usize) -> Interest {
        match self.life {
            Life::Lingering => Interest::Data,
            Life::Closing | Life::Dead => Interest::Nothing,
            Life::Open if self.ended => Interest::Nothing,
            Life::Open if self.is_choked(unread_max) => Interest::Nothing,
            Life::Open if self.output.holds > 0 && self.input.len() >= READ_AHEAD_BYTES => Interest::Nothing,
            Life::Open if self.paused && self.input.len() >= READ_AHEAD_BYTES => {
                if self.awaits {
                    Interest::Nothing
                } else {
                    Interest::HangUp
                }
            }
            Life::Open => Interest::Data,
        }
    }
}
