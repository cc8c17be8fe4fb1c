//! The private state of one connection: how far its input is parsed, its client, and what it waits for.

use almandine_handler::Client;
use almandine_keyspace::Stage;
use almandine_net::ConnectionId;
use almandine_resp::{Limits, Parser};

use crate::service::sizes::Size;

/// One connection: how far its input is parsed, and what its commands have set.
pub struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) parser: Parser,
    pub(crate) client: Client,
    /// Dense index of the last command; `u32::MAX` before the first.
    pub(crate) last_command: u32,
    /// What the device is asked for, while it is.
    pub(crate) waiting: Waiting,
    /// What is counted of its memory.
    pub(crate) size: Size,
    /// When its command gives up waiting for a key, in monotonic milliseconds.
    pub(crate) deadline_ms: Option<u64>,
    /// When it may get something though no key changes, in monotonic milliseconds.
    pub(crate) again_ms: Option<u64>,
    /// Its place among those that wait for the end of a pause, or had when it waited last.
    pub(crate) paused_at: Option<u64>,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, client: Client) -> Self {
        Self {
            id,
            parser: Parser::new(),
            client,
            last_command: u32::MAX,
            waiting: Waiting::default(),
            size: Size::default(),
            deadline_ms: None,
            again_ms: None,
            paused_at: None,
        }
    }

    /// What the parser accepts now.
    #[inline]
    pub(crate) fn limits(&self, bulk_bytes_max: usize) -> Limits {
        Limits { bulk_bytes_max, authenticated: self.client.access.is_admitted(), ..Limits::default() }
    }

    /// Forgets what the parser knows of bytes that will be given again.
    pub(crate) fn rewind(&mut self) {
        self.parser = Parser::new();
    }
}

/// What a connection waits for.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Records that have been read for the batch.
    pub(crate) stage: Stage,
    /// Addresses of records that it needs and that are not asked for yet.
    pub(crate) needed: Vec<u64>,
    /// Reads that have not ended.
    pub(crate) reads: usize,
    /// The batch was looked at before; it goes on with what has been read since.
    pub(crate) resumed: bool,
    /// Bytes of memory that large values were admitted with.
    pub(crate) room_bytes: u64,
    /// How often what it had was given up to make room for what the next command needs, which has not run yet.
    pub(crate) made_room: u32,
    /// Bytes of the buffers that it holds or waits for.
    pub(crate) buffer_bytes: usize,
}
