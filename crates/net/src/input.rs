//! A connection's input: it goes to the service, and what the service answers goes to the peer.
//!
//! A chunk is given to the service where the reactor received it. Only what the service leaves over is copied. When the next chunk
//! comes, no more of it is copied than is needed to complete what was left over; after that the chunk itself is used again. So
//! a pipeline that spans many chunks costs one short copy per chunk, and a large value is copied once, into a buffer of its size.

use std::sync::atomic::Ordering;

use almandine_io::reactor::{End, Token, Unsent};

use crate::connection::{Connection, Life};
use crate::connection_table::{ConnectionTable, SPARE_BYTES_MAX};
use crate::kept::KeptInput;
use crate::service::{Next, Service};

/// What is copied to complete a command of unknown length.
const BRIDGE_BYTES: usize = 512;
/// Output that is sent before a pipeline is executed further.
const FLUSH_BYTES: usize = 64 * 1024;
/// A peer that announces a large value gets a buffer of at most this many times what it has sent. So an honest one's value moves
/// to a larger buffer twice, while it is small; and one that only announces costs nothing.
const RESERVE_RATIO: usize = 256;

impl<S: Service> ConnectionTable<S> {
    /// Data arrived.
    pub(crate) fn received(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, data: &mut [u8]) {
        self.counters().bytes_in.add(data.len());
        self.counters().reads.add(1);
        if connection.life != Life::Open {
            return;
        }
        if connection.coding.transport.is_some() {
            return self.received_encoded(service, connection, data);
        }
        connection.second = self.now_s;
        self.digest(service, connection, data);
    }

    /// Executes a chunk, after what was left over before it, and keeps the rest.
    pub(crate) fn digest(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, chunk: &[u8]) {
        let mut position = 0;
        while connection.runs() && !connection.input.is_empty() && position < chunk.len() {
            position = self.bridge(service, connection, chunk, position);
        }
        if connection.runs() && position < chunk.len() {
            position += self.execute(service, connection, &chunk[position..]);
        }
        if connection.life == Life::Open && position < chunk.len() {
            self.keep(connection, &chunk[position..]);
        }
        self.deliver(connection);
        if connection.output.full {
            self.make_room_for_input(service, connection);
        }
    }

    /// A peer that does not read its replies has sent all that is kept of it, and may send more before it reads: what came
    /// first is executed nevertheless, as long as no more than that is kept of the replies.
    #[cold]
    fn make_room_for_input(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) {
        let unread_max = self.shared.limits.unread_bytes_max();
        while connection.life == Life::Open
            && !connection.paused
            && connection.output.holds == 0
            && connection.input.len() >= unread_max
            && connection.pending_bytes() < unread_max
            && !connection.streams()
        {
            connection.output.full = false;
            self.run_kept(service, connection);
            if !connection.output.full {
                break;
            }
        }
    }

    /// Completes what was left over with bytes of the chunk from `position` on and executes it. Returns the new position, which is
    /// at or before the end of what was copied.
    fn bridge(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, chunk: &[u8], position: usize) -> usize {
        let missing = connection.needed.saturating_sub(connection.input.len());
        let copied = if missing > 0 { missing } else { BRIDGE_BYTES }.min(chunk.len() - position);
        let end = position + copied;
        self.keep(connection, &chunk[position..end]);
        if connection.life != Life::Open || connection.input.len() < connection.needed {
            return end;
        }
        let left = self.execute_kept(service, connection);
        if left > end {
            return end;
        }
        // What is left over lies in the chunk whole: it is used from there.
        self.recycle_input(connection);
        end - left
    }

    /// Executes the kept input. Returns how much of it is left.
    fn execute_kept(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) -> usize {
        let mut kept = std::mem::take(&mut connection.input);
        let consumed = self.execute(service, connection, kept.unread());
        let left = kept.len() - consumed;
        if left == 0 {
            self.recycle(kept.into_buffer());
        } else if kept.capacity() > SPARE_BYTES_MAX && left.max(connection.needed) * 4 < kept.capacity() {
            let mut small = self.buffer();
            small.extend_from_slice(&kept.unread()[consumed..]);
            connection.input = KeptInput::new(small);
        } else {
            kept.consume(consumed);
            connection.input = kept;
        }
        left
    }

