//! The interface between the network and what serves it.
//!
//! A service belongs to one worker and is called by that worker's thread only, one call at a time. It never waits: an answer
//! that is not ready is a [`Next::Pause`] now and a [`Control::resume`] later.

use almandine_base::Output;
use almandine_io::socket::Address;
use almandine_io::storage::{ReadDone, ReadRequest};

/// Identifies a connection for the life of the process; later connections have larger ids.
pub type ConnectionId = u64;

/// Where a connection comes from.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's address; for a Unix socket the path of the listener.
    pub remote: Address,
    /// The address that it connected to.
    pub local: Address,
    /// The worker that serves it; its mailbox reaches the connection.
    pub worker: usize,
    /// The number of the file descriptor.
    pub descriptor: i32,
    /// Names that its transport has proven it to have; the first of them that is a user's counts.
    pub names: Vec<Box<str>>,
}

/// What a service did with its input.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that will not be seen again.
    pub consumed: usize,
    /// Bytes, counted from the first that is not consumed, that the next command is known to need; zero when unknown. The
    /// service is not called again before they are there.
    pub needed: usize,
    /// How to go on.
    pub next: Next,
    /// What the connection has put out is kept until [`Control::release`], and no more input is executed before.
    pub holds: bool,
}

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Receives on.
    Continue,
    /// Closes when the output has been sent; input is ignored from now on.
    CloseAfterFlush,
    /// Closes at once.
    Close,
    /// Closes at once, and counts as closed for its input: more of it waits to be executed than
    /// [`Limits::input_bytes_max`](crate::Limits).
    CloseOverInput,
    /// Executes no more input until [`Control::resume`]. The end of the stream still closes the connection.
    Pause,
    /// As [`Next::Pause`], for something that is sure to come soon, as a read of a device: a peer that has ended its direction
    /// still gets its answers.
    Await,
}

/// What a connection holds of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes that any connection takes; zero once it is gone.
    pub fixed: usize,
    /// Bytes reserved for input that is not executed.
    pub input: usize,
    /// Bytes of that input.
    pub input_used: usize,
    /// Bytes of output that the peer has not taken.
    pub pending: usize,
    /// Pieces that these lie in.
    pub outputs: usize,
    /// Memory for them, without values that are shared with the service.
    pub output: usize,
    /// Bytes of those values.
    pub attached: usize,
    /// What the service keeps for it.
    pub held: Held,
}

impl Buffers {
    /// All of it. Values that are shared count as if they were the connection's alone.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.fixed + self.input + self.output + self.attached + self.held.bytes
    }
}

/// What a service keeps for a connection beside the connection itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes.
    pub bytes: usize,
    /// Whether the connection is not closed for what it holds.
    pub protected: bool,
}

/// Which output limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    /// Ordinary clients, and those that run MONITOR.
    Normal,
    /// Replicas.
    Replica,
    /// Clients in subscriber mode.
    Subscriber,
    /// Clients that have not authenticated: they get a few replies, and no memory for replies that they do not read.
    Unauthenticated,
}

/// Serves the connections of one worker.
///
/// Output is bounded in two ways. A connection that does not read the replies to its own commands is not executed further. What is
/// written to it by [`Control::connection`] it has not asked for, so nothing holds that up: a limit closes the connection.
pub trait Service: Sized {
    /// The state of one connection.
    type Connection;
    /// What other threads send to this worker.
    type Message: Send + 'static;

    /// A connection was made, and the handshake of its transport is over. `None` refuses it: `out` is sent, then it is closed.
    fn open(&mut self, id: ConnectionId, peer: &Peer, out: &mut Output) -> Option<Self::Connection>;

    /// Input arrived. `input` starts at the first byte that was not consumed.
    ///
    /// The call may return while complete commands remain; it is made again at once as long as it consumes something. To bound
    /// the output of a long pipeline it should return when `out` has grown large.
    fn receive(&mut self, connection: &mut Self::Connection, input: &[u8], out: &mut Output) -> Progress;

    /// The connection is gone.
    fn close(&mut self, connection: Self::Connection);

    /// A message arrived.
    fn message(&mut self, message: Self::Message, control: &mut dyn Control<Self::Connection>);

