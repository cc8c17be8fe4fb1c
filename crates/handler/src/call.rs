//! What a handler gets: its arguments, its reply, its access to the keys, and no more.
//!
//! The type of the call is the permission. A [`ReadCall`] holds a `Reader`, which has no way to write; a [`WriteCall`] holds a
//! `Writer` whose declared keys the session has locked; an [`AdminCall`] may change the client and the instance.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use almandine_base::events::Classes;
use almandine_config::Settings;
use almandine_config::config::View;
use almandine_instance::pubsub::Subscribers;
use almandine_instance::{Instance, WorkerStatistics};
use almandine_keyspace::{Accessor, GlanceId, Key, Kind, Missing, Reader, Writer};
use almandine_resp::{Args, Reply};
use almandine_script::RecentScripts;

use crate::blocking::Block;
use crate::client::Client;
use crate::computation::{Computation, ROUNDS_MAX};
use crate::errors::CommandError;
use crate::stop::{Outcome, Stop};
use crate::table::Table;

/// What stays the same for all commands of a batch: one per worker.
pub struct Context {
    /// The server.
    pub instance: Arc<Instance>,
    /// All commands.
    pub table: &'static Table,
    /// The settings as of the start of the batch.
    pub view: View,
    /// The worker's number.
    pub worker: usize,
    /// Which of the worker's connections listen to what.
    pub subscribers: RefCell<Subscribers>,
    /// The scripts that the worker has run last.
    pub recent_scripts: RefCell<RecentScripts>,
}

impl Context {
    /// That of a thread which has run nothing.
    #[must_use]
    pub fn new(instance: Arc<Instance>, table: &'static Table, worker: usize) -> Self {
        let view = View::new(&instance.config);
        Self { instance, table, view, worker, subscribers: RefCell::default(), recent_scripts: RefCell::default() }
    }

    /// The settings as of the start of the batch.
    #[inline]
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.view.settings()
    }

    /// `proto-max-bulk-len`: the longest string in bytes.
    #[must_use]
    pub fn string_bytes_max(&self) -> usize {
        usize::try_from(self.settings().connections.bulk_bytes_max).unwrap_or(usize::MAX)
    }

    /// This worker's statistics.
    #[inline]
    #[must_use]
    pub fn statistics(&self) -> &WorkerStatistics {
        self.instance.statistics.worker(self.worker)
    }
}

/// Elements that an event is about. None are gathered while no consumer wants them.
#[derive(Debug, Default)]
pub struct ToldElements<'c>(Option<Vec<&'c [u8]>>);

impl<'c> ToldElements<'c> {
    /// Adds one.
    #[inline]
    pub fn push(&mut self, element: &'c [u8]) {
        if let Some(elements) = &mut self.0 {
            elements.push(element);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'c [u8]> {
        self.0.iter().flatten().copied()
    }
}

/// Classes of events that tell what was there before.
const REPLACED: Classes = Classes::OVERWRITTEN.union(Classes::TYPE_CHANGED);

/// The first key of a command, hashed when the batch was planned. Position 0 is none: that argument is the command's name.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlannedKey {
    /// Its argument index.
    pub position: u16,
    /// The namespace that the client's database had then.
    pub namespace: u16,
    /// What the session's glance at it has to say.
    pub glance: GlanceId,
    /// Its hash in that namespace.
    pub hash: u64,
}

impl PlannedKey {
    /// The key as planned, when `position` is the planned one.
    #[inline]
    #[must_use]
    pub fn at<'c>(&self, args: Args<'c>, position: usize) -> Option<Key<'c>> {
        let planned = position == usize::from(self.position);
        planned.then(|| Key { namespace: self.namespace, glance: self.glance, bytes: args.at(position), hash: self.hash })
    }
}

/// A command on keys, to which `K` is its access.
pub struct KeyCall<'c, K> {
    /// The arguments; argument 0 is the command's name.
    pub args: Args<'c>,
    /// The keys of the client's database.
    pub keys: K,
    /// The reply.
    pub reply: Reply<'c>,
    /// The connection.
    pub client: &'c Client,
    /// Worker and instance.
    pub context: &'c Context,
    /// See [`PlannedKey`].
    pub planned: PlannedKey,
}

