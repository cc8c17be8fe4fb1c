//! Planning a group of commands: which handlers, which keys, and their cache lines on the way before anybody needs them.

use almandine_commands::{Flags, Plan, PlannedKey, Table};
use almandine_keyspace::Accessor;
use almandine_resp::{Args, Batch};

/// Commands that are planned before the first of them runs. Enough to hide the latency of memory, and few enough that what was prefetched
/// is still in the first cache level when it is used.
pub const GROUP_COMMANDS_MAX: usize = 64;

/// Most keys of one command that are prefetched.
const PREFETCHED_KEYS_MAX: usize = 256;

/// The index of a command that must not run: unknown, or called with a wrong number of arguments.
const REFUSED: u16 = u16::MAX;

/// One command of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    command: u16,
    pub(crate) key: PlannedKey,
}

/// Plans groups; one per worker.
#[derive(Debug)]
pub(crate) struct Planner {
    pub(crate) table: &'static Table,
    planned: Vec<Planned>,
    /// Hashes of the keys behind the first of commands with several.
    more_keys: Vec<u64>,
}

impl Planner {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::shared(),
            planned: Vec::with_capacity(GROUP_COMMANDS_MAX),
            more_keys: Vec::with_capacity(PREFETCHED_KEYS_MAX),
        }
    }

    /// The planned commands of the current group.
    #[inline]
    pub(crate) fn group(&self) -> &[Planned] {
        &self.planned
    }

    /// The command that `planned` runs, or `None` when it must be refused.
    #[inline]
    pub(crate) fn plan(&self, planned: Planned) -> Option<&'static Plan> {
        (planned.command != REFUSED).then(|| self.table.plan(planned.command))
    }

    /// Plans commands from `first` on and asks for their cache lines. The group ends at [`GROUP_COMMANDS_MAX`], at the end of the batch,
    /// or behind a command after which the rest may mean something else.
    #[inline]
    pub(crate) fn plan_group(&mut self, accessor: &Accessor, db: u16, batch: &Batch, input: &[u8], first: usize) {
        self.planned.clear();
        self.more_keys.clear();
        for command in first..batch.len().min(first + GROUP_COMMANDS_MAX) {
            if self.plan_one(accessor, db, batch.args(command, input)).any(Flags::BARRIER) {
                break;
            }
        }
        // A single key gains nothing: its bucket would be waited for at once.
        if self.planned.len() + self.more_keys.len() > 1 {
            self.planned.iter().filter(|planned| planned.key.position != 0).for_each(|planned| {
                accessor.prefetch_record(planned.key.hash);
            });
            self.more_keys.iter().for_each(|hash| accessor.prefetch_record(*hash));
        }
    }

    /// Plans one command by itself.
    pub(crate) fn plan_alone(&mut self, accessor: &Accessor, db: u16, args: Args<'_>) -> Planned {
        self.planned.clear();
        self.more_keys.clear();
        self.plan_one(accessor, db, args);
        self.planned[0]
    }

    #[inline]
    fn plan_one(&mut self, accessor: &Accessor, db: u16, args: Args<'_>) -> Flags {
        let plan = self
            .table
            .lookup(args.at(0))
            .and_then(|plan| if plan.flags.any(Flags::CONTAINER) { self.subcommand(plan, args) } else { Some(plan) });
        let Some(plan) = plan.filter(|plan| plan.accepts(args.len())) else {
            self.planned.push(Planned { command: REFUSED, key: PlannedKey::default() });
            return Flags::default();
        };
        let key = if plan.key != 0 {
            let key = accessor.key(db, args.at(usize::from(plan.key)));
            accessor.prefetch_bucket(key.hash);
            PlannedKey { position: plan.key, namespace: key.namespace, hash: key.hash }
        } else if plan.flags.any(Flags::MANY_KEYS) {
            self.plan_many(accessor, db, plan, args)
        } else {
            PlannedKey::default()
        };
        self.planned.push(Planned { command: plan.index, key });
        plan.flags
    }

    fn subcommand<'t>(&self, container: &'t Plan, args: Args<'_>) -> Option<&'t Plan>
    where
        Self: 't,
    {
        match args.get(1) {
            Some(name) => self.table.subcommand(container, name),
            // The arity of the container refuses this one.
            None => Some(container),
        }
    }

    fn plan_many(&mut self, accessor: &Accessor, db: u16, plan: &Plan, args: Args<'_>) -> PlannedKey {
        let shape = &self.table.entry(plan.index).shape;
        let mut first = PlannedKey::default();
        for (position, _) in shape.keys(args.len(), |argument| args.at(argument)).take(PREFETCHED_KEYS_MAX) {
            let key = accessor.key(db, args.at(position));
            accessor.prefetch_bucket(key.hash);
            if first.position != 0 {
                self.more_keys.push(key.hash);
            } else if let Ok(position) = u16::try_from(position) {
                first = PlannedKey { position, namespace: key.namespace, hash: key.hash };
            }
        }
        first
    }
}
