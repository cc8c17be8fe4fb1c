//! An accessor: one worker's way to the databases.

use crate::{Keyspace, Reader, Writer};
use almandine_base::events::Classes;
use almandine_store::{Cold, Expected, Fetcher, GlanceId, Session, Stage};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A key with its hash. The hash belongs to the namespace that its database had when it was computed; readers and writers
/// notice when that has changed (FLUSHDB, SWAPDB, SELECT in the same batch) and compute it anew.
pub type Key<'k> = almandine_store::Key<'k>;

/// The unit of work that an accessor is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// None: each command is one by itself.
    #[default]
    Command,
    /// Its latches are held.
    Planned,
    /// So are these, and further keys are latched when they show.
    Growing,
    /// All others are kept out.
    Alone,
}

/// Access for one worker thread.
pub struct Accessor {
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) session: Session,
    /// A packed value that is being changed.
    pub(crate) scratch: Vec<u8>,
    /// What is done to it, as effects have it.
    pub(crate) edits: Vec<u8>,
    pub(crate) hashes: Vec<u64>,
    /// Of each hash of a unit, whether its key may be written.
    pub(crate) modes: Vec<bool>,
    pub(crate) unit: Unit,
    /// Elements of the group that will be looked up.
    elements: Vec<Expected>,
    /// Namespaces of other databases, fixed for as long as one reader or writer lives.
    pub(crate) namespaces: Vec<(u16, u16)>,
    /// Which events are told, as of the beginning of the batch.
    pub(crate) published: Classes,
    /// Whether there are units of work whose keys show while they run.
    pub(crate) meets_growing: bool,
    /// Whether time passes within a batch, see [`UnitOfWork::follow_clock`](crate::UnitOfWork::follow_clock).
    pub(crate) follows_clock: bool,
    /// Where a look for a random key goes on that has met records on the device.
    pub(crate) random_walk: Option<RandomWalk>,
}

/// A look for a random key: through the keyspace from some place on, once around.
#[derive(Clone, Copy)]
pub(crate) struct RandomWalk {
    pub(crate) namespace: u16,
    pub(crate) random: u64,
    /// Where it began.
    start: u64,
    pub(crate) cursor: u64,
    wrapped: bool,
    /// Its next step looks at a part that has keys, as far as that is known: one of all of them is taken.
    pub(crate) in_part: bool,
}

impl RandomWalk {
    pub(crate) fn new(session: &mut Session, namespace: u16, random: u64) -> Self {
        let part = session.keys(namespace).random_cursor(random);
        let start = part.unwrap_or(random >> 16);
        Self { namespace, random, start, cursor: start, wrapped: false, in_part: part.is_some() }
    }

    /// Goes on from `cursor`. False when the walk has been around.
    pub(crate) fn go_on(&mut self, cursor: u64) -> bool {
        let around = self.wrapped && (cursor == 0 || cursor > self.start);
        self.wrapped |= cursor == 0;
        self.cursor = cursor;
        self.in_part = false;
        !around
    }
}

impl Accessor {
    /// Keys that are used together: their cache lines are asked for together.
    #[inline]
    pub fn group(&mut self) -> KeyGroup<'_> {
        KeyGroup { accessor: self }
    }
}

/// Keys that are used together: their cache lines are asked for together.
pub struct KeyGroup<'a> {
    pub(crate) accessor: &'a mut Accessor,
}

impl KeyGroup<'_> {
    /// Begins a group of keys that are used together.
    #[inline]
    pub fn begin(&mut self) {
        self.accessor.session.ahead().forget_glances();
        self.accessor.elements.clear();
    }

    /// A key of the group: asks the cache for its index bucket. The result belongs into the [`Key`].
    #[inline]
    pub fn expect(&mut self, hash: u64) -> GlanceId {
        self.accessor.session.ahead().expect(hash)
    }

    /// An element of the collection at an expected key will be looked up, and perhaps changed.
    #[inline]
    pub fn expect_element(&mut self, key: GlanceId, element: &[u8], write: bool) {
        self.accessor.elements.push(Expected { key, hash: self.accessor.keyspace.types.placement.hash(element), write });
    }

    /// Asks the cache once more for what the key behind an expected one needs: what runs meanwhile has taken its place.
    #[inline]
    pub fn prefetch_next(&mut self, glance: GlanceId) {
        self.accessor.session.ahead().prefetch_next(glance);
    }

    /// Asks the cache for the records of the group's keys, whose buckets should have arrived, and for the elements in them.
    #[inline(always)]
    pub fn prefetch(&mut self) {
        // A single key gains nothing: its bucket would be waited for at once.
        if self.accessor.session.ahead().expected() > 1 {
            self.accessor.session.ahead().glance();
            if self.accessor.elements.len() > 1 && !self.accessor.in_unit() {
                self.accessor.session.ahead().prefetch_elements(&self.accessor.elements);
            }
        }
    }
}

