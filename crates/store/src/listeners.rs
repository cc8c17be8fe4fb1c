//! The calls that get what a store tells of: changes, events, keys with waiters, and the end of a stall.

use crate::changes::Changes;
use crate::changes::events::Event;
use crate::record::Kind;
use crate::record::key::Key;
use crate::shared::consumers::Consumer;
use crate::store::Store;

impl Store {
    /// The calls that get what the store tells of.
    #[must_use]
    pub fn listeners(&self) -> Listeners<'_> {
        Listeners { store: self }
    }
}

/// The calls that get what the store tells of.
#[derive(Clone, Copy)]
pub struct Listeners<'s> {
    store: &'s Store,
}

impl Listeners<'_> {
    /// Installs the call for each change that a session is asked for, under the latch of the key's bucket; a second call
    /// changes nothing. It is not called before [`Listeners::tell_changes`] says so for [`Consumer::Watch`].
    pub fn on_change(self, listener: impl Fn(&Key<'_>) + Send + Sync + 'static) {
        let _ = self.store.inner.consumers.under_latch.set(Box::new(listener));
    }

    /// Installs the call that gets the changes that a session has noted and its owner has not taken, when its batch ends: what
    /// the background removes, above all. A second call changes nothing. It is called outside of latches and epochs, and the
    /// session waits for it.
    pub fn on_changes(self, listener: impl Fn(&Changes) + Send + Sync + 'static) {
        let _ = self.store.inner.consumers.afterwards.set(Box::new(listener));
    }

    /// Installs the call that says whether a changed key has waiters: it is of a type now, or gone. The session notes it then
    /// ([`crate::ReadyKeys`]). It is asked under the latch of the key's bucket, for [`Consumer::Wait`]; a second call
    /// changes nothing.
    pub fn on_awaited(self, awaited: impl Fn(&Key<'_>, Option<Kind>) -> bool + Send + Sync + 'static) {
        let _ = self.store.inner.consumers.awaited.set(Box::new(awaited));
    }

    /// Installs the call for keys that the store removes by itself, on any thread, for [`Consumer::Wait`]: under the latch of
    /// the key's bucket. It must not come back to the store. A second call changes nothing.
    pub fn on_lost(self, lost: impl Fn(&Key<'_>) + Send + Sync + 'static) {
        let _ = self.store.inner.consumers.lost.set(Box::new(lost));
    }

    /// Installs the call for events, with the namespace and the key, under the latch of the key's bucket; a second call changes
    /// nothing. It must not come back to the store.
    pub fn on_events(self, listener: impl Fn(u16, &[u8], Event<'_>) + Send + Sync + 'static) {
        let _ = self.store.inner.consumers.events.set(Box::new(listener));
    }

    /// Whether a consumer wants to know of changes from now on; at first none does. Of a key that a thread finds after it has
    /// turned this on, every later change is told.
    pub fn tell_changes(self, consumer: Consumer, tell: bool) {
        self.store.inner.consumers.want(consumer, tell);
    }

    /// Sets what is called, by a background thread, when writers that found [`Store::is_stalled`] may go on.
    pub fn on_stall_end(self, call: impl Fn() + Send + Sync + 'static) {
        match &self.store.inner.tier {
            Some(tier) => tier.on_stall_end(Box::new(call)),
            None => self.store.inner.budget.stall.on_end(Box::new(call)),
        }
    }
}