/// A command that reads.
pub type ReadCall<'c> = KeyCall<'c, Reader<'c>>;

/// A command that writes. Its declared keys are locked.
pub type WriteCall<'c> = KeyCall<'c, Writer<'c>>;

/// A command about the connection or the server.
pub struct AdminCall<'c> {
    /// The arguments; argument 0 is the command's name.
    pub args: Args<'c>,
    /// Access to all databases.
    pub accessor: &'c mut Accessor,
    /// The reply.
    pub reply: Reply<'c>,
    /// The connection.
    pub client: &'c mut Client,
    /// Worker and instance.
    pub context: &'c Context,
    /// The batch's time, Unix milliseconds.
    pub now_ms: i64,
}

/// Access to keys, which always allows reading.
pub trait KeyAccess<'c> {
    /// The reading part.
    fn reader(&self) -> &Reader<'c>;

    /// The same, to read with.
    fn reader_mut(&mut self) -> &mut Reader<'c>;
}

impl<'c> KeyAccess<'c> for Reader<'c> {
    #[inline]
    fn reader(&self) -> &Self {
        self
    }

    #[inline]
    fn reader_mut(&mut self) -> &mut Self {
        self
    }
}

impl<'c> KeyAccess<'c> for Writer<'c> {
    #[inline]
    fn reader(&self) -> &Reader<'c> {
        self
    }

    #[inline]
    fn reader_mut(&mut self) -> &mut Reader<'c> {
        self
    }
}