impl Accessor {
    pub(crate) fn new(keyspace: Arc<Keyspace>, session: Session) -> Self {
        Self {
            keyspace,
            session,
            scratch: Vec::with_capacity(4096),
            edits: Vec::new(),
            hashes: Vec::with_capacity(64),
            modes: Vec::new(),
            unit: Unit::Command,
            elements: Vec::with_capacity(64),
            namespaces: Vec::new(),
            published: Classes::default(),
            meets_growing: false,
            follows_clock: false,
            random_walk: None,
        }
    }

    /// The databases.
    #[must_use]
    pub fn keyspace(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// Begins a batch of commands: enters the epoch. Records expire by `now_ms`.
    #[inline]
    pub fn begin_batch(&mut self, now_ms: i64) {
        self.look_around();
        self.session.enter(now_ms);
    }

    /// Notes what a batch depends on that changes seldom.
    #[inline]
    pub(crate) fn look_around(&mut self) {
        self.published = self.keyspace.listeners.published();
        self.meets_growing = self.keyspace.waiters.meet_growing.load(Ordering::Relaxed);
    }

    /// Says whether keys get no warmer by being used from now on (CLIENT NO-TOUCH).
    #[inline]
    pub fn set_quiet(&self, quiet: bool) {
        self.session.heat().set_quiet(quiet);
    }

    /// Ends a batch.
    #[inline]
    pub fn end_batch(&mut self) {
        self.tell_left();
        self.session.leave();
    }

    /// Counts bytes that the caller has taken beside the store since the last batch, for buffers of connections say, against the
    /// budget: the end of this batch evicts for them.
    pub fn count_growth(&mut self, bytes: usize) {
        self.session.count_growth(bytes);
    }

    /// Does something between two commands of a batch that may wait for the background.
    pub fn outside_epoch(&mut self, work: impl FnOnce()) {
        self.leave_epoch_for(|_| work());
    }

    /// Leaves the epoch while it does something that may wait, within a unit or not. No latch is held.
    pub(crate) fn leave_epoch_for(&mut self, work: impl FnOnce(&mut Self)) {
        let (now_ms, open) = (self.session.now_ms(), self.in_unit());
        self.session.notes().hold_group(open);
        self.session.leave();
        work(self);
        self.session.enter(now_ms);
        self.session.notes().hold_group(false);
    }

    /// Reads from the device, at once, what has been missed, and gives it to the batch.
    pub(crate) fn read_wanted(&mut self) {
        let mut stage = self.session.staging().detach();
        self.stage_wanted(&mut stage);
        self.session.staging().attach(stage);
    }

    /// As [`Accessor::read_wanted`], outside the epoch, so that no other worker waits for the device, too. No latch is held.
    pub(crate) fn read_wanted_outside_epoch(&mut self) {
        self.wait_outside_epoch(Self::stage_wanted);
    }

    /// Waits for something outside the epoch, in the middle of a unit of work. No latch is held.
    pub(crate) fn wait_outside_epoch(&mut self, wait: impl FnOnce(&mut Self, &mut Stage)) {
        // What was read before is given back within the epoch: copies of it are made, in pages that must not leave memory.
        let mut stage = self.session.staging().detach();
        self.leave_epoch_for(|accessor| wait(accessor, &mut stage));
        self.session.staging().attach(stage);
    }

    fn stage_wanted(&mut self, stage: &mut Stage) {
        self.session.cold().stage_blocking(&mut self.session.cold().take_wanted(), stage, &mut Fetcher::default());
    }

    /// Leaves the epoch for a moment in the middle of long work that depends on nothing it has looked at before. Not within a
    /// unit of work.
    pub(crate) fn renew_epoch(&mut self) {
        if !self.in_unit() && !self.session.plan().holds_any() {
            self.outside_epoch(|| {});
        }
    }

    /// What a worker has to do with records that are on the device only.
    #[inline]
    #[must_use]
    pub fn cold(&self) -> Cold<'_> {
        self.session.cold()
    }

    /// Gives the batch records that were read from the device.
    pub fn attach(&mut self, stage: Stage) {
        self.session.staging().attach(stage);
    }

    /// Takes them back.
    pub fn detach(&mut self) -> Stage {
        self.session.staging().detach()
    }

    /// A key of a database with its hash.
    #[inline]
    #[must_use]
    pub fn key<'k>(&self, db: u16, bytes: &'k [u8]) -> Key<'k> {
        self.session.key(self.keyspace.namespace(db), bytes)
    }

    /// Read access to a database.
    #[inline]
    pub fn reader(&mut self, db: u16) -> Reader<'_> {
        Reader::new(self, db)
    }

    /// Read and write access to a database.
    #[inline]
    pub fn writer(&mut self, db: u16) -> Writer<'_> {
        Writer::new(self, db)
    }
}
