//! A unit of work: commands that are planned together and latched together, and run one after the other.
//!
//! Their keys are hashed once. Nothing is glanced at: the latches of the unit bring what its keys need into the cache.

use almandine_base::Output;
use almandine_base::events::Classes;
use almandine_call::{Client, CommandError, Context, Dispatch, Flags, Handler, PlannedKey, follow, tracking};
use almandine_command_spec::Access;
use almandine_keyspace::{Accessor, Filled};
use almandine_resp::{Args, Reply};

use crate::observe::hot_keys;
use crate::run::execute::answer;
use crate::run::execution::Execution;
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::plan::Planned;
use crate::steps::reply;
use crate::steps::residency;

/// Times that a command of a unit that is alone reads what it has missed before that counts as lost.
const READS_MAX: u32 = 1000;

/// The commands of a unit.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'u> {
    /// Where they lie: from the one numbered `first` on, as many as there are plans.
    pub(crate) received: Received<'u>,
    pub(crate) first: usize,
    pub(crate) plans: &'u [Planned],
    /// Bytes that they take, at most.
    pub(crate) bytes: usize,
    /// Whether it may touch more than the keys that its commands declare.
    pub(crate) alone: bool,
}

impl<'u> Unit<'u> {
    fn commands(self) -> impl Iterator<Item = (&'static Dispatch, &'u Planned, Args<'u>)> {
        self.numbered().map(|(_, dispatch, planned, args)| (dispatch, planned, args))
    }

    /// Its commands with their numbers among those received.
    fn numbered(self) -> impl Iterator<Item = (usize, &'static Dispatch, &'u Planned, Args<'u>)> {
        let Self { received, first, plans, .. } = self;
        let planned = plans.iter().zip(first..);
        planned.filter_map(move |(planned, command)| Some((command, planned.dispatch?, planned, received.args(command))))
    }

    /// The keys that its commands declare.
    pub(crate) fn keys(self, context: &Context) -> impl Iterator<Item = (&'u [u8], Access)> {
        self.commands().flat_map(|(dispatch, _, args)| {
            let keys = context.table.row(dispatch.index).shape.keys(args.len(), move |argument| args.at(argument));
            keys.map(move |(position, access)| (args.at(position), access))
        })
    }

    /// These keys, with how many elements each may get.
    pub(crate) fn filled(self, context: &Context, db: u16) -> Vec<Filled<'u>> {
        let arguments = self.commands().map(|(_, _, args)| args.len()).sum();
        let filled = self.commands().flat_map(|(dispatch, _, args)| {
            let keys = context.table.row(dispatch.index).shape.keys(args.len(), move |argument| args.at(argument));
            keys.map(move |key| residency::filled(db, args, key, arguments))
        });
        filled.collect()
    }
}

/// Plans a command of a unit: its keys become keys of the unit.
#[inline]
pub(crate) fn plan(context: &Context, accessor: &mut Accessor, db: u16, dispatch: &'static Dispatch, args: Args<'_>) -> Planned {
    // What has expired is removed where it is met, while that is told.
    let may_write = matches!(dispatch.run, Handler::Write(_)) || accessor.publishes(Classes::EXPIRED.union(Classes::MISS));
    let mut plan_key = |position: usize| {
        let key = accessor.plan_key(db, args.at(position), may_write);
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
    Planned { dispatch: Some(dispatch), key }
}

impl Worker {
    /// Runs the commands of a unit that has begun, one after the other, and answers them as an array. Fast ones are timed together, as
    /// everywhere.
    pub(crate) fn run_unit(&mut self, client: &mut Client, unit: Unit<'_>, out: &mut Output) {
        Reply::new(out, client.version).array(unit.plans.len());
        out.set_whole(true);
        let watched_bytes = self.after_command.watch(unit.bytes);
        let each = self.timing.exact || self.context.node.statistics.hot_keys.is_active();
        for (command, dispatch, planned, args) in unit.numbered() {
            if let Some(refused) = follow::refused(client, self.context.table, dispatch, args) {
                let error = follow::deny_queued(&self.context, client, refused, self.now_ms);
                reply::error(&self.context, client, out, &error);
                continue;
            }
            self.show(client, dispatch, args);
            let Self { accessor, context, timing, after_command, now_ms, .. } = self;
            let alone = each || !dispatch.flags.any(Flags::FAST);
            let (mut start_ns, mut elapsed_ns) = (0, 0);
            if alone {
                start_ns = timing.begin_alone(context, client, dispatch, *now_ms);
            }
            let tracked = tracking::before_read(client, dispatch, args, context);
            let before = out.len();
            let mut execution = Execution { client, accessor, context, out, now_ms: *now_ms };
            let mut reads = 0;
            while answer(&mut execution, dispatch, planned, args).is_err() {
                reads += 1;
                if reads > READS_MAX || !execution.accessor.read_missing() {
                    execution.accessor.forget_wanted();
                    reply::error(context, execution.client, execution.out, &CommandError::StorageUnreadable);
                    break;
                }
            }
            if alone {
                elapsed_ns = timing.end_alone(context, execution.client, dispatch, args, start_ns);
            } else {
                timing.count(dispatch.index, command);
            }
            if let Some(tracked) = tracked {
                tracking::after_read(tracked, execution.client, dispatch, args, context);
            }
            let written = execution.out.len() - before;
            if each {
                hot_keys::record(context, dispatch, args, elapsed_ns, written);
            }
            if written >= watched_bytes {
                after_command.of(&mut execution, dispatch, args, written);
            }
            after_command.tell_changes(execution.client, execution.accessor, context);
        }
        out.set_whole(false);
    }
}
