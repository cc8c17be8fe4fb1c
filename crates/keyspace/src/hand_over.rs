//! Serving those who wait and whose commands change another key than the one that is ready, as BLMOVE does.
//!
//! A unit of work holds the latches of the keys that it has made ready, and must not release them before it has the latch of the other key, too
//! (INV-BLOCK-1). That is a latch out of order: two who did this could wait for each other. So only one session at a time does it, the *server*;
//! whoever comes while there is one gives his latches and his ready keys to it, and goes on. The server takes over what it was given while it
//! waits for a latch, and before it ceases to be the server. Others who hold latches and wait for more release them and begin anew while it waits
//! (INV-LATCH-3). So it waits for nobody who waits for it.

use crate::accessor::Unit;
use crate::desk::Given;
use crate::{Accessor, Missing};
use almandine_store::{Fetcher, Need, ReadyKey};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Whether a session has what it needs to serve somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// It has.
    Yes,
    /// It had to release its latches for a moment, since something had to be read from the device: what it knows of the ready keys is void.
    Again,
    /// Another session serves in its place. It holds no latches any more.
    Elsewhere,
}

impl Accessor {
    /// Makes sure that this session holds the latch of another key of a database, too, and that it is at hand, while it serves those who wait for `current`.
    /// `keys` are ready, too, and come next.
    pub fn secure(&mut self, db: u16, other: &[u8], current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> Secured {
        let key = self.key(db, other);
        if !self.is_alone() {
            if (!self.is_server && !self.session.holds_exclusively(key.hash)) && !self.become_server(current, keys) {
                return Secured::Elsewhere;
            }
            if self.is_server {
                self.hold_another(key.hash, keys);
            }
        }
        if self.has_cold() && self.require(key, Need::Read) == Err(Missing::Cold) {
            return self.read_between(current, keys);
        }
        Secured::Yes
    }

    /// Takes the place of the server, or gives what this session has to the one who is.
    fn become_server(&mut self, current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> bool {
        keys.extend(self.session.take_ready());
        let hashes: Vec<u64> = std::iter::once(current).chain(keys.iter()).map(|ready| ready.hash).collect();
        self.session.keep_only(&hashes);
        let mut desk = self.keyspace.hand_overs.desk();
        if desk.is_served {
            let keys = std::iter::once(current.clone()).chain(keys.drain(..)).collect();
            desk.given.push(Given { latches: self.session.give_latches(), keys });
            self.keyspace.hand_overs.has_given.store(true, Ordering::Release);
            return false;
        }
        desk.is_served = true;
        self.is_server = true;
        true
    }

    /// Latches another bucket, as the server, which takes over what it is given meanwhile: that may be among it.
    fn hold_another(&mut self, hash: u64, keys: &mut VecDeque<ReadyKey>) {
        debug_assert!(self.is_server, "INV-LATCH-3: only the server latches out of order");
        loop {
            let hand_overs = &self.keyspace.hand_overs;
            if self.session.hold_another(hash, || hand_overs.has_given.load(Ordering::Acquire)) {
                return;
            }
            let given = self.keyspace.hand_overs.take(&mut self.keyspace.hand_overs.desk());
            self.adopt(given, keys);
        }
    }

    fn adopt(&mut self, given: Vec<Given>, keys: &mut VecDeque<ReadyKey>) {
        for Given { latches, keys: ready } in given {
            self.session.adopt_latches(latches, ready[0].hash);
            keys.extend(ready);
        }
    }

    /// All whom this session had something for are served. If it is the server and was given more meanwhile, these keys are next: true. Else it is
    /// the server no more.
    pub fn take_over(&mut self, keys: &mut VecDeque<ReadyKey>) -> bool {
        if !self.is_server {
            return false;
        }
        let mut desk = self.keyspace.hand_overs.desk();
        if desk.given.is_empty() {
            desk.is_served = false;
            self.is_server = false;
            return false;
        }
        let given = self.keyspace.hand_overs.take(&mut desk);
        drop(desk);
        // What was served is open again.
        self.session.keep_only(&[]);
        self.adopt(given, keys);
        true
    }

    /// Reads what was missed from the device, between two holds of the latches: no latch is held across I/O. The worker waits; those who wait for keys are
    /// still the first in their queues, but others may change the keys meanwhile.
    pub fn read_between(&mut self, current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> Secured {
        if self.is_alone() {
            return if self.read_missing() { Secured::Again } else { Secured::Yes };
        }
        debug_assert_eq!(self.unit, Unit::Planned, "INV-BLOCK-1: who waits is served within a unit of work");
        keys.extend(self.session.take_ready());
        self.session.unlock_all();
        let mut stage = self.session.detach();
        self.session.stage_blocking(&mut self.wanted, &mut stage, &mut Fetcher::default());
        self.session.attach(stage);
        let hashes: Vec<u64> = std::iter::once(current).chain(keys.iter()).map(|ready| ready.hash).collect();
        if self.is_server {
            // In no order, since it may have been given one of them.
            hashes.iter().for_each(|&hash| self.hold_another(hash, keys));
        } else {
            self.session.lock_all(&hashes, true);
        }
        Secured::Again
    }
}
