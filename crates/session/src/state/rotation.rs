//! The scripts of a worker that are suspended and hold nothing.

use std::collections::VecDeque;

use almandine_net::ConnectionId;

use crate::state::script_run::Suspended;

/// The scripts of a worker that are suspended and hold nothing.
#[derive(Default)]
pub(crate) struct Rotation {
    /// Each has its turn.
    scripts: VecDeque<Box<Suspended>>,
    /// The one that the running command has left: its connection is entered behind the batch.
    pub(crate) left: Option<Box<Suspended>>,
    /// Connections whose scripts have not begun.
    pub(crate) waiting: VecDeque<ConnectionId>,
    /// What first slices have taken in this part of the worker's round.
    pub(crate) spent_ns: u64,
    /// How many scripts of the node had been killed when all of these were last looked at.
    kills: u64,
}

impl Rotation {
    /// Whether there is anything to go on with.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.scripts.is_empty() && self.waiting.is_empty()
    }

    /// Enters a script as the last one.
    pub(crate) fn enter(&mut self, suspended: Box<Suspended>) {
        self.scripts.push_back(suspended);
    }

    /// The script whose turn it is: one that was killed, or the first one.
    pub(crate) fn next(&mut self, kills: u64) -> Option<Box<Suspended>> {
        if kills != self.kills {
            if let Some(killed) = self.scripts.iter().position(|suspended| suspended.run.is_killed()) {
                return self.scripts.remove(killed);
            }
            self.kills = kills;
        }
        self.scripts.pop_front()
    }

    /// Takes the script of a connection out.
    pub(crate) fn take(&mut self, connection: ConnectionId) -> Option<Box<Suspended>> {
        let at =
            self.scripts.iter().position(|suspended| suspended.connection == Some(connection) && suspended.orphan.is_none())?;
        self.scripts.remove(at)
    }
}
