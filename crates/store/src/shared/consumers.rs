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
use almandine_oplog::{Asked, Order, Rings};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

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
    /// The operation log: units of work are encoded and published in its rings.
    Log = 64,
}

type UnderLatch = Box<dyn Fn(&Key<'_>) + Send + Sync>;
type Awaited = Box<dyn Fn(&Key<'_>, Option<Kind>) -> bool + Send + Sync>;
type Lost = Box<dyn Fn(&Key<'_>) + Send + Sync>;
type Afterwards = Box<dyn Fn(&Changes) + Send + Sync>;

/// What orders units of work. It exists from the first time that a consumer wants effects.
struct Orders {
    order: Arc<Order>,
    /// What each namespace holds.
    contents: Box<[AtomicU64]>,
    /// What the next one holds that was emptied.
    next_contents: AtomicU64,
}

impl Orders {
    fn new() -> Self {
        Self {
            order: Arc::default(),
            contents: (0..NAMESPACES as u64).map(AtomicU64::new).collect(),
            next_contents: AtomicU64::new(NAMESPACES as u64),
        }
    }
}

/// The flag word and the listeners.
#[derive(Default)]
pub(crate) struct Consumers {
    wanted: AtomicU32,
    orders: OnceLock<Orders>,
    log: OnceLock<Arc<Rings>>,
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
            if matches!(consumer, Consumer::Effects | Consumer::Log) {
                self.orders.get_or_init(Orders::new);
            }
            debug_assert!(consumer != Consumer::Log || self.log().is_some(), "INV-ORDER-1: a unit has a ring to be published in");
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
    #[inline]
    pub(crate) fn number(&self, asked: Asked<'_>) -> u64 {
        debug_assert!(self.orders.get().is_some(), "INV-EFFECT-1: there is an order from the first effect on");
        asked.changed.iter().for_each(|_| written::write(SharedLine::Stripe));
        self.orders.get().map_or(0, |orders| orders.order.take(asked))
    }

    /// As [`Consumers::number`], of a unit that has changed one key, has read no other, and comes behind the number `after`.
    #[inline(always)]
    pub(crate) fn number_of_one(&self, hash: u64, after: u64) -> u64 {
        debug_assert!(self.orders.get().is_some(), "INV-EFFECT-1: there is an order from the first effect on");
        written::write(SharedLine::Stripe);
        self.orders.get().map_or(0, |orders| orders.order.take_of_one(hash, after))
    }

    /// Asks the cache for what a change of a key with this hash looks at: the number of the unit before it, and what was saved.
    #[inline]
    pub(crate) fn prefetch(&self, thread: usize, hash: u64) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted & Consumer::Log as u32 != 0
            && let Some(orders) = self.orders.get()
        {
            orders.order.prefetch(hash);
        }
        if wanted & Consumer::Copy as u32 != 0 {
            self.prefetch_copy(thread, hash);
        }
    }

    #[cold]
    #[inline(never)]
    fn prefetch_copy(&self, thread: usize, hash: u64) {
        self.copying.prefetch(thread, hash);
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
        self.orders.get().map_or(u64::from(namespace), |orders| orders.contents[usize::from(namespace)].load(Ordering::Relaxed))
    }

    /// Says that namespaces are empty and about to be used again.
    pub(crate) fn begin_generations(&self, namespaces: &[u16]) {
        debug_assert!(!namespaces.contains(&0), "INV-NS-1: zero names no namespace");
        if let Some(orders) = self.orders.get() {
            namespaces.iter().for_each(|&namespace| {
                let next = orders.next_contents.fetch_add(1, Ordering::Relaxed);
                orders.contents[usize::from(namespace)].store(next, Ordering::Relaxed);
            });
        }
    }
}

impl Consumers {
    /// The order of units of work.
    pub(crate) fn order(&self) -> Arc<Order> {
        Arc::clone(&self.orders.get_or_init(Orders::new).order)
    }

    /// Whether there is an order.
    pub(crate) fn has_order(&self) -> bool {
        self.orders.get().is_some()
    }

    /// The rings of the operation log, from the first time on that there was one.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Arc<Rings>> {
        self.log.get()
    }

    /// Sets the rings of the operation log; false when there are some. What namespaces hold is numbered from `first` on.
    pub(crate) fn set_log(&self, rings: &Arc<Rings>, first: u64) -> bool {
        let orders = self.orders.get_or_init(Orders::new);
        debug_assert!(first < u64::MAX >> 1, "INV-ORDER-1: contents have numbers of their own for as long as the log lives");
        if self.log.set(Arc::clone(rings)).is_err() {
            return false;
        }
        for (contents, number) in orders.contents.iter().zip(first..) {
            contents.store(number, Ordering::Relaxed);
        }
        orders.next_contents.fetch_max(first + NAMESPACES as u64, Ordering::Relaxed);
        true
    }

    /// Says what a namespace holds: what an earlier run has called so.
    pub(crate) fn set_contents(&self, namespace: u16, contents: u64) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let orders = self.orders.get_or_init(Orders::new);
        orders.contents[usize::from(namespace)].store(contents, Ordering::Relaxed);
        orders.next_contents.fetch_max(contents + 1, Ordering::Relaxed);
    }
}