impl<'c, K: KeyAccess<'c>> KeyCall<'c, K> {
    /// The key at argument `position`.
    #[inline]
    #[must_use]
    pub fn key(&self, position: usize) -> Key<'c> {
        self.planned.at(self.args, position).unwrap_or_else(|| self.keys.reader().key(self.args.at(position)))
    }

    /// The batch's time, Unix milliseconds.
    #[inline]
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.keys.reader().now_ms()
    }

    /// Counts a look-up for `keyspace_hits` and `keyspace_misses`, and states the event of one that finds no key. Every read
    /// command calls it once per key, and write commands that also answer a value, as GETDEL does.
    #[inline]
    pub fn looked_up(&mut self, key: Key<'_>, found: bool) {
        self.context.statistics().looked_up(found);
        if !found {
            self.event(Classes::MISS, "keymiss", key);
        }
    }

    /// As [`KeyCall::looked_up`], of the key at argument `position`. It costs less, since the key is not kept for the miss.
    #[inline]
    pub fn looked_up_at(&mut self, position: usize, found: bool) {
        self.context.statistics().looked_up(found);
        if !found {
            self.missed_at(position);
        }
    }

    #[cold]
    fn missed_at(&mut self, position: usize) {
        let key = self.key(position);
        self.event(Classes::MISS, "keymiss", key);
    }

    /// States an event of a key, which the command has latched.
    #[inline]
    pub fn event(&mut self, class: Classes, name: &'static str, key: Key<'_>) {
        if self.keys.reader().published().any(class) {
            self.keys.reader_mut().events().state(class, name, key);
        }
    }

    /// States that elements were taken out of a key, which is gone when none is left.
    #[inline]
    pub fn taken(&mut self, class: Classes, name: &'static str, key: Key<'_>, emptied: bool) {
        self.event(class, name, key);
        if emptied {
            self.event(Classes::GENERIC, "del", key);
        }
    }

    /// As [`KeyCall::event`], for a key of any database.
    #[inline]
    pub fn event_in(&mut self, db: u16, class: Classes, name: &'static str, key: &[u8]) {
        if self.keys.reader().published().any(class) {
            self.keys.reader_mut().events().state_in(db, class, name, key);
        }
    }

    /// As [`KeyCall::event`], about elements of the key.
    #[inline]
    pub fn event_of<'m>(&mut self, class: Classes, name: &'static str, key: Key<'_>, elements: impl Iterator<Item = &'m [u8]>) {
        if self.keys.reader().published().any(class) {
            self.keys.reader_mut().events().state_of(class, name, key, elements);
        }
    }

    /// As [`KeyCall::taken`], about these elements.
    #[inline]
    pub fn taken_elements(&mut self, class: Classes, name: &'static str, key: Key<'_>, elements: &ToldElements<'_>, emptied: bool) {
        self.event_of(class, name, key, elements.iter());
        if emptied {
            self.event(Classes::GENERIC, "del", key);
        }
    }

    /// Where elements are gathered that an event of this class will be about.
    #[inline]
    #[must_use]
    pub fn told_elements(&self, class: Classes) -> ToldElements<'c> {
        ToldElements(self.keys.reader().published().names_elements(class).then(Vec::new))
    }

    /// The type of the value that a latched key has, for [`KeyCall::replaced`]; none without a key, and without a consumer.
    ///
    /// # Errors
    /// When the value is not at hand.
    #[inline]
    pub fn replaces(&mut self, key: Key<'_>) -> Result<Option<Kind>, Missing> {
        if !self.keys.reader().published().any(REPLACED) {
            return Ok(None);
        }
        Ok(self.keys.reader_mut().metadata(key)?.map(|metadata| metadata.kind))
    }

    /// States that a value of one type has replaced one of another or the same.
    #[inline]
    pub fn replaced(&mut self, key: Key<'_>, old: Option<Kind>, new: Kind) {
        if let Some(old) = old {
            self.event(Classes::OVERWRITTEN, "overwritten", key);
            if old != new {
                self.event(Classes::TYPE_CHANGED, "type_changed", key);
            }
        }
    }

    /// Whether the command may compute in slices, for the `round`th time from 0 on: not where others wait for its reply, as in
    /// EXEC, nor when it has been in vain often enough.
    #[must_use]
    pub fn may_compute(&self, round: u32) -> bool {
        self.reply.out.may_stream() && round < ROUNDS_MAX
    }

    /// Begins a computation, of which the command will take the result with [`KeyCall::computed`] when it is run again. Returns
    /// what the command must return.
    pub fn compute(&self, computation: impl Computation, round: u32) -> Stop {
        debug_assert!(self.may_compute(round), "nothing waits for the reply");
        self.client.computing.begin(self.args, Box::new(computation), round)
    }

    /// The result that was computed for this command, and in which round, if one was.
    ///
    /// # Errors
    /// When there was no memory for it.
    pub fn computed<C: Computation>(&self) -> Result<Option<(Box<C>, u32)>, CommandError> {
        self.client.computing.take(self.args)
    }

    /// The places among `keys` of those at which the command must look: of all of them, but of the one that is ready when the
    /// command has waited for it.
    pub fn candidates(&self, keys: Range<usize>) -> impl Iterator<Item = usize> + use<'c, K> {
        let (args, serving) = (self.args, self.client.blocking.serving.clone());
        keys.filter(move |&at| serving.as_ref().is_none_or(|ready| **ready == *args.at(at)))
    }

    /// As [`KeyCall::candidates`]; of a command that has waited also those whose keys the unit of work has latched: so it
    /// answers all that this unit has made ready. Those of other units come later.
    pub fn candidates_together(&mut self, keys: Range<usize>) -> Vec<usize> {
        let (args, serving, reader) = (self.args, self.client.blocking.serving.as_ref(), self.keys.reader_mut());
        let mut is_one = |bytes: &[u8]| {
            let key = reader.key(bytes);
            serving.is_none_or(|ready| **ready == *bytes || reader.plan().holds(key))
        };
        keys.filter(|&at| is_one(args.at(at))).collect()
    }

    /// Lets the client wait, for the command has found nothing. Returns what the command must return.
    ///
    /// # Errors
    /// [`Stop::Waiting`], but within a unit of work, where no client can wait: there the reply is that the time is up.
    pub fn block(&mut self, block: Block) -> Outcome {
        let blocking = &self.client.blocking;
        if blocking.serving.is_some() || !self.keys.reader_mut().plan().in_unit() {
            return Err(Stop::Waiting(Box::new(block)));
        }
        block.at_once.write(&mut self.reply);
        Ok(())
    }
}
