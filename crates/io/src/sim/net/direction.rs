//! The ends of a connection, and a direction between them: what is under way, and what has arrived and is not received.

use std::collections::VecDeque;

/// One end of a connection: 0 of the peer that connected, 1 of the one that accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId {
    pub(super) connection: u64,
    pub(super) end: usize,
}

impl EndId {
    pub(super) fn other(self) -> Self {
        Self { end: 1 - self.end, ..self }
    }

    /// For the trace.
    pub(super) fn number(self) -> u64 {
        self.connection * 2 + self.end as u64
    }
}

/// What travels.
#[derive(Debug)]
pub(super) enum Parcel {
    Bytes(Vec<u8>),
    /// The sender sends no more.
    End,
    /// The connection is broken.
    Reset,
}

#[derive(Debug)]
pub(super) struct Direction {
    /// In the order of sending, which is that of arrival.
    wire: VecDeque<(u64, Parcel)>,
    wire_bytes: usize,
    last_ns: u64,
    /// An event will take what arrives first off the wire.
    pub(super) moves: bool,
    arrived: VecDeque<Vec<u8>>,
    arrived_bytes: usize,
    /// Bytes of the first piece that are received.
    received: usize,
    pub(super) window: usize,
    /// The sender has ended it.
    pub(super) finished: bool,
    /// Its end has arrived.
    pub(super) ended: bool,
}

impl Direction {
    pub(super) fn new(window: usize) -> Self {
        Self {
            wire: VecDeque::new(),
            wire_bytes: 0,
            last_ns: 0,
            moves: false,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            received: 0,
            window,
            finished: false,
            ended: false,
        }
    }

    /// Bytes that a send may still add.
    pub(super) fn room(&self) -> usize {
        self.window.saturating_sub(self.wire_bytes + self.arrived_bytes)
    }

    /// Whether nothing is under way or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.room() == self.window
    }

    /// Whether there is room for enough that a sender is told of it.
    pub(super) fn is_writable(&self) -> bool {
        self.room() * 3 >= self.window
    }

    /// Sends a parcel that takes until this time, or as long as those before it.
    pub(super) fn put(&mut self, at_ns: u64, parcel: Parcel) {
        if let Parcel::Bytes(bytes) = &parcel {
            self.wire_bytes += bytes.len();
        }
        self.last_ns = self.last_ns.max(at_ns);
        self.wire.push_back((self.last_ns, parcel));
    }

    /// What is sent arrives no earlier.
    pub(super) fn not_before(&mut self, at_ns: u64) {
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// When the next parcel arrives.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.wire.front().map(|(at_ns, _)| *at_ns)
    }

    /// Takes a parcel that has arrived off the wire.
    pub(super) fn arrive(&mut self, now_ns: u64) -> Option<Parcel> {
        let (_, parcel) = self.wire.pop_front_if(|(at_ns, _)| *at_ns <= now_ns)?;
        if let Parcel::Bytes(bytes) = &parcel {
            self.wire_bytes -= bytes.len();
        }
        Some(parcel)
    }

    /// Keeps what has arrived until it is received.
    pub(super) fn keep(&mut self, bytes: Vec<u8>) {
        self.arrived_bytes += bytes.len();
        self.arrived.push_back(bytes);
    }

    pub(super) fn parcels(&self) -> usize {
        self.wire.len()
    }

    /// The last parcels are lost on their way.
    pub(super) fn lose(&mut self, parcels: usize) {
        for _ in 0..parcels {
            if let Some((_, Parcel::Bytes(bytes))) = self.wire.pop_back() {
                self.wire_bytes -= bytes.len();
            }
        }
    }

    /// Bytes that can be received.
    pub(super) fn arrived_bytes(&self) -> usize {
        self.arrived_bytes
    }

    /// Receives into a buffer.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < buffer.len()
            && let Some(piece) = self.arrived.front()
        {
            let rest = &piece[self.received..];
            let count = rest.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&rest[..count]);
            filled += count;
            self.received += count;
            if self.received == piece.len() {
                self.arrived.pop_front();
                self.received = 0;
            }
        }
        self.arrived_bytes -= filled;
        filled
    }

    /// Nothing is received any more.
    pub(super) fn drop_arrived(&mut self) {
        self.arrived.clear();
        (self.arrived_bytes, self.received) = (0, 0);
    }
}
