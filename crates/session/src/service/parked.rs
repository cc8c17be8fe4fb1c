//! Connections whose output waits for the operation log: they, and no thread.
//!
//! The output of a round waits until the log has all that was done and seen until its end, or, of a round that has only looked at
//! keys which it has named, the units of work that have changed these ([`crate::run::seen`]). They are kept in the order of their
//! seals.

use std::collections::BTreeMap;

use almandine_base::{step, steps};
use almandine_handler::Context;
use almandine_instance::LogSeal;
use almandine_net::{ConnectionId, Control};

use crate::state::connection::Connection;

/// Connections that wait before the log is asked while the round goes on: each group costs its writer a wake-up, a write and a
/// wake-up of each worker, and answers are read with the next round.
const UNSAID_MAX: usize = 16;
/// Connections of one seal for which memory is kept.
const CONNECTIONS_KEPT: usize = 1 << 12;

/// See the module. A connection that is gone stays here until its turn.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// In the order of their epochs: what has only looked may wait for less than what came before it.
    waiting: BTreeMap<(u64, bool), Vec<ConnectionId>>,
    /// Memory of the last ones that went on.
    spare: Vec<ConnectionId>,
    /// Those that wait since the log was asked for last.
    unsaid: usize,
}

impl Parked {
    /// Whether what a connection has just put out has to wait. Then it is held once, and released here. `seen`: the greatest number
    /// of a unit of work that it may depend on, where that is known. `heard`: breaks that this worker has heard of.
    #[cold]
    pub(crate) fn wait(&mut self, id: ConnectionId, context: &Context, seen: Option<u64>, heard: u64) -> bool {
        let seal = step!(HoldReplies, context.instance.persistence.log.seal(seen, heard), else None);
        if let Some(seal) = seal {
            self.insert(seal, id);
            self.unsaid += 1;
            if self.unsaid == UNSAID_MAX {
                self.round_ends(context);
            }
        }
        seal.is_some()
    }

    /// Has the log written what connections wait for since it was asked for last.
    pub(crate) fn round_ends(&mut self, context: &Context) {
        if std::mem::take(&mut self.unsaid) > 0
            && let Some((key, _)) = self.waiting.last_key_value()
        {
            context.instance.persistence.log.urge(seal(key));
        }
    }

    fn insert(&mut self, LogSeal { epoch, durable }: LogSeal, id: ConnectionId) {
        self.waiting.entry((epoch, durable)).or_insert_with(|| std::mem::take(&mut self.spare)).push(id);
    }

    /// Takes those of the first epoch, if that is reached.
    fn next(&mut self, has_reached: impl Fn(LogSeal) -> bool) -> Option<Vec<ConnectionId>> {
        let first = self.waiting.first_entry().filter(|first| has_reached(seal(first.key())))?;
        Some(first.remove())
    }

    /// More is written or durable.
    pub(crate) fn go_on(&mut self, context: &Context, control: &mut dyn Control<Connection>) {
        let log = &context.instance.persistence.log;
        while let Some(mut connections) = self.next(|seal| log.has_reached(seal)) {
            connections.drain(..).for_each(|id| {
                steps::take(1);
                control.release(id);
            });
            connections.shrink_to(CONNECTIONS_KEPT);
            self.spare = connections;
        }
        if let Some((key, _)) = self.waiting.first_key_value() {
            log.urge(seal(key));
        }
    }

    /// The log is broken and given up: what became of what they asked for is not known. From now on writes are refused in each
    /// round, until the log goes on.
    pub(crate) fn close(&mut self, control: &mut dyn Control<Connection>) {
        std::mem::take(&mut self.waiting).into_values().flatten().for_each(|id| {
            control.kill(id, false);
        });
    }
}

fn seal(&(epoch, durable): &(u64, bool)) -> LogSeal {
    LogSeal { epoch, durable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_on_by_epochs_and_within_one_as_they_came() {
        let mut parked = Parked::default();
        for id in 0..100 {
            // Each second one has only looked, and waits for less.
            let epoch = if id % 2 == 0 { 9 } else { id * 7 % 9 };
            parked.insert(LogSeal { epoch, durable: true }, id);
        }
        assert!(parked.next(|seal| seal.epoch == 1).is_none(), "none overtakes the first epoch");
        for epoch in 0..=9 {
            assert!(parked.next(|seal| seal.epoch < epoch).is_none());
            let went_on = parked.next(|seal| seal.epoch <= epoch && seal.durable).unwrap();
            assert!(went_on.is_sorted() && went_on.iter().all(|id| id % 2 == u64::from(epoch != 9)), "{epoch} {went_on:?}");
            assert_eq!(went_on.len(), if epoch == 9 { 50 } else { went_on.iter().filter(|&&id| id * 7 % 9 == epoch).count() });
        }
        assert!(parked.next(|_| true).is_none());
    }
}