    /// All messages that were there have arrived: what the service has gathered of them is to be written now.
    fn messages_end(&mut self, control: &mut dyn Control<Self::Connection>) {
        let _ = control;
    }

    /// About every 100 ms. `now_ms` is monotonic.
    fn tick(&mut self, now_ms: u64, control: &mut dyn Control<Self::Connection>);

    /// Whether nothing is to be done with a tick until an event comes. Asked with each tick of a worker without events; then the
    /// ticks are rare until one comes.
    fn may_rest(&self) -> bool {
        false
    }

    /// The worker rests from now on, or does not any more. Told before the tick of the end of a rest, which is before its events.
    fn set_rests(&mut self, rests: bool) {
        let _ = rests;
    }

    /// When [`Service::time_is_up`] must be called next, in monotonic milliseconds; none: not at all. Asked once per round.
    fn deadline_ms(&self) -> Option<u64> {
        None
    }

    /// The deadline has come.
    fn time_is_up(&mut self, now_ms: u64, control: &mut dyn Control<Self::Connection>) {
        let _ = (now_ms, control);
    }

    /// Hands over the reads that the last calls asked for, by appending them. Called after every event (a call of any of the
    /// methods above, or of [`Service::reads_done`]), before the worker waits.
    fn take_reads(&mut self, requests: &mut Vec<ReadRequest>) {
        let _ = requests;
    }

    /// Reads have ended, well or not; the service takes them out. Their connections may be gone meanwhile; one that got
    /// [`Next::Pause`] or [`Next::Await`] may be resumed, or be given output.
    fn reads_done(&mut self, done: &mut Vec<ReadDone>, control: &mut dyn Control<Self::Connection>) {
        let _ = control;
        done.clear();
    }

    /// Whether there is work that waits for no event. Then the worker does not wait either, and [`Service::work`] does a part
    /// of it in each round.
    fn has_work(&self) -> bool {
        false
    }

    /// Whether some of the work is not to wait for the end of the round. Asked after each event, so it must be cheap.
    fn is_pressed(&self) -> bool {
        false
    }

    /// Does a part of the work that there is, a short one, since all connections wait for its end.
    fn work(&mut self, control: &mut dyn Control<Self::Connection>) {
        let _ = control;
    }

    /// The worker is about to wait: leave epochs, publish statistics. Called once per round, so it must be cheap.
    fn idle(&mut self);

    /// What the service keeps for a connection. Asked after each event of the connection, so it must be cheap.
    fn held(&self, connection: &Self::Connection) -> Held {
        let _ = connection;
        Held::default()
    }

    /// What a connection holds now; called when that has changed.
    fn note_buffers(&mut self, connection: &mut Self::Connection, buffers: Buffers) {
        let _ = (connection, buffers);
    }

    /// Which output limit applies to the connection now.
    fn output_class(&self, connection: &Self::Connection) -> OutputClass {
        let _ = connection;
        OutputClass::Normal
    }

    /// Whether the idle timeout does not apply now, as for subscribers. It never applies to paused connections.
    fn may_idle(&self, connection: &Self::Connection) -> bool {
        let _ = connection;
        false
    }
}

/// A worker's connections, as messages and ticks see them.
pub trait Control<C> {
    /// A connection, and an output whose bytes are sent to it. `None` when it is not (or no longer) here.
    fn connection(&mut self, id: ConnectionId) -> Option<(&mut C, &mut Output)>;

    /// Closes a connection, at once or after its output has been sent. Returns whether it was here.
    fn kill(&mut self, id: ConnectionId, after_flush: bool) -> bool;

    /// Ends a [`Next::Pause`] or [`Next::Await`]; [`Service::receive`] is called after the current round's events if there is
    /// input that was not consumed.
    fn resume(&mut self, id: ConnectionId);

    /// Keeps what is put out for a connection, from the last call of [`Control::connection`] on, until one more
    /// [`Control::release`]; it executes no input before.
    fn hold(&mut self, id: ConnectionId);

    /// Ends what [`Progress::holds`] or a [`Control::hold`] has begun: when none is left, what was put out is sent.
    fn release(&mut self, id: ConnectionId);

    /// Visits every connection of the worker.
    fn each(&mut self, visit: &mut dyn FnMut(ConnectionId, &mut C));
}
