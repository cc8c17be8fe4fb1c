//! Waiters for keys (BLPOP and its like): a table of queues by key.
//!
//! A waiter is in the queue of each of its keys, in the order of arrival. It enters them under the latches of all its keys, behind
//! a look that has found nothing, so that no change comes between the look and the entry (INV-BLOCK-2). A session that changes
//! such a key later notes it under that latch, and serves the front of the queue when its unit of work ends.
//!
//! A thread that ends a wait claims the waiter first, by one exchange (INV-BLOCK-3). The place of a waiter that is gone stays
//! empty until half of the places of its queue are: ending any of a million waits for one key is O(1) amortized.
//!
//! Without waiters, a change costs nothing. With waiters it costs one load more, and a mutex only where a key of the same shard
//! is waited for.

use crate::key_table::{ByKey, Name, Named, shrink};
use almandine_base::points::point;
use almandine_base::steps;
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::thread;
use almandine_store::{Key, Kind};
use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// Parts of the table, each with a mutex of its own.
const SHARDS: usize = 1 << 10;
/// Empty places that a queue may have in any case.
const EMPTY_MIN: usize = 16;

/// Types that can be waited for.
const KINDS: usize = 3;

const WAITING: u8 = 0;
const SERVING: u8 = 1;
const SERVED: u8 = 2;
const ENDED: u8 = 3;

/// A client that waits for keys.
pub struct Waiter {
    state: AtomicU8,
    /// Its place in the order of arrival.
    ticket: u64,
    /// It has left its queues.
    left: AtomicBool,
    /// The database of the keys.
    pub(crate) db: u16,
    awaited: Awaited,
    keys: WaiterKeys,
    request: Box<dyn Any + Send + Sync>,
}

/// The keys of a waiter, all of one database.
#[derive(Debug, Default)]
pub struct WaiterKeys {
    /// The first that it waits for: most wait for one key.
    first: Option<Box<[u8]>>,
    /// The others that it waits for.
    more: Vec<Box<[u8]>>,
    /// Another key that serving it changes.
    pub other: Option<Box<[u8]>>,
}

impl WaiterKeys {
    /// These keys, each once. It takes one step for each of them: the latches of all of them may be held.
    pub fn new<'k>(names: impl Iterator<Item = &'k [u8]>, other: Option<&[u8]>) -> Self {
        let mut names = names.peekable();
        let mut keys = Self { first: names.next().map(Into::into), more: Vec::new(), other: other.map(Into::into) };
        if names.peek().is_some() {
            let mut known: HashSet<&[u8]> = keys.first.as_deref().into_iter().collect();
            for name in names {
                steps::take(1);
                if known.insert(name) {
                    keys.more.push(name.into());
                }
            }
        }
        keys
    }

    /// Those that it waits for, each once.
    fn awaited(&self) -> impl Iterator<Item = &[u8]> {
        self.first.iter().chain(&self.more).map(|key| &**key)
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Waiter").field("ticket", &self.ticket).field("keys", &self.keys().count()).finish_non_exhaustive()
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// A key of this type.
    pub kind: Kind,
    /// Or that the key is gone, or is of another type.
    pub or_gone: bool,
}

/// What came of ending a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfWait {
    /// It has ended, by this call.
    Now,
    /// It had ended before.
    Before,
    /// A session is about to serve the waiter. Ask again soon.
    Serving,
    /// It had ended before: the waiter was served, by a unit of work that may serve others yet. What says so before the unit has
    /// served all of them shows a part of what it does.
    Served,
}

impl Waiter {
    /// What it wants to have done, as given when it began to wait.
    #[must_use]
    pub fn request(&self) -> &dyn Any {
        &*self.request
    }

    /// The database of its keys.
    #[must_use]
    pub fn db(&self) -> u16 {
        self.db
    }

