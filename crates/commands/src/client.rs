//! The private state of one connection that commands read and change. The session owns it; nobody else sees it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_node::ClientShared;
use almandine_resp::ProtocolVersion;

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every command is answered.
    #[default]
    On,
    /// None is.
    Off,
    /// CLIENT REPLY SKIP was just executed: its own silence is still to come.
    SkipNext,
    /// The command being executed is not answered.
    Skip,
}

/// One connection's state.
#[derive(Debug)]
pub struct Client {
    /// What other threads see.
    pub shared: Arc<ClientShared>,
    /// Selected database.
    pub db: u16,
    /// RESP version of the replies.
    pub version: ProtocolVersion,
    /// Whether the client may run commands beyond AUTH, HELLO, QUIT and RESET.
    pub authenticated: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// Set by QUIT and by a client that kills itself: close when the replies so far are sent.
    pub closing: bool,
    /// Runs MONITOR.
    pub monitor: bool,
    /// CLIENT NO-TOUCH: reads do not refresh a key's access time.
    pub no_touch: bool,
}

impl Client {
    /// A fresh connection.
    #[must_use]
    pub fn new(shared: Arc<ClientShared>, authenticated: bool) -> Self {
        Self {
            shared,
            db: 0,
            version: ProtocolVersion::Resp2,
            authenticated,
            reply_mode: ReplyMode::On,
            closing: false,
            monitor: false,
            no_touch: false,
        }
    }

    /// Selects a database that exists.
    pub fn select(&mut self, db: u16) {
        self.db = db;
        self.shared.activity.db.store(db, Relaxed);
    }

    /// Switches the protocol.
    pub fn speak(&mut self, version: ProtocolVersion) {
        self.version = version;
        self.shared.activity.protocol.store(if version == ProtocolVersion::Resp3 { 3 } else { 2 }, Relaxed);
    }

    /// Whether every command must be looked at one by one: for authentication, silence, or its end.
    #[inline]
    #[must_use]
    pub fn needs_care(&self) -> bool {
        !self.authenticated || self.reply_mode != ReplyMode::On || self.closing
    }
}
