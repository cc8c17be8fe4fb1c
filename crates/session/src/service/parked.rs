//! Connections whose output waits for the operation log: they, and no thread.
//!
//! The output of a round waits until the log has all that was done and seen until its end. Seals ascend, so the connections go on
//! in the order in which they began to wait.

use std::collections::VecDeque;

use almandine_base::step;
use almandine_handler::Context;
use almandine_instance::LogSeal;
use almandine_net::{ConnectionId, Control};

use crate::state::connection::Connection;

/// See the module. A connection that is gone stays here until its turn.
#[derive(Debug, Default)]
pub(crate) struct Parked(VecDeque<(LogSeal, ConnectionId)>);

impl Parked {
    /// Whether what a connection has just put out has to wait. Then it is held once, and released here.
    #[cold]
    pub(crate) fn wait(&mut self, id: ConnectionId, context: &Context) -> bool {
        let Some(seal) = context.instance.persistence.log.seal() else { return false };
        step!(HoldReplies, self.0.push_back((seal, id)), else return false);
        true
    }

    /// More is written or durable.
    pub(crate) fn go_on(&mut self, context: &Context, control: &mut dyn Control<Connection>) {
        let log = &context.instance.persistence.log;
        while let Some((_, id)) = self.0.pop_front_if(|(seal, _)| log.has_reached(*seal)) {
            control.release(id);
        }
        if let Some((seal, _)) = self.0.front() {
            log.urge(*seal);
        }
    }

    /// The log is broken: what became of what they asked for is not known.
    pub(crate) fn close(&mut self, control: &mut dyn Control<Connection>) {
        self.0.drain(..).for_each(|(_, id)| {
            control.kill(id, false);
        });
    }
}