    /// Its keys, each once.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.awaited()
    }

    /// See [`WaiterKeys::other`].
    #[must_use]
    pub fn other(&self) -> Option<&[u8]> {
        self.keys.other.as_deref()
    }

    /// It leaves its queues. Whether it is still in them.
    pub(crate) fn leave(&self) -> bool {
        !self.left.swap(true, Ordering::Relaxed)
    }

    /// Whether it has left its queues.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether its wait has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), SERVED | ENDED)
    }

    /// Its place in the order of arrival.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Claims it to serve it; false if its wait has ended. One of [`Waiter::served`] and [`Waiter::go_on_waiting`] follows.
    ///
    /// While another session serves it with another of its keys, this call waits: that session may find nothing for the waiter,
    /// which then must not miss this key. The other session needs no latch meanwhile: a command that waits for several keys
    /// touches those alone that are latched.
    #[must_use]
    pub fn begin_to_serve(&self) -> bool {
        point("claims a waiter");
        loop {
            match self.state.compare_exchange(WAITING, SERVING, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(SERVING) => thread::yield_now(),
                Err(_) => return false,
            }
        }
    }

    /// Its wait has ended: it was served. [`Waiter::show_served`] follows.
    pub fn served(&self) {
        let before = self.state.swap(SERVED, Ordering::AcqRel);
        debug_assert_eq!(before, SERVING, "INV-BLOCK-3: a wait ends once");
    }

    /// The unit of work that has served it has served all that it had something for.
    pub fn show_served(&self) {
        let before = self.state.swap(ENDED, Ordering::AcqRel);
        debug_assert_eq!(before, SERVED, "INV-BLOCK-3: a wait ends once");
    }

    /// There was nothing for it: it waits as before.
    pub fn go_on_waiting(&self) {
        let before = self.state.swap(WAITING, Ordering::AcqRel);
        debug_assert_eq!(before, SERVING, "INV-BLOCK-3: only the session that has claimed a waiter gives it back");
    }

    /// Ends its wait without serving it: its time is up, its connection is gone, or CLIENT UNBLOCK names it.
    #[must_use]
    pub fn end(&self) -> EndOfWait {
        point("ends a wait");
        match self.state.compare_exchange(WAITING, ENDED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => EndOfWait::Now,
            Err(SERVING) => EndOfWait::Serving,
            Err(SERVED) => EndOfWait::Served,
            Err(_) => EndOfWait::Before,
        }
    }
}

impl Awaited {
    fn wants(self, kind: Option<Kind>) -> bool {
        kind == Some(self.kind) || self.or_gone
    }
}

/// The number of a type that can be waited for.
fn number_of(kind: Kind) -> Option<usize> {
    match kind {
        Kind::List => Some(0),
        Kind::SortedSet => Some(1),
        Kind::Stream => Some(2),
        _ => None,
    }
}

/// A place in the queue of a key.
struct Place {
    ticket: u64,
    /// None: its waiter is gone.
    waiter: Option<Arc<Waiter>>,
}

/// The queue of a key.
#[derive(Default)]
pub(crate) struct Queue {
    /// In the order of arrival.
    places: VecDeque<Place>,
    /// Places that are empty.
    empty: usize,
    /// Waiters by the type that they wait for.
    kinds: [u32; KINDS],
    /// Waiters that want to hear when the key is gone.
    or_gone: usize,
    /// A unit of work has noted the key as ready and has not come to its waiters yet.
    noted: bool,
}

impl Queue {
    /// Whether a waiter wants to hear when the key is gone.
    pub(crate) fn tells_gone(&self) -> bool {
        self.or_gone > 0
    }

    fn waiting(&self) -> usize {
        self.places.len() - self.empty
    }

    /// Whether a waiter wants a key that is of this type now, or gone.
    fn wants(&self, kind: Option<Kind>) -> bool {
        self.or_gone > 0 || kind.and_then(number_of).is_some_and(|number| self.kinds[number] > 0)
    }

    fn count(&mut self, awaited: Awaited, enters: bool) {
        let step = |count: u32| if enters { count + 1 } else { count - 1 };
        if let Some(number) = number_of(awaited.kind) {
            self.kinds[number] = step(self.kinds[number]);
        }
        if awaited.or_gone {
            self.or_gone = if enters { self.or_gone + 1 } else { self.or_gone - 1 };
        }
    }

    fn enter(&mut self, waiter: &Arc<Waiter>) {
        debug_assert!(
            self.places.back().is_none_or(|last| last.ticket < waiter.ticket),
            "INV-BLOCK-2: queues are in the order of arrival"
        );
        self.count(waiter.awaited, true);
        self.places.push_back(Place { ticket: waiter.ticket, waiter: Some(Arc::clone(waiter)) });
    }

