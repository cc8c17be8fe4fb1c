//! Serving waiters whose commands change another key than the one that is ready, as BLMOVE does.
//!
//! A unit of work holds the latches of the keys that it has made ready, and must not release them before it has the latch of the
//! other key, too (INV-BLOCK-1). Where records may be on a device it has that already ([`crate::access::destinations`]). Else it
//! is a latch out of order, which one session at a time takes, for all ([`ReadyKeys::secure`](almandine_store::ReadyKeys::secure)).

use crate::Missing;
use crate::access::accessor::Unit;
use crate::blocking::wait::WaiterService;
use almandine_store::{Fetcher, Need, ReadyKey};
use std::collections::VecDeque;

/// Whether a session has what it needs to serve a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// It has.
    Yes,
    /// It had to release its latches for a moment, since something had to be read from the device: what it knows of the ready
    /// keys is void.
    Again,
    /// Another session has served all in its place. It holds no latches any more.
    Elsewhere,
}

impl WaiterService<'_> {
    /// Makes sure that this session holds the latch of another key of a database, too, and that the key is at hand, while it
    /// serves the waiters of `current`. `keys` are ready, too, and come next.
    pub fn secure(&mut self, db: u16, other: &[u8], current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> Secured {
        let key = self.accessor.key(db, other);
        if !self.accessor.is_alone() {
            keys.extend(self.accessor.session.ready().take());
            keys.push_front(current.clone());
            if !self.accessor.session.ready().secure(key.hash, keys) {
                return Secured::Elsewhere;
            }
            keys.pop_front();
        }
        if self.accessor.cold().is_possible() && self.accessor.cold().probe(key, Need::Read) == Err(Missing::Cold) {
            return self.read_between(current, keys);
        }
        Secured::Yes
    }

    /// Called when the waiters of all ready keys are served. If this session serves for others and was given more keys meanwhile,
    /// these are next: true.
    pub fn take_over(&mut self, keys: &mut VecDeque<ReadyKey>) -> bool {
        self.accessor.session.ready().take_over(keys)
    }

    /// Reads what was missed from the device, between two holds of the latches: no latch is held across I/O. The worker waits.
    /// Meanwhile waiters keep their places, but other sessions may change the keys. It is needed only where serving takes more
    /// than a command secures before it changes anything ([`crate::access::destinations`]).
    pub fn read_between(&mut self, current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> Secured {
        if self.accessor.is_alone() {
            return if self.accessor.unit().read_missing() { Secured::Again } else { Secured::Yes };
        }
        debug_assert_eq!(self.accessor.unit, Unit::Planned, "INV-BLOCK-1: waiters are served within a unit of work");
        keys.extend(self.accessor.session.ready().take());
        self.accessor.session.plan().unlock_all();
        let mut stage = self.accessor.session.detach();
        self.accessor.session.cold().stage_blocking(
            &mut self.accessor.session.cold().take_wanted(),
            &mut stage,
            &mut Fetcher::default(),
        );
        self.accessor.session.attach(stage);
        keys.push_front(current.clone());
        self.accessor.session.ready().hold_again(keys);
        keys.pop_front();
        Secured::Again
    }
}
