//! The scripts of a worker that are suspended and hold nothing.
//!
//! Each waits for its turn at a place in a row, and is found by its connection and by how others know it: neither a connection
//! that closes nor a script that is killed looks at those of the others.

use std::collections::{BTreeMap, HashMap, VecDeque};

use almandine_base::steps;
use almandine_net::ConnectionId;
use almandine_script::TurnWait;

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
    /// When the connection's batch began that runs.
    pub(crate) batch_ns: u64,
    /// For how long scripts of the worker were refused whose keys show while they run.
    pub(crate) turn_wait: Box<TurnWait>,
    /// How many scripts of the node had been killed when this was last asked.
    pub(crate) kills: u64,
}

impl Rotation {
    /// That of a worker.
    pub(crate) fn new(worker: usize) -> Self {
        Self { turn_wait: Box::new(TurnWait::new(worker)), ..Self::default() }
    }

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
            steps::take(1);
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
        steps::take(1);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use almandine_base::Output;
    use almandine_resp::ProtocolVersion;
    use almandine_script::{Engine, EngineOptions, Program, ProgramKind, Running, Scripts};

    use super::*;
    use crate::state::script_run::{Before, Scope, ScriptRun, Slice};

    fn suspended(program: &Program, running: Arc<Running>, connection: ConnectionId) -> Box<Suspended> {
        let run = ScriptRun {
            read_only: true,
            checks_memory: false,
            unlogged: false,
            over_limit: false,
            wrote: false,
            remembered: false,
            seen: false,
            endless: false,
            scope: Scope::Planned,
            start_ns: 0,
            slice: Slice::new(0, 0),
            times: 0,
            growth: None,
            running: Some(running),
            withheld: None,
            before: Before { db: 0, version: ProtocolVersion::Resp2, transaction: None },
        };
        let engine = Box::new(Engine::new(EngineOptions { seed: 1, memory_limit: 1 << 20, deprecated: false }));
        let (program, out) = (program.clone(), Output::new());
        Box::new(Suspended { engine, run, program, connection: Some(connection), orphan: None, out, rest: None, exec: None })
    }

    /// Steps that it takes to end scripts, one after the other: those of even connections are killed, the others' close.
    fn steps_of(count: u64) -> u64 {
        let scripts = Scripts::default();
        let program = Program::Script(scripts.evaluate(b"return 1").unwrap());
        let (table, mut rotation) = (&scripts.running, Rotation::default());
        for connection in 0..count {
            let running = table.enter((ProgramKind::Script, Vec::new(), Vec::new()), connection, false);
            rotation.enter(suspended(&program, running, connection));
        }
        let before = steps::taken();
        for connection in (1..count).rev().step_by(2) {
            let taken = rotation.take(connection).expect("the script of the connection");
            assert_eq!(taken.connection, Some(connection));
            table.leave(taken.run.running.as_ref().unwrap());
        }
        for connection in (0..count).step_by(2) {
            table.kill(ProgramKind::Script).unwrap();
            let (kills, killed) = table.killed_since(rotation.kills);
            rotation.note_killed(kills, killed);
            let killed = rotation.next().expect("the script that was killed");
            assert_eq!(killed.connection, Some(connection), "the one that has run for longest");
            table.leave(killed.run.running.as_ref().unwrap());
        }
        assert!(rotation.is_empty() && rotation.take(0).is_none() && rotation.next().is_none());
        steps::taken() - before
    }

    #[test]
    fn the_end_of_a_script_costs_the_same_however_many_are_suspended() {
        assert!(steps_of(80) <= 2 * steps_of(40) + 8);
    }

    #[test]
    fn scripts_have_their_turns_in_order_and_a_killed_one_before() {
        let scripts = Scripts::default();
        let program = Program::Script(scripts.evaluate(b"return 1").unwrap());
        let mut rotation = Rotation::default();
        for connection in 0..4 {
            let running = scripts.running.enter((ProgramKind::Script, Vec::new(), Vec::new()), 10 - connection, false);
            rotation.enter(suspended(&program, running, connection));
        }
        let first = rotation.next().unwrap();
        assert_eq!(first.connection, Some(0));
        rotation.enter(first);
        // The one that began first.
        scripts.running.kill(ProgramKind::Script).unwrap();
        let (kills, killed) = scripts.running.killed_since(0);
        rotation.note_killed(kills, killed);
        let order: Vec<_> = std::iter::from_fn(|| rotation.next()).map(|suspended| suspended.connection).collect();
        assert_eq!(order, [Some(3), Some(1), Some(2), Some(0)]);
    }
}
