//! Consumers: who wants to know of the changes of keys.
//!
//! Whoever changes a key asks under its exclusive latch whether anybody wants to know, so that each change is told or noted before anybody else
//! can look at the key (INV-CHANGE-1). Who begins to want sets the flag first and looks at the key afterwards, under its latch or as readers
//! do: changes before that look precede the wanting, changes behind it see the flag.
//!
//! While nobody wants to know, a change costs one load of a word that is hardly ever written.

use crate::changes::Changes;
use crate::key::Key;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Who wants to know of changes, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Consumer {
    /// Those who must hear of what sessions are asked to do to a key under its latch, by [`crate::Store::on_change`].
    Watch = 1,
    /// Those who hear soon of all changes, of what the store removes by itself too: sessions note them.
    Notes = 2,
}

type UnderLatch = Box<dyn Fn(&Key<'_>) + Send + Sync>;
type Afterwards = Box<dyn Fn(&Changes) + Send + Sync>;

/// The flag word and the listeners.
#[derive(Default)]
pub(crate) struct Consumers {
    wanted: AtomicU32,
    pub(crate) under_latch: OnceLock<UnderLatch>,
    pub(crate) afterwards: OnceLock<Afterwards>,
}

impl Consumers {
    /// Sets or clears a consumer's bit.
    pub(crate) fn want(&self, consumer: Consumer, wanted: bool) {
        if wanted {
            self.wanted.fetch_or(consumer as u32, Ordering::SeqCst);
        } else {
            self.wanted.fetch_and(!(consumer as u32), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        debug_assert!((consumer as u32).is_power_of_two(), "INV-CHANGE-1: each consumer has a bit of its own");
    }

    /// Who wants to know. The caller has latched the key's bucket exclusively since it began: a reader that set its bit before it found the
    /// bucket without a latch is seen here. On x86 the latch's locked instruction keeps this load behind it, elsewhere a fence does.
    #[inline]
    pub(crate) fn wanted(&self) -> u32 {
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        self.wanted.load(Ordering::Relaxed)
    }
}
