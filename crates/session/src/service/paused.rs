//! Connections that wait for the end of a pause (CLIENT PAUSE), in the order in which they began to.

use std::collections::BTreeMap;

use almandine_base::steps;
use almandine_net::ConnectionId;

/// Connections that wait. One of many leaves in O(log n), for all of them may vanish at once.
#[derive(Debug, Default)]
pub(crate) struct Paused {
    waiting: BTreeMap<u64, ConnectionId>,
    /// How many have ever waited.
    count: u64,
}

impl Paused {
    /// A connection begins to wait; `place` is the one that it had last. False if it waits already.
    pub(crate) fn enter(&mut self, place: &mut Option<u64>, id: ConnectionId) -> bool {
        if place.is_some_and(|place| self.waiting.contains_key(&place)) {
            return false;
        }
        self.count += 1;
        self.waiting.insert(self.count, id);
        *place = Some(self.count);
        true
    }

    /// A connection is gone. Whether it still waited.
    pub(crate) fn leave(&mut self, place: Option<u64>) -> bool {
        steps::take(1);
        place.is_some_and(|place| self.waiting.remove(&place).is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The pause is over: all go on.
    pub(crate) fn take(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_on_in_their_order_without_those_that_are_gone() {
        let mut paused = Paused::default();
        let mut places = [None; 3];
        for (place, id) in places.iter_mut().zip([7, 5, 6]) {
            assert!(paused.enter(place, id) && !paused.enter(place, id));
        }
        assert!(paused.leave(places[1]) && !paused.leave(places[1]) && !paused.leave(None));
        assert_eq!(paused.take(), [7, 6]);
        assert!(paused.is_empty() && !paused.leave(places[0]) && paused.enter(&mut places[0], 7));
    }
}