    fn leave(&mut self, waiter: &Waiter) {
        steps::take(1);
        let Ok(at) = self.places.binary_search_by_key(&waiter.ticket, |place| place.ticket) else { return };
        if self.places[at].waiter.take().is_none() {
            return;
        }
        self.empty += 1;
        self.count(waiter.awaited, false);
        while self.places.front().is_some_and(|place| place.waiter.is_none()) {
            self.places.pop_front();
            self.empty -= 1;
        }
        if self.empty > EMPTY_MIN && self.empty > self.places.len() / 2 {
            steps::take(self.places.len());
            self.places.retain(|place| place.waiter.is_some());
            self.places.shrink_to_fit();
            self.empty = 0;
        }
    }

    fn behind(&self, ticket: u64, kind: Option<Kind>) -> Option<Arc<Waiter>> {
        if !self.wants(kind) {
            return None;
        }
        let first = self.places.partition_point(|place| place.ticket <= ticket);
        let behind = self.places.range(first..).inspect(|_| steps::take(1));
        behind.filter_map(|place| place.waiter.as_ref()).find(|waiter| waiter.awaited.wants(kind)).cloned()
    }
}

/// One part of the table.
#[derive(Default)]
struct Shard {
    /// Keys that are waited for.
    keys: AtomicUsize,
    /// Of these, keys with a waiter that wants to hear when they are gone.
    keys_or_gone: AtomicUsize,
    queues: Mutex<ByKey<Queue>>,
}

impl Shard {
    fn queues(&self) -> MutexGuard<'_, ByKey<Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts its keys anew. `before` and `now` are one key's waiters that want to hear when it is gone.
    fn count(&self, keys: usize, (before, now): (usize, usize)) {
        self.keys.store(keys, Ordering::SeqCst);
        match (before > 0, now > 0) {
            (false, true) => _ = self.keys_or_gone.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.keys_or_gone.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// How many keys are waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitedKeys {
    /// All of them.
    pub keys: usize,
    /// Keys with a waiter that wants to hear when they are gone.
    pub or_gone: usize,
}

/// How many waiters there are, and whether changes are told to them.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) waiting: usize,
    pub(crate) told: bool,
}

/// All waiters.
pub(crate) struct Waiters {
    shards: Box<[Shard]>,
    tickets: AtomicU64,
    pub(crate) told: Mutex<Told>,
    /// Whether there are waiters. A thread under the latch of a key sees true if that key has any.
    pub(crate) any: AtomicBool,
    /// Whether a unit of work has latched keys that showed while it ran.
    pub(crate) meet_growing: AtomicBool,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self {
            shards,
            tickets: AtomicU64::new(0),
            told: Mutex::default(),
            any: AtomicBool::new(false),
            meet_growing: AtomicBool::new(false),
        }
    }

