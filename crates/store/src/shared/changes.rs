//! Changes: word of the keys that commands change, to the one who listens.
//!
//! Whoever changes a key through an entry says so under its exclusive latch, so that the listener learns of the changes of a key in their order,
//! and of each one before anybody else can look at the key (INV-CHANGE-1). Who begins to listen for a key sets the flag first and latches
//! the key once afterwards: changes before that latch precede the listening, changes behind it see the flag.
//!
//! Not said: what the store removes by itself (`removed`), and what moves a record without changing it.

use crate::key::Key;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

type Listener = Box<dyn Fn(&Key<'_>) + Send + Sync>;

/// The listener, and whether it wants to hear anything.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) heard: AtomicBool,
    pub(crate) listener: OnceLock<Listener>,
}

impl Changes {
    /// Says that a key, whose bucket the caller has latched exclusively, is changed.
    #[inline]
    pub(crate) fn say(&self, key: &Key<'_>) {
        // Relaxed: the latch orders it.
        if self.heard.load(Ordering::Relaxed) {
            self.tell(key);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, key: &Key<'_>) {
        if let Some(listener) = self.listener.get() {
            listener(key);
        }
    }
}
