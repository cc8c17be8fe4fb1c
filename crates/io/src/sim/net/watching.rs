//! What waits for a reactor.

use std::collections::VecDeque;

use super::direction::EndId;
use crate::sim::turn::{Condition, Turn};

/// One reactor, as the network knows it.
pub(super) struct Watching {
    pub(super) condition: Condition,
    /// Its thread waits for the condition.
    pub(super) waits: bool,
    /// It was woken and has not waited since.
    pub(super) woken: bool,
    /// Ends at which something may have happened.
    pub(super) ready: VecDeque<EndId>,
    /// Listeners at which connections wait.
    pub(super) accepts: VecDeque<u64>,
}

impl Watching {
    pub(super) fn new(condition: Condition) -> Self {
        Self { condition, waits: false, woken: false, ready: VecDeque::new(), accepts: VecDeque::new() }
    }

    pub(super) fn notify(&mut self, turn: &Turn) {
        if std::mem::take(&mut self.waits) {
            turn.notify_all(self.condition);
        }
    }

    pub(super) fn call_to_accept(&mut self, listener: u64, turn: &Turn) {
        if !self.accepts.contains(&listener) {
            self.accepts.push_back(listener);
        }
        self.notify(turn);
    }

    pub(super) fn has_anything(&self) -> bool {
        self.woken || !self.ready.is_empty() || !self.accepts.is_empty()
    }
}