    /// Executes input as long as the service consumes and the connection runs. Returns how much was consumed.
    fn execute(&mut self, service: &mut S, connection: &mut Connection<S::Connection>, input: &[u8]) -> usize {
        let mut consumed = 0;
        while consumed < input.len() {
            let Some(session) = &mut connection.session else { break };
            let progress = service.receive(session, &input[consumed..], &mut self.scratch);
            debug_assert!(progress.consumed <= input.len() - consumed);
            consumed += progress.consumed;
            connection.needed = progress.needed;
            connection.output.holds += u32::from(progress.holds);
            match progress.next {
                Next::Continue => {}
                Next::Pause => connection.paused = true,
                Next::Await => (connection.paused, connection.awaits) = (true, true),
                Next::CloseAfterFlush => connection.life = Life::Closing,
                Next::Close => connection.life = Life::Dead,
                Next::CloseOverInput => self.close_over_input(connection),
            }
            if self.scratch.len() >= FLUSH_BYTES || self.scratch.has_stream() {
                self.deliver(connection);
                self.check_output(service, connection);
            }
            if progress.consumed == 0 || !connection.runs() {
                break;
            }
        }
        consumed
    }

    #[cold]
    fn close_over_input(&self, connection: &mut Connection<S::Connection>) {
        connection.life = Life::Dead;
        self.counters().closed_by.input_limit.add(1);
    }

    /// Appends to the kept input, within its limit.
    fn keep(&mut self, connection: &mut Connection<S::Connection>, bytes: &[u8]) {
        let len = connection.input.len() + bytes.len();
        if len > self.shared.limits.input_bytes_max.load(Ordering::Relaxed) {
            self.close_over_input(connection);
            return;
        }
        if connection.input.capacity() == 0 {
            connection.input = KeptInput::new(self.buffer());
        }
        if connection.input.would_grow(bytes.len()) && connection.needed >= len {
            let target = connection.needed.min(len.saturating_mul(RESERVE_RATIO)).max(len);
            connection.input.reserve_exact(target - connection.input.len());
        }
        connection.input.extend(bytes);
    }

    /// Executes what was kept while the connection did not run.
    pub(crate) fn run_kept(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) {
        if connection.runs() && connection.has_input() {
            self.execute_kept(service, connection);
            self.deliver(connection);
        }
    }

    /// The kernel takes output again.
    pub(crate) fn writable(&mut self, service: &mut S, connection: &mut Connection<S::Connection>) {
        connection.output.awaits_writable = false;
        let before = connection.pending_bytes();
        self.send_pending(connection);
        let pending = connection.pending_bytes();
        if pending < before && connection.life == Life::Closing {
            connection.second = self.now_s;
        }
        let bearable = self.shared.limits.output_pause_bytes.load(Ordering::Relaxed) / 2;
        if connection.output.full && pending <= bearable && !connection.streams() {
            connection.output.full = false;
            self.run_kept(service, connection);
        }
    }

    /// The kernel did not take what the outbox handed over.
    pub(crate) fn unsent(&mut self, connection: &mut Connection<S::Connection>, unsent: Unsent) {
        self.counters().bytes_out.subtract(unsent.rest.len());
        if unsent.broken {
            connection.life = Life::Dead;
            return;
        }
        debug_assert!(connection.output.pending.is_none());
        connection.keep_unsent(unsent.rest);
    }

    /// The peer sends no more. What it has sent is still answered, unless it waits for something that may never come.
    pub(crate) fn ended(&mut self, connection: &mut Connection<S::Connection>, end: End) {
        connection.ended = true;
        if end == End::Broken || (connection.paused && !connection.awaits) || connection.life == Life::Lingering {
            connection.life = Life::Dead;
        }
    }

    /// Executes and settles the connections that messages have touched.
    pub(crate) fn settle_listed(&mut self, service: &mut S, reactor: &mut almandine_io::reactor::Reactor) {
        let mut listed: Vec<Token> = std::mem::take(&mut self.listed);
        for token in listed.drain(..) {
            let Some(mut connection) = self.slab.take(token) else { continue };
            connection.listed = false;
            if !connection.output.awaits_writable {
                self.send_released(&mut connection);
            }
            self.run_kept(service, &mut connection);
            self.settle(service, reactor, connection);
        }
        self.listed = listed;
    }
}
