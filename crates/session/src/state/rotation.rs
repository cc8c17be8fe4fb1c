//! The scripts of a worker that are suspended and hold nothing.
//!
//! Each waits for its turn at a place in a row, and is found by its connection and by how others know it: neither a connection
//! that closes nor a script that is killed looks at those of the others.

use std::collections::{BTreeMap, HashMap, VecDeque};

use almandine_net::ConnectionId;

use crate::state::script_run::Suspended;

/// The scripts of a worker that are suspended and hold nothing.
#[derive(Default)]
pub(crate) struct Rotation {
    /// Each has its turn, in the order of their places.
    scripts: BTreeMap<u64, Box<Suspended>>,
    /// The places of those whose connections are there.
    of_connections: HashMap<ConnectionId, u64>,
    /// The places of all, by the numbers under which others know them.
    known: HashMap<u64, u64>,
    /// The next place.
    next_place: u64,
    /// Numbers of scripts that were killed, of whichever worker.
    killed: VecDeque<u64>,
    /// The one that the running command has left: its connection is entered behind the batch.
    pub(crate) left: Option<Box<Suspended>>,
    /// Connections whose scripts have not begun.
    pub(crate) waiting: VecDeque<ConnectionId>,
    /// What first slices have taken in this part of the worker's round.
    pub(crate) spent_ns: u64,
    /// How many scripts of the node had been killed when this was last asked.
    pub(crate) kills: u64,
}

impl Rotation {
    /// Whether there is anything to go on with.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.scripts.is_empty() && self.waiting.is_empty()
    }

    /// Enters a script as the last one.
    pub(crate) fn enter(&mut self, suspended: Box<Suspended>) {
        let place = self.next_place;
        self.next_place += 1;
        if let (Some(connection), None) = (suspended.connection, &suspended.orphan) {
            self.of_connections.insert(connection, place);
        }
        if let Some(running) = &suspended.run.running {
            self.known.insert(running.number, place);
            if running.is_killed() {
                self.killed.push_back(running.number);
            }
        }
        self.scripts.insert(place, suspended);
    }

    /// Some scripts of the node were killed: these are their numbers.
    pub(crate) fn note_killed(&mut self, kills: u64, numbers: impl IntoIterator<Item = u64>) {
        self.kills = kills;
        self.killed.extend(numbers);
    }

    /// The script whose turn it is: one that was killed, or the first one.
    pub(crate) fn next(&mut self) -> Option<Box<Suspended>> {
        while let Some(number) = self.killed.pop_front() {
            if let Some(&place) = self.known.get(&number) {
                return self.remove(place);
            }
        }
        let place = *self.scripts.first_key_value()?.0;
        self.remove(place)
    }

    /// Takes the script of a connection out.
    pub(crate) fn take(&mut self, connection: ConnectionId) -> Option<Box<Suspended>> {
        let place = *self.of_connections.get(&connection)?;
        self.remove(place)
    }

    fn remove(&mut self, place: u64) -> Option<Box<Suspended>> {
        let suspended = self.scripts.remove(&place)?;
        if let (Some(connection), None) = (suspended.connection, &suspended.orphan) {
            self.of_connections.remove(&connection);
        }
        if let Some(running) = &suspended.run.running {
            self.known.remove(&running.number);
        }
        Some(suspended)
    }
}
