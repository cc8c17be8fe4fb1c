//! The private state of one connection.

use std::sync::atomic::Ordering::Relaxed;

use almandine_call::{Client, Plan};
use almandine_net::ConnectionId;
use almandine_resp::{Limits, Parser};

use crate::cold::Waiting;

/// One connection: how far its input is parsed, and what its commands have set.
pub struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) parser: Parser,
    pub(crate) client: Client,
    /// Dense index of the last command; `u32::MAX` before the first.
    pub(crate) last_command: u32,
    /// The peer speaks another protocol: close without a further answer.
    pub(crate) hostile: bool,
    /// The batch stopped before a command that needs records from the device.
    pub(crate) parked: bool,
    /// What the device is asked for, while it is.
    pub(crate) waiting: Waiting,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, client: Client) -> Self {
        Self {
            id,
            parser: Parser::new(),
            client,
            last_command: u32::MAX,
            hostile: false,
            parked: false,
            waiting: Waiting::default(),
        }
    }

    /// What the parser accepts now.
    #[inline]
    pub(crate) fn limits(&self, bulk_bytes_max: usize) -> Limits {
        Limits { bulk_bytes_max, authenticated: self.client.authenticated, ..Limits::default() }
    }

    /// Lets CLIENT LIST show the command that is about to run and may itself be CLIENT LIST.
    pub(crate) fn announce(&self, plan: &Plan, now_ms: i64) {
        let activity = &self.client.shared.activity;
        activity.last_command.store(u32::from(plan.index), Relaxed);
        activity.at_ms.store(now_ms, Relaxed);
    }

    /// Forgets what the parser knows of bytes that will be given again.
    pub(crate) fn rewind(&mut self) {
        self.parser = Parser::new();
    }
}
