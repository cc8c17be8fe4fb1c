//! Connections whose output waits for the operation log: they, and no thread.
//!
//! The output of a round waits until the log has all that was done and seen until its end, or, of a round that has only looked at
//! keys which it has named, the units of work that have changed these ([`crate::run::seen`]). They are kept in the order of their
//! seals.

use std::collections::VecDeque;

use almandine_base::step;
use almandine_handler::Context;
use almandine_instance::LogSeal;
use almandine_net::{ConnectionId, Control};

use crate::state::connection::Connection;

/// See the module. A connection that is gone stays here until its turn.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    waiting: VecDeque<(LogSeal, ConnectionId)>,
    /// Breaks of the log that this worker has heard of.
    heard_breaks: u64,
}

impl Parked {
    /// Whether what a connection has just put out has to wait. Then it is held once, and released here. `seen`: the greatest number
    /// of a unit of work that it may depend on, where that is known.
    #[cold]
    pub(crate) fn wait(&mut self, id: ConnectionId, context: &Context, seen: Option<u64>) -> bool {
        let seal = step!(HoldReplies, context.instance.persistence.log.seal(seen, self.heard_breaks), else None);
        let Some(seal) = seal else { return false };
        // What has only looked may wait for less than what came before it.
        let place = self.waiting.partition_point(|(other, _)| other.epoch <= seal.epoch);
        self.waiting.insert(place, (seal, id));
        true
    }

    /// More is written or durable.
    pub(crate) fn go_on(&mut self, context: &Context, control: &mut dyn Control<Connection>) {
        let log = &context.instance.persistence.log;
        while let Some((_, id)) = self.waiting.pop_front_if(|(seal, _)| log.has_reached(*seal)) {
            control.release(id);
        }
        if let Some((seal, _)) = self.waiting.front() {
            log.urge(*seal);
        }
    }

    /// The log is broken: what became of what they asked for is not known. From now on writes are refused in each round, until the
    /// log goes on.
    pub(crate) fn close(&mut self, context: &Context, control: &mut dyn Control<Connection>) {
        self.heard_breaks = context.instance.persistence.log.breaks();
        self.waiting.drain(..).for_each(|(_, id)| {
            control.kill(id, false);
        });
    }
}