    fn shard(&self, hash: u64) -> &Shard {
        // The low bits choose the bucket of the index; these are as good.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// A new waiter. The caller holds the latches of its keys, so that those of a key have their tickets in the order of arrival.
    pub(crate) fn make(&self, db: u16, awaited: Awaited, keys: WaiterKeys, request: Box<dyn Any + Send + Sync>) -> Arc<Waiter> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Waiter { state: AtomicU8::new(WAITING), ticket, left: AtomicBool::new(false), db, awaited, keys, request })
    }

    /// A waiter enters the queue of one of its keys, which is latched exclusively.
    pub(crate) fn enter(&self, key: &Key<'_>, waiter: &Arc<Waiter>) {
        let shard = self.shard(key.hash);
        let mut queues = shard.queues();
        let (before, now);
        if let Some(queue) = queues.get_mut(key as &dyn Named) {
            before = queue.or_gone;
            queue.enter(waiter);
            now = queue.or_gone;
        } else {
            let mut queue = Queue::default();
            queue.enter(waiter);
            (before, now) = (0, queue.or_gone);
            queues.insert(Name::of(key), queue);
        }
        shard.count(queues.len(), (before, now));
    }

    /// A waiter whose wait has ended leaves the queue of one of its keys.
    pub(crate) fn leave(&self, key: &Key<'_>, waiter: &Waiter) {
        let shard = self.shard(key.hash);
        let mut queues = shard.queues();
        let Some(queue) = queues.get_mut(key as &dyn Named) else { return };
        let before = queue.or_gone;
        queue.leave(waiter);
        let now = queue.or_gone;
        if queue.waiting() == 0 {
            queues.remove(key as &dyn Named);
            shrink(&mut queues);
        }
        shard.count(queues.len(), (before, now));
    }

    /// Notes a key that has changed, and is of a type now or gone, if a waiter wants it so; false if none does, or the key was
    /// noted before. Its bucket is latched exclusively.
    pub(crate) fn note(&self, key: &Key<'_>, kind: Option<Kind>) -> bool {
        let shard = self.shard(key.hash);
        if shard.keys.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut queues = shard.queues();
        let Some(queue) = queues.get_mut(key as &dyn Named).filter(|queue| !queue.noted) else { return false };
        queue.noted = queue.wants(kind);
        queue.noted
    }

    /// Whether a waiter wants to hear that a key is gone, which the store has just removed by itself. Its bucket is latched
    /// exclusively.
    pub(crate) fn misses(&self, key: &Key<'_>) -> bool {
        let shard = self.shard(key.hash);
        shard.keys_or_gone.load(Ordering::Relaxed) > 0
            && shard.queues().get(key as &dyn Named).is_some_and(|queue| queue.tells_gone())
    }

    /// Notes a key that has not changed; false if it has no waiters, or was noted before. Its bucket is latched exclusively.
    pub(crate) fn note_unchanged(&self, key: &Key<'_>) -> bool {
        let mut queues = self.shard(key.hash).queues();
        let Some(queue) = queues.get_mut(key as &dyn Named).filter(|queue| !queue.noted) else { return false };
        queue.noted = true;
        true
    }

    /// A ready key's turn to be served has come: changes of it are noted again from now on.
    pub(crate) fn take_turn(&self, key: &Key<'_>) {
        let shard = self.shard(key.hash);
        // All waiters of the shard's keys may have been served meanwhile.
        if shard.keys.load(Ordering::Relaxed) > 0
            && let Some(queue) = shard.queues().get_mut(key as &dyn Named)
        {
            queue.noted = false;
        }
    }

    /// The first waiter of a key behind one with a ticket that wants the key as it is now.
    pub(crate) fn behind(&self, key: &Key<'_>, ticket: u64, kind: Option<Kind>) -> Option<Arc<Waiter>> {
        self.shard(key.hash).queues().get(key as &dyn Named)?.behind(ticket, kind)
    }

    /// Whether a key has waiters.
    pub(crate) fn is_waited_for(&self, key: &Key<'_>) -> bool {
        let shard = self.shard(key.hash);
        shard.keys.load(Ordering::Relaxed) != 0 && shard.queues().contains_key(key as &dyn Named)
    }

    /// The first waiters of a key, at most `count`.
    pub(crate) fn first(&self, key: &Key<'_>, count: usize) -> Vec<Arc<Waiter>> {
        let queues = self.shard(key.hash).queues();
        let Some(queue) = queues.get(key as &dyn Named) else { return Vec::new() };
        queue.places.iter().filter_map(|place| place.waiter.clone()).take(count).collect()
    }

    /// Takes the queues of some namespaces out of the table. No wait begins or ends meanwhile.
    pub(crate) fn take_namespaces(&self, is_one: impl Fn(u16) -> bool) -> Vec<(Name, Queue)> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            if shard.keys.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut queues = shard.queues();
            let before = taken.len();
            taken.extend(queues.extract_if(|name, _| is_one(name.namespace)));
            let or_gone = taken[before..].iter().filter(|(_, queue)| queue.or_gone > 0).count();
            shard.keys.store(queues.len(), Ordering::SeqCst);
            shard.keys_or_gone.fetch_sub(or_gone, Ordering::Relaxed);
        }
        taken
    }

    /// Puts a queue back, under a key that has none.
    pub(crate) fn put(&self, key: &Key<'_>, mut queue: Queue, noted: bool) {
        let shard = self.shard(key.hash);
        queue.noted = noted;
        let or_gone = queue.or_gone;
        let mut queues = shard.queues();
        queues.insert(Name::of(key), queue);
        shard.count(queues.len(), (0, or_gone));
    }

    /// How many keys are waited for.
    pub(crate) fn waited_keys(&self) -> WaitedKeys {
        let sum = |count: fn(&Shard) -> &AtomicUsize| self.shards.iter().map(|shard| count(shard).load(Ordering::Relaxed)).sum();
        WaitedKeys { keys: sum(|shard| &shard.keys), or_gone: sum(|shard| &shard.keys_or_gone) }
    }
}
