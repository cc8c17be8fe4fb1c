//! Units of work: where one ends.
//!
//! A unit that has changed something ends here: its changes are made, the latches of the keys that it has changed
//! are still held, the session is inside its epoch, and nothing is left to do but to release them. That is the moment at which it
//! takes its number in the order of units (`almandine_oplog::order`), and is published in the operation log's rings. That nearly
//! all units are one string for one key is worth a short way: where only the log wants it, it is encoded, numbered and published
//! in one piece by the verb that has written it, as `notes` says, and is never open.
//!
//! A verb that latches one key by itself is a unit, and so is what a lock plan holds until it is released. Work that is done alone
//! is one unit until it lets the others go on, whatever it has latched meanwhile: no other session is inside, and the background
//! removes no key meanwhile (`Participant::is_kept_out`). Where waiters are served, the unit that made their keys
//! ready ends first, and then each served command: units of their own, under latches that stay.
//!
//! While no consumer wants units in order, none is open.

use crate::index::Index;
use crate::session::batch::Session;
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use almandine_base::step;
use almandine_oplog::Asked;

impl Session {
    /// See [`Shared::end_unit`].
    #[inline]
    pub(in crate::session) fn end_unit(&mut self) {
        let Self { store, local } = self;
        store.end_unit(local);
    }
}

impl Shared {
    /// Whether a session of the background must remove no key, because another one is alone. A removal takes its number under its
    /// latch, before those that the one that is alone has changed have theirs.
    #[inline]
    pub(crate) fn is_kept_out(&self, local: &ThreadState) -> bool {
        local.participant.is_kept_out()
    }

    /// Ends the unit of work of a session that is about to release the latches of what it has changed; one that is alone goes on.
    #[inline]
    pub(crate) fn end_unit(&self, local: &mut ThreadState) {
        debug_assert!(
            local.participant.is_inside() || !local.notes.unit.is_open(),
            "INV-ORDER-1: a unit that has changed something ends in its batch"
        );
        if local.notes.unit.is_open() && !local.participant.has_gate_closed() {
            self.close_unit(local);
        }
    }

    /// Ends the unit of work of a session that still holds the latches of what it has changed, or is alone.
    #[cold]
    #[inline(never)]
    pub(crate) fn close_unit(&self, local: &mut ThreadState) {
        if !local.notes.unit.is_open() {
            return;
        }
        // What a thread has done that unwinds is no whole unit, and is published as little as that of a process that ends there.
        if cfg!(panic = "unwind") && std::thread::panicking() {
            local.notes.unit.events.tell(false, None);
            local.notes.unit.end();
            return;
        }
        debug_assert!(local.participant.is_inside(), "INV-ORDER-1: a unit has its number before its epoch is left");
        debug_assert!(
            local.participant.has_gate_closed() || local.notes.unit.changed.iter().all(|&hash| self.is_latched(hash)),
            "INV-ORDER-1: a number is taken under the latches of what was changed"
        );
        if local.participant.has_gate_closed() {
            // It may have read what any unit before it has changed, and has latched none of it.
            self.consumers.begin_epoch();
        }
        let unit = &mut local.notes.unit;
        let used = local.held.hashes();
        let asked = Asked { changed: &unit.changed, used, after: unit.last, databases: unit.databases };
        let log = self.consumers.log().filter(|_| unit.draft.count() != 0);
        let place = log.map(|rings| (rings, unit.draft.announce(rings, local.thread)));
        step!(NumberUnderLatch, {
            unit.last = self.consumers.number(asked);
            local.notes.changes.end_unit(unit.last);
        });
        if let Some((rings, place)) = place {
            step!(DrainBeforeClose);
            unit.draft.publish(rings, local.thread, unit.last, place);
        }
        if !unit.events.is_empty() {
            unit.events.tell(false, self.consumers.events.get());
        }
        unit.end();
    }

    /// Whether the bucket of a hash is latched exclusively, by whatever session.
    pub(in crate::session) fn is_latched(&self, hash: u64) -> bool {
        self.index.bucket(Index::bucket_of(hash, self.index.len())).is_latched_exclusively()
    }
}
