//! Units of work that another thread goes on with, as sessions see them (`index::long_unit`, INV-LATCH-5).

use crate::session::batch::Session;
use crate::session::plan::Plan;

impl<'s> Plan<'s> {
    /// Units of work that take long.
    #[inline]
    #[must_use]
    pub fn long_units(self) -> LongUnits<'s> {
        LongUnits { session: self.session }
    }
}

/// Units of work that take long.
pub struct LongUnits<'s> {
    session: &'s mut Session,
}

impl LongUnits<'_> {
    /// Whether the session passes by what a long unit has latched, from now on: its verbs miss such keys
    /// ([`Missing::Held`](crate::Missing::Held)), and plans with them are refused. Otherwise it waits. What it was before.
    #[inline]
    pub fn pass(&mut self, passes: bool) -> bool {
        std::mem::replace(&mut self.session.local.held.passes, passes)
    }

    /// Whether the session's plan was refused: it has none of its latches, and no key can be used until it is released.
    #[inline]
    #[must_use]
    pub fn has_refused(&self) -> bool {
        self.session.local.held.is_refused()
    }

    /// The session's unit of work takes long, and another thread goes on with it: others need not wait for its latches.
    pub fn tell(&mut self) {
        debug_assert!(self.session.local.participant.is_inside(), "INV-LATCH-5: a long unit goes on in its batch");
        let Session { store, local } = &mut *self.session;
        local.held.tell_long(&store.index);
    }

    /// Between two commands of one: goes on in the present epoch, with its latches. Nothing that was read before is used from here
    /// on.
    pub fn renew(&mut self) {
        self.session.renew();
    }

    /// Whether there is one. It may be another one, or over, at any moment.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.session.store.index.long_unit.is_any()
    }
}
