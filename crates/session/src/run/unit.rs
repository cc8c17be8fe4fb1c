//! A unit of work: commands that are planned together and latched together, and run one after the other.
//!
//! Their keys are hashed once. Nothing is glanced at: the latches of the unit bring what its keys need into the cache.

use std::sync::atomic::Ordering::Relaxed;

use almandine_base::Output;
use almandine_base::events::Classes;
use almandine_command_spec::Access;
use almandine_handler::{Client, Context, Dispatch, Flags, Handler, PlannedKey, database, follow};
use almandine_keyspace::{Accessor, Filled};
use almandine_resp::Args;

use crate::run::outcome::Pending;
use crate::run::runner::{Called, steps};
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::plan::Planned;
use crate::steps::reply;
use crate::steps::residency;

/// Steps around the commands of a unit, which EXEC ends.
const IN_UNIT: u8 = steps::MONITOR | steps::TRACK | steps::HOT_KEYS | steps::NOTIFY | steps::READ_AT_ONCE;

/// The commands of a unit.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'u> {
    /// Where they lie: from the one numbered `first` on, as many as there are plans.
    pub(crate) received: Received<'u>,
    pub(crate) first: usize,
    pub(crate) plans: &'u [Planned],
    /// The database of the first of them, and where another one begins.
    pub(crate) db: u16,
    pub(crate) selections: &'u [Selection],
    /// What scripts of theirs use beside the keys that they declare.
    pub(crate) scripts: &'u [ScriptKey],
    /// Bytes that they take, at most.
    pub(crate) bytes: usize,
    /// Whether it may touch more than the keys that its commands declare.
    pub(crate) alone: bool,
}

/// From a command of a unit on, its commands use this database (SELECT).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub(crate) from: usize,
    pub(crate) db: u16,
}

/// A key that a script of a unit uses, by what its code says.
#[derive(Debug)]
pub(crate) struct ScriptKey {
    pub(crate) db: u16,
    pub(crate) key: Box<[u8]>,
    /// Whether the script may change its keys.
    pub(crate) writes: bool,
}

/// A command of a unit, with its number in it and its database.
struct Command<'u> {
    number: usize,
    db: u16,
    dispatch: &'static Dispatch,
    planned: &'u Planned,
    args: Args<'u>,
}

impl<'u> Command<'u> {
    /// The keys that it declares, and the one of another database that it may put a value to: each with its database and its place.
    fn keys(self, context: &Context) -> impl Iterator<Item = (u16, usize, Access)> + use<'u> {
        let Self { db, dispatch, args, .. } = self;
        let own = context.table.row(dispatch.index).shape.keys(args.len(), move |argument| args.at(argument));
        let other = other_key(context, dispatch, args);
        own.map(move |(position, access)| (db, position, access)).chain(other.map(|(db, position)| (db, position, Access::Create)))
    }
}

fn other_key(context: &Context, dispatch: &Dispatch, args: Args<'_>) -> Option<(u16, usize)> {
    if !dispatch.flags.any(Flags::OTHER_DATABASE) {
        return None;
    }
    database::other_key(context.table.row(dispatch.index).command.spec.traits, args, context.instance.keyspace.databases())
}

/// The database that a command of a unit selects for those behind it, if it will not fail.
#[cold]
pub(crate) fn selected(context: &Context, client: &Client, db: u16, dispatch: &Dispatch, args: Args<'_>) -> Option<u16> {
    if follow::refused_in(db, client, context.table, dispatch, args).is_some() {
        return None;
    }
    database::parse(args.at(1), context.instance.keyspace.databases()).ok()
}

impl<'u> Unit<'u> {
    fn commands(self) -> impl Iterator<Item = Command<'u>> {
        let Self { received, first, plans, mut db, selections, .. } = self;
        let mut selections = selections.iter().peekable();
        plans.iter().enumerate().filter_map(move |(number, planned)| {
            while let Some(selection) = selections.next_if(|selection| selection.from <= number) {
                db = selection.db;
            }
            Some(Command { number, db, dispatch: planned.dispatch?, planned, args: received.args(first + number) })
        })
    }

    /// The keys that its commands may use.
    pub(crate) fn keys(self, context: &Context) -> impl Iterator<Item = (u16, &'u [u8], Access)> {
        let own = self.commands().flat_map(|command| {
            let args = command.args;
            command.keys(context).map(move |(db, position, access)| (db, args.at(position), access))
        });
        own.chain(self.scripts.iter().map(|used| (used.db, &*used.key, Access::ReadUpdate)))
    }

    /// These keys, with how many elements each may get.
    pub(crate) fn filled(self, context: &Context) -> Vec<Filled<'u>> {
        let arguments = self.commands().map(|command| command.args.len()).sum();
        let filled = self.commands().flat_map(|command| {
            let args = command.args;
            command.keys(context).map(move |(db, position, access)| residency::filled(db, args, (position, access), arguments))
        });
        let written = self.scripts.iter().filter(|used| used.writes);
        filled.chain(written.map(|used| Filled { db: used.db, key: &used.key, elements: usize::MAX })).collect()
    }
}

