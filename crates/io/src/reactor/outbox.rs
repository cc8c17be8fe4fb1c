//! The replies of one round on their way to the kernel.
//!
//! With epoll a reply is sent at once. With io_uring the small replies of a round are gathered in one arena and handed over
//! together with the next wait, so that a round costs one system call. Each is submitted as *send all of it now or tell me*: the
//! kernel completes it during the call, and is silent about success. So the arena is free again when the call returns, no
//! buffer is ever owned by the kernel in between, and a connection can be dropped at any time. What the kernel did not take
//! comes back as [`Unsent`].
//!
//! A connection has at most one submission per round; a second reply is joined to the first. Two would overtake each other
//! when the first does not fit. What is joined behind others' replies moves to the end of the arena, where it gets room for as much
//! again, so that many messages to many connections in turn are copied twice on average and not once for each that follows.

use std::io;

use super::event::Token;
use crate::socket::Stream;

/// Larger replies are sent at once by the caller's thread: the copy would cost more than the system call.
const QUEUED_BYTES_MAX: usize = 16 * 1024;

/// A round that gathers more than this sends directly.
const ARENA_BYTES_MAX: usize = 256 * 1024;

/// Names what a connection has queued in the current round. The default names nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticket {
    round: u32,
    index: u32,
}

/// Output that the kernel had no room for, or whose connection is broken.
#[derive(Debug)]
pub struct Unsent {
    /// Which connection.
    pub token: Token,
    /// What is left; empty when the connection is broken.
    pub rest: Vec<u8>,
    /// Whether the connection is broken.
    pub broken: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    gathers: bool,
    /// Never zero, so that a default ticket is never current.
    round: u32,
    arena: Vec<u8>,
    queued: Vec<QueuedSend>,
    unsent: Vec<Unsent>,
}

/// One queued send. It holds the stream so that the descriptor stays open until the kernel has seen it.
#[derive(Debug)]
pub(super) struct QueuedSend {
    /// `None` when the bytes were withdrawn.
    pub(super) stream: Option<Stream>,
    pub(super) token: Token,
    pub(super) start: usize,
    pub(super) len: usize,
    /// Bytes of the arena that are its own.
    room: usize,
}

impl Outbox {
    /// Sends everything at once.
    pub(super) fn direct() -> Self {
        Self { gathers: false, round: 1, arena: Vec::new(), queued: Vec::new(), unsent: Vec::new() }
    }

    /// Gathers small replies for [`crate::reactor::Reactor::wait`].
    pub(super) fn gathering() -> Self {
        Self { gathers: true, ..Self::direct() }
    }

    /// Whether [`Outbox::send`] is the right way for `len` more bytes. When it is not, too much would gather for one connection
    /// before the kernel had its say: the caller takes back what is queued and sends both itself.
    #[must_use]
    pub fn accepts(&self, ticket: &Ticket, len: usize) -> bool {
        ticket.round != self.round || self.queued.get(ticket.index as usize).is_some_and(|send| send.len + len <= QUEUED_BYTES_MAX)
    }

