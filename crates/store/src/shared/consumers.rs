//! Consumers: which parts of the server want to know of the changes of keys.
//!
//! A session that changes a key looks under its exclusive latch whether a consumer wants changes, so that each change is noted
//! before another session can look at the key (INV-CHANGE-1). A consumer sets its flag first and looks at the key afterwards,
//! under its latch or as readers do: changes before that look precede the wanting, changes behind it see the flag.
//!
//! While there is no consumer, a change costs one load of a word that is hardly ever written.

use crate::changes::Changes;
use crate::changes::events::EventListener;
use crate::copying::Copying;
use crate::namespace::NAMESPACES;
use crate::record::Kind;
use crate::record::key::Key;
use crate::shared::written::{self, SharedLine};
use almandine_oplog::{Asked, Order};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The consumers of changes, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Consumer {
    /// WATCH: told of each change that a session is asked for, under the key's latch, by [`crate::Listeners::on_change`].
    Watch = 1,
    /// Told soon of all changes, removals by the store included: sessions note them.
    Keys = 2,
    /// As [`Consumer::Keys`], with what was done.
    Effects = 4,
    /// Waiters for a key, by [`crate::Listeners::on_awaited`] and [`crate::Listeners::on_lost`].
    Wait = 8,
    /// Keyspace events, told in the order of each key's changes ([`crate::Event`]).
    Events = 16,
    /// A copy of one moment: what is there before a change is saved for it ([`crate::Plan::begin_copy`]).
    Copy = 32,
}

type UnderLatch = Box<dyn Fn(&Key<'_>) + Send + Sync>;
type Awaited = Box<dyn Fn(&Key<'_>, Option<Kind>) -> bool + Send + Sync>;
type Lost = Box<dyn Fn(&Key<'_>) + Send + Sync>;
type Afterwards = Box<dyn Fn(&Changes) + Send + Sync>;

/// What orders units of work. It exists from the first time that a consumer wants effects.
struct Orders {
    order: Order,
    /// How often each namespace was emptied and became free.
    generations: Box<[AtomicU32]>,
}

impl Orders {
    fn new() -> Self {
        Self { order: Order::default(), generations: (0..NAMESPACES).map(|_| AtomicU32::new(0)).collect() }
    }
}

/// The flag word and the listeners.
#[derive(Default)]
pub(crate) struct Consumers {
    wanted: AtomicU32,
    orders: OnceLock<Orders>,
    pub(crate) under_latch: OnceLock<UnderLatch>,
    pub(crate) awaited: OnceLock<Awaited>,
    pub(crate) lost: OnceLock<Lost>,
    pub(crate) afterwards: OnceLock<Afterwards>,
    pub(crate) events: OnceLock<EventListener>,
    pub(crate) copying: Copying,
}

impl Consumers {
    /// Sets or clears a consumer's bit.
    pub(crate) fn want(&self, consumer: Consumer, wanted: bool) {
        if wanted {
            if consumer == Consumer::Effects {
                self.orders.get_or_init(Orders::new);
            }
            self.wanted.fetch_or(consumer as u32, Ordering::SeqCst);
        } else {
            self.wanted.fetch_and(!(consumer as u32), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        debug_assert!((consumer as u32).is_power_of_two(), "INV-CHANGE-1: each consumer has a bit of its own");
    }

    /// The consumers. The caller has latched the key's bucket exclusively since it began: a reader that set its bit before it
    /// found the bucket without a latch is seen here. On x86 the latch's locked instruction keeps this load behind it,
    /// elsewhere a fence does.
    #[inline]
    pub(crate) fn wanted(&self) -> u32 {
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        self.wanted.load(Ordering::Relaxed)
    }

    /// The number of a unit of work. The buckets of the keys that it has changed are latched exclusively.
    pub(crate) fn number(&self, asked: Asked<'_>) -> u64 {
        debug_assert!(self.orders.get().is_some(), "INV-EFFECT-1: there is an order from the first effect on");
        asked.changed.iter().for_each(|_| written::write(SharedLine::Stripe));
        self.orders.get().map_or(0, |orders| orders.order.take(asked))
    }

    /// Begins another commit epoch for what is done alone: a number of it is greater than that of any unit that has ended.
    pub(crate) fn begin_epoch(&self) {
        debug_assert!(self.orders.get().is_some(), "INV-ORDER-1: only units that are ordered take numbers");
        if let Some(orders) = self.orders.get() {
            orders.order.begin_epoch();
        }
    }

    /// The number of the last unit that has changed a key or a neighbour. The key's bucket is latched.
    pub(crate) fn last_sequence(&self, hash: u64) -> u64 {
        self.orders.get().map_or(0, |orders| orders.order.last(hash))
    }

    /// A number that a namespace has for as long as it has these contents.
    pub(crate) fn generation(&self, namespace: u16) -> u64 {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let before = self.orders.get().map_or(0, |orders| orders.generations[usize::from(namespace)].load(Ordering::Relaxed));
        u64::from(before) << 16 | u64::from(namespace)
    }

    /// Says that namespaces are empty and about to be used again.
    pub(crate) fn begin_generations(&self, namespaces: &[u16]) {
        debug_assert!(!namespaces.contains(&0), "INV-NS-1: zero names no namespace");
        if let Some(orders) = self.orders.get() {
            namespaces.iter().for_each(|&namespace| {
                orders.generations[usize::from(namespace)].fetch_add(1, Ordering::Relaxed);
            });
        }
    }
}