/// Plans a command of a unit: its keys become keys of the unit.
#[inline]
pub(crate) fn plan(context: &Context, accessor: &mut Accessor, db: u16, dispatch: &'static Dispatch, args: Args<'_>) -> Planned {
    // What has expired is removed where it is met, while that is told.
    let may_write =
        matches!(dispatch.run, Handler::Write(_)) || accessor.changes().publishes(Classes::EXPIRED.union(Classes::MISS));
    let mut plan_key = |position: usize| {
        let key = accessor.unit().add(db, args.at(position), may_write);
        // A key beyond all positions is hashed when it is used.
        u16::try_from(position).map_or(PlannedKey::default(), |position| PlannedKey {
            position,
            namespace: key.namespace,
            glance: key.glance,
            hash: key.hash,
        })
    };
    let mut key = PlannedKey::default();
    if dispatch.key != 0 {
        key = plan_key(usize::from(dispatch.key));
    } else if dispatch.flags.any(Flags::MANY_KEYS) {
        let shape = &context.table.row(dispatch.index).shape;
        let mut positions = shape.keys(args.len(), |argument| args.at(argument)).map(|(position, _)| position);
        key = positions.next().map_or(key, &mut plan_key);
        for position in positions {
            plan_key(position);
        }
    }
    if let Some((other_db, position)) = other_key(context, dispatch, args) {
        accessor.unit().add(other_db, args.at(position), true);
    }
    Planned { dispatch: Some(dispatch), key }
}

impl Worker {
    /// Runs the commands of a unit that has begun, from the one numbered `next` on, one after the other, and answers them.
    /// Fast ones are timed together, as everywhere.
    ///
    /// # Errors
    /// The number of one whose script is suspended: it runs again when that has ended.
    pub(crate) fn run_unit(&mut self, client: &mut Client, unit: Unit<'_>, next: usize, out: &mut Output) -> Result<(), usize> {
        out.set_whole(true);
        let runner = &mut self.runner;
        let watched_bytes = runner.after_command.watch(unit.bytes);
        let each = runner.timing.exact || runner.context.instance.statistics.hot_keys.is_active();
        let output_max = output_max(&runner.context, client);
        for Command { number, db, dispatch, planned, args } in unit.commands().skip_while(|command| command.number < next) {
            debug_assert!(
                unit.alone || client.db == db,
                "INV-LATCH-3: a command runs on the database that its keys were planned for"
            );
            if let Some(refused) = follow::refused(client, runner.context.table, dispatch, args) {
                let error = follow::deny_queued(&runner.context, client, refused, runner.now_ms);
                reply::error(&runner.context, client, out, &error);
                continue;
            }
            let together = !each && dispatch.flags.any(Flags::FAST);
            let called = Called { dispatch, planned, number: unit.first + number, together, watched_bytes };
            let before = out.len();
            match runner.run::<IN_UNIT>(client, out, called, || args) {
                // The connection will be closed for what was there before. The other commands run, and no reply is kept.
                Ok(mark) if before > output_max => out.truncate(mark),
                Ok(_) => {}
                Err(pending) => {
                    debug_assert_eq!(pending, Pending::Script, "any other command of a unit has a reply, if only an error");
                    return Err(number);
                }
            }
        }
        out.set_whole(false);
        Ok(())
    }
}

/// Bytes of replies for which the client will be closed (`client-output-buffer-limit`). Those of a transaction are compared with
/// the limit when all of them are there.
fn output_max(context: &Context, client: &Client) -> usize {
    let limits = &context.settings().connections.output_buffer_limits;
    let limit = if client.shared.subscriptions.any.load(Relaxed) { limits.pubsub } else { limits.normal };
    usize::try_from(limit.hard_bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(usize::MAX)
}