    /// Sends `bytes` now or with the next wait. Returns how many of them need no further care; with fewer than all, the caller
    /// keeps the rest and waits until the connection is writable.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, token: Token, stream: &Stream, bytes: &[u8], ticket: &mut Ticket) -> io::Result<usize> {
        let joins = ticket.round == self.round;
        if !joins && (!self.gathers || bytes.len() > QUEUED_BYTES_MAX || self.arena.len() > ARENA_BYTES_MAX) {
            return stream.send(bytes);
        }
        if joins {
            self.join(ticket, bytes);
        } else {
            let start = self.arena.len();
            self.arena.extend_from_slice(bytes);
            *ticket = Ticket { round: self.round, index: u32::try_from(self.queued.len()).unwrap_or(u32::MAX) };
            self.queued.push(QueuedSend { stream: Some(stream.clone()), token, start, len: bytes.len(), room: bytes.len() });
        }
        Ok(bytes.len())
    }

    /// Takes back what the connection has queued in this round, appending it to `into`.
    pub fn withdraw(&mut self, ticket: &mut Ticket, into: &mut Vec<u8>) {
        if ticket.round == self.round
            && let Some(send) = self.queued.get_mut(ticket.index as usize)
        {
            into.extend_from_slice(&self.arena[send.start..send.start + send.len]);
            send.stream = None;
        }
        *ticket = Ticket::default();
    }

    /// Output that came back from the last wait.
    pub fn take_unsent(&mut self) -> Option<Unsent> {
        self.unsent.pop()
    }

    /// Whether nothing waits to be handed over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    pub(super) fn queued(&self) -> &[QueuedSend] {
        &self.queued
    }

    pub(super) fn bytes(&self, send: &QueuedSend) -> &[u8] {
        &self.arena[send.start..send.start + send.len]
    }

    /// The kernel took only `sent` bytes of an send.
    pub(super) fn fell_short(&mut self, index: usize, sent: usize, broken: bool) {
        let Some(send) = self.queued.get(index) else { return };
        let rest = if broken { Vec::new() } else { self.bytes(send)[sent.min(send.len)..].to_vec() };
        if broken || !rest.is_empty() {
            self.unsent.push(Unsent { token: send.token, rest, broken });
        }
    }

    /// Everything was handed over.
    pub(super) fn next_round(&mut self) {
        self.queued.clear();
        self.arena.clear();
        if self.arena.capacity() > 4 * ARENA_BYTES_MAX {
            self.arena = Vec::new();
        }
        self.round = self.round.checked_add(1).unwrap_or(1);
    }

    fn join(&mut self, ticket: &Ticket, bytes: &[u8]) {
        let end = self.arena.len();
        let Some(send) = self.queued.get_mut(ticket.index as usize) else { return };
        let len = send.len + bytes.len();
        if send.start + send.room == end {
            // The last one of the arena.
            self.arena.truncate(send.start + send.len);
            self.arena.extend_from_slice(bytes);
            send.room = len;
        } else if len <= send.room {
            self.arena[send.start + send.len..send.start + len].copy_from_slice(bytes);
        } else {
            self.arena.extend_from_within(send.start..send.start + send.len);
            self.arena.extend_from_slice(bytes);
            (send.start, send.room) = (end, 2 * len);
            self.arena.resize(end + send.room, 0);
        }
        send.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_joined_in_turns_stays_in_order_and_is_copied_seldom() {
        const CONNECTIONS: u32 = 20;
        const MESSAGES: usize = 64;
        let mut outbox = Outbox::gathering();
        let streams: Vec<Stream> = (0..CONNECTIONS).map(|_| Stream::new(UnixStream::pair().unwrap().0.into())).collect();
        let mut tickets = [Ticket::default(); CONNECTIONS as usize];
        let message = |connection: u32, number: usize| format!("message {number} to {connection};").into_bytes();
        for round in 1..3 {
            for number in 0..MESSAGES {
                for (connection, (stream, ticket)) in (0..).zip(streams.iter().zip(&mut tickets)) {
                    let (token, bytes) = (Token { place: connection, generation: round }, message(connection, number));
                    assert!(outbox.accepts(ticket, bytes.len()));
                    assert_eq!(outbox.send(token, stream, &bytes, ticket).unwrap(), bytes.len());
                }
            }
            assert_eq!(outbox.queued().len(), CONNECTIONS as usize, "one submission each");
            let mut sent = 0;
            for send in outbox.queued() {
                let expected: Vec<u8> = (0..MESSAGES).flat_map(|number| message(send.token.place, number)).collect();
                assert_eq!(outbox.bytes(send), expected);
                sent += send.len;
            }
            assert!(outbox.arena.len() < 6 * sent, "{} bytes of arena for {sent}", outbox.arena.len());
            outbox.next_round();
        }
    }
}
