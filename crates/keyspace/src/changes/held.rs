//! What a unit of several commands tells is held until the unit has its number.
//!
//! Its commands tell of what they did one after the other: messages, keyspace events, changed keys. While units are logged, a
//! process that is killed before the unit is published has done none of it. So what is told meanwhile is held by those that send
//! it; they are told when the unit is published, before its latches go: events come in the order of changes all the same
//! (INV-EVENT-1).

use crate::{Accessor, Listeners};
use almandine_base::step;
use std::cell::Cell;

thread_local! {
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread has a unit of several commands open that is logged: what it tells waits for [`Listeners::on_unit_end`].
#[inline]
#[must_use]
pub fn holds_messages() -> bool {
    HOLDS.get()
}

/// The unit that the thread has open goes on in another one. Returns what that one needs for [`resume_holding`].
#[must_use]
pub fn suspend_holding() -> bool {
    HOLDS.take()
}

/// The thread goes on with a unit that another one had open.
pub fn resume_holding(holds: bool) {
    debug_assert!(!HOLDS.get(), "a thread has one unit open");
    HOLDS.set(holds);
}

impl Listeners<'_> {
    /// Installs what is called when a unit for which something may be held has its number: under its latches, on its thread. A
    /// second call changes nothing.
    pub fn on_unit_end(self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.keyspace.listeners.unit_end.set(Box::new(call));
    }
}

impl Accessor {
    /// A unit of several commands begins.
    #[inline]
    pub(crate) fn hold_messages(&mut self) {
        if self.keyspace.store.operation_log().is_on() {
            HOLDS.set(step!(HoldMessages, true, else false));
        }
    }

    /// What the unit has told until now goes: it is published. Another one begins.
    #[inline]
    pub(crate) fn tell_held(&self) {
        if HOLDS.get()
            && let Some(call) = self.keyspace.listeners.unit_end.get()
        {
            call();
        }
    }

    /// The unit of several commands ends, and has its latches still.
    #[inline]
    pub(crate) fn end_holding(&mut self) {
        if HOLDS.get() {
            self.session.plan().close_unit();
            self.tell_held();
            HOLDS.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keyspace, Options, Put};
    use almandine_oplog::RingOptions;
    use std::sync::{Arc, Mutex};

    #[test]
    fn what_a_unit_tells_goes_when_it_is_published() {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(1);
        accessor.unit().begin_alone();
        assert!(!holds_messages(), "there is no log");
        accessor.unit().end();
        accessor.end_batch();

        let options = RingOptions { directory: None, bytes: 1 << 16, log: 1, run: 1, boot: 1, first_epoch: 3 };
        let source = keyspace.log().install(options, 0).unwrap();
        keyspace.log().turn(true).unwrap();
        let (rings, told) = (keyspace.log().rings().unwrap(), Arc::<Mutex<Vec<bool>>>::default());
        let (pending, ear) = (Arc::clone(&rings), Arc::clone(&told));
        keyspace.listeners().on_unit_end(move || ear.lock().unwrap().push(pending.has_pending()));
        accessor.begin_batch(2);
        for alone in [false, true] {
            if alone {
                accessor.unit().begin_alone();
            } else {
                accessor.unit().plan();
                accessor.unit().add(0, b"key", true);
                accessor.unit().begin();
            }
            assert!(holds_messages());
            let mut writer = accessor.writer(0);
            let key = writer.key(b"key");
            writer.upsert(key, b"value", Put::default()).unwrap();
            drop(writer);
            assert_eq!(told.lock().unwrap().len(), usize::from(alone), "it is open");
            accessor.unit().end();
            assert!(!holds_messages());
        }
        accessor.end_batch();
        assert_eq!(*told.lock().unwrap(), [true, true], "each unit is in its ring");
        drop(source);
    }
}
