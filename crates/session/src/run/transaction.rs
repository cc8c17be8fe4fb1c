//! EXEC: the commands of a transaction as one unit of work.
//!
//! The unit is planned when its commands declare all keys that they use: the buckets of these, and of the watched keys, are
//! latched together. Else it runs alone: all other workers are outside their batches meanwhile. Before the first command runs,
//! everything that the declared keys need is at hand; if not, the connection waits for it and EXEC begins anew. So a transaction
//! is never undone, and a command that fails leaves the others standing, as in Redis.
//!
//! Commands wait for EXEC in a queue. When all of them have come together with EXEC, and none is about more than keys, they are
//! executed from where they lie in what was received, and nothing is queued.

use almandine_base::output::Mark;
use almandine_base::points::{Witness, witness};
use almandine_base::{Output, sometimes, step};
use almandine_command_spec::Access;
use almandine_config::choices::BusyScope;
use almandine_handler::{
    Client, CommandError, Context, Dispatch, Flags, Handler, Outcome, Queue, ScriptTurn, Stop, Transaction, Watching, errors,
    follow, footprint, tracking, transaction,
};
use almandine_io::clock;
use almandine_keyspace::{Accessor, Missing};
use almandine_resp::{Args, Batch, Reply};
use almandine_script::{Footprint, Program};

use crate::run::outcome::{BatchEnd, Executed, Pending};
use crate::run::runner::Runner;
use crate::run::script::begin::{TOLD, planned_keys};
use crate::run::unit::{ScriptKey, Selection, Unit, plan, selected};
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::script_run::RestOfExec;
use crate::state::worker::Worker;
use crate::steps::plan::Planned;
use crate::steps::reply;
use crate::steps::residency::{is_too_much, need_of};

/// Commands with one of these are queued in any case: what is about more than keys, or no part of a transaction.
const QUEUED_ALWAYS: Flags =
    Flags::ANY_KEY.with(Flags::SELECTS).with(Flags::NOT_QUEUED).with(Flags::NO_MULTI).with(Flags::CONTAINER);

/// An EXEC.
#[derive(Clone, Copy)]
struct Exec<'a> {
    dispatch: &'static Dispatch,
    args: Args<'a>,
}

impl Worker {
    /// Executes what the client has queued. Returns where the reply begins.
    pub(crate) fn execute_queued(
        &mut self,
        connection: &mut Connection,
        dispatch: &'static Dispatch,
        args: Args<'_>,
        out: &mut Output,
    ) -> Result<Mark, Pending> {
        let client = &mut connection.client;
        let mark = out.mark();
        let exec = Exec { dispatch, args };
        if let Some(ScriptTurn::Ended(replies)) = client.script.take().map(|turn| *turn) {
            self.answer_ended(connection, exec, replies, out);
            return Ok(mark);
        }
        let transaction = client.transaction.take().unwrap_or_default();
        if transaction.is_refused() {
            self.refuse_unit(connection, exec, &errors::transaction::REFUSED, out);
            return Ok(mark);
        }
        let queue = transaction.into_queue();
        let mut plans = std::mem::take(&mut self.unit.plans);
        let (selections, scripts) = self.plan_queued(client, &queue, &mut plans);
        let unit = Unit {
            received: Received { batch: queue.batch(), input: &[] },
            first: 0,
            plans: &plans,
            db: client.db,
            selections: &selections,
            scripts: scripts.as_deref().unwrap_or_default(),
            bytes: queue.memory_bytes(),
            alone: scripts.is_none(),
        };
        let executed = self.execute_unit(connection, exec, unit, 0, out);
        self.unit.keep_plans(plans);
        if let Err(pending) = executed {
            match self.runner.suspended.as_mut().and_then(|suspended| suspended.exec.as_mut()) {
                Some(rest) if pending == Pending::Script => rest.queue = queue,
                _ => connection.client.transaction = Some(Transaction::from(queue)),
            }
            return Err(pending);
        }
        self.unit.spare_queue = queue.emptied();
        Ok(mark)
    }

    /// Goes on with a transaction whose script has ended, in the unit that it has kept. False when another script of it is
    /// suspended.
    pub(crate) fn go_on_with_exec(&mut self, client: &mut Client, mut rest: Box<RestOfExec>) -> bool {
        let table = self.runner.context.table;
        let plan = |index: &u16| Planned { dispatch: Some(table.dispatch(*index)), ..Planned::default() };
        let plans: Vec<Planned> = rest.queue.indexes().iter().map(plan).collect();
        let RestOfExec { queue, next, out, start_ns } = &mut *rest;
        let received = Received { batch: queue.batch(), input: &[] };
        let (db, bytes) = (client.db, queue.memory_bytes());
        let unit = Unit { received, first: 0, plans: &plans, db, selections: &[], scripts: &[], bytes, alone: true };
        if let Err(number) = self.run_unit(client, unit, *next, out) {
            *next = number;
            if let Some(suspended) = &mut self.runner.suspended {
                suspended.exec = Some(rest);
            }
            return false;
        }
        client.computing.spend(clock::monotonic_ns().saturating_sub(*start_ns));
        client.script = Some(Box::new(ScriptTurn::Ended(std::mem::take(out))));
        client.transaction = Some(Transaction::from(rest.queue));
        true
    }

    /// Answers EXEC that has ended while its connection waited.
    #[cold]
    fn answer_ended(&mut self, connection: &mut Connection, exec: Exec<'_>, mut replies: Output, out: &mut Output) {
        let client = &mut connection.client;
        let queue = client.transaction.take().unwrap_or_default().into_queue();
        witness(Witness::Answered, client.shared.id);
        replies.flatten();
        out.bytes.extend_from_slice(&replies.bytes);
        let runner = &mut self.runner;
        let now_ns = runner.timing.begin_alone(&runner.context, client, exec.dispatch, runner.now_ms);
        let start_ns = now_ns.saturating_sub(client.computing.take_spent_ns());
        self.end_transaction(connection, exec, start_ns, Received { batch: queue.batch(), input: &[] });
        self.unit.spare_queue = queue.emptied();
    }

    /// Executes the transaction that the client has begun from where its commands lie in the batch, from the one numbered
    /// `first` on, up to EXEC. `None` when the commands have to be queued.
    pub(crate) fn execute_received(
        &mut self,
        connection: &mut Connection,
        received: Received<'_>,
        out: &mut Output,
        first: usize,
    ) -> Option<Executed> {
        let begun = connection.client.transaction.as_ref()?;
        if !begun.is_empty() || begun.is_refused() || connection.client.is_unusual() || self.watches_each() {
            return None;
        }
        let mut plans = std::mem::take(&mut self.unit.plans);
        let mut executed = None;
        if let Some(dispatch) = self.plan_received(&connection.client, received, first, &mut plans) {
            let commands = plans.len();
            let exec = Exec { dispatch, args: received.args(first + commands) };
            let (db, bytes) = (connection.client.db, received.input.len());
            let unit = Unit { received, first, plans: &plans, db, selections: &[], scripts: &[], bytes, alone: false };
            executed = Some(match self.execute_unit(connection, exec, unit, commands, out) {
                Ok(()) => Executed { commands: commands + 1, end: BatchEnd::Answered },
                Err(pending) => Executed { commands: 0, end: BatchEnd::Pending(pending) },
            });
        }
        self.unit.keep_plans(plans);
        executed
    }

    /// Plans the commands of a queue, each on the database that those before it have selected. Returns where another database
    /// begins, and what scripts use; nothing when what the commands use is not known.
    fn plan_queued(
        &mut self,
        client: &Client,
        queue: &Queue,
        plans: &mut Vec<Planned>,
    ) -> (Vec<Selection>, Option<Vec<ScriptKey>>) {
        let Runner { context, accessor, is_past, .. } = &mut self.runner;
        let (table, mut db, mut selections) = (context.table, client.db, Vec::new());
        let is_told = context.settings().process.busy_reply_scope == BusyScope::Node;
        let may_plan = !*is_past && !is_told;
        let mut scripts = Some(Vec::new());
        accessor.unit().plan();
        for (command, index) in queue.indexes().iter().enumerate() {
            let (dispatch, args) = (table.dispatch(*index), queue.batch().args(command, &[]));
            plans.push(plan(context, accessor, db, dispatch, args));
            if dispatch.flags.any(Flags::ANY_KEY)
                && let Some(known) = &mut scripts
                && !(may_plan && plan_script(context, accessor, (db, dispatch, args), known))
            {
                scripts = None;
            }
            if dispatch.flags.any(Flags::SELECTS)
                && let Some(selected) = selected(context, client, db, dispatch, args)
            {
                db = selected;
                selections.push(Selection { from: command + 1, db });
            }
        }
        (selections, scripts)
    }

    /// Plans the commands up to EXEC, which is returned; `None` when there is none, or a command in front of it has to be queued
    /// or refused.
    fn plan_received(
        &mut self,
        client: &Client,
        received: Received<'_>,
        first: usize,
        plans: &mut Vec<Planned>,
    ) -> Option<&'static Dispatch> {
        let Self { runner: Runner { context, accessor, .. }, planner, .. } = self;
        let refused = if context.instance.keyspace.over_limit() { Flags::DENY_OOM } else { Flags::default() };
        let not_here = QUEUED_ALWAYS.with(refused);
        accessor.unit().plan();
        for command in first..received.len() {
            let args = received.args(command);
            let dispatch = planner.resolve(args)?;
            if follow::refused(client, context.table, dispatch, args).is_some() {
                return None;
            }
            if dispatch.flags.any(Flags::EXECUTES) {
                return Some(dispatch);
            }
            if dispatch.flags.any(not_here) {
                return None;
            }
            plans.push(plan(context, accessor, client.db, dispatch, args));
        }
        None
    }

    /// Executes a transaction and answers EXEC; and before that, `queued` commands that they are queued.
    ///
    /// # Errors
    /// When records have to be read first: nothing has happened then. When a script of it is suspended.
    fn execute_unit(
        &mut self,
        connection: &mut Connection,
        exec: Exec<'_>,
        unit: Unit<'_>,
        queued: usize,
        out: &mut Output,
    ) -> Result<(), Pending> {
        let client = &mut connection.client;
        let runner = &mut self.runner;
        let start_ns = runner.timing.begin_alone(&runner.context, client, exec.dispatch, runner.now_ms);
        witness(Witness::Begins, client.shared.id);
        match self.begin(client, unit) {
            Ok(()) => {}
            Err(Stop::Error(error)) => {
                reply::queued(out, queued);
                self.refuse_unit(connection, exec, &errors::transaction::aborted(&error), out);
                return Ok(());
            }
            Err(Stop::Held) => {
                let Some(error) = self.runner.busy_with_carried() else { return Err(Pending::Held) };
                reply::queued(out, queued);
                self.refuse_unit(connection, exec, &errors::transaction::aborted(&error), out);
                return Ok(());
            }
            Err(_) => return Err(Pending::Records),
        }
        let broken = client.watching.as_ref().is_some_and(|watching| is_broken(&mut self.runner.accessor, watching));
        // The latches are kept from the comparison to the last command.
        step!(WatchUnderLatch, (), else {
            self.runner.accessor.unit().end();
            self.begin(client, unit).map_err(|_| Pending::Records)?
        });
        let mark = out.mark();
        reply::queued(out, queued);
        let mut reply = Reply::new(out, client.version);
        let ran = if broken {
            sometimes!("a watched key has changed");
            reply.null_array();
            Ok(())
        } else {
            reply.array(unit.plans.len());
            self.run_unit(client, unit, 0, out)
        };
        if let Err(next) = ran {
            let mut replies = Output::new();
            out.move_to(mark, &mut replies);
            if let Some(suspended) = &mut self.runner.suspended {
                suspended.exec = Some(Box::new(RestOfExec { queue: Box::default(), next, out: replies, start_ns }));
            }
            return Err(Pending::Script);
        }
        let runner = &mut self.runner;
        runner.end_unit();
        witness(Witness::Ran, connection.client.shared.id);
        runner.accessor.unit().remove_expired(unit.keys(&runner.context).map(|(db, key, _)| (db, key)));
        self.end_transaction(connection, exec, start_ns, unit.received);
        Ok(())
    }

    /// Ends a transaction of which no command runs, and replies why.
    #[cold]
    fn refuse_unit(&mut self, connection: &mut Connection, exec: Exec<'_>, error: &CommandError, out: &mut Output) {
        let (client, runner) = (&connection.client, &mut self.runner);
        let start_ns = runner.timing.begin_alone(&runner.context, client, exec.dispatch, runner.now_ms);
        runner.fail(client, out, exec.dispatch, error);
        self.end_transaction(connection, exec, start_ns, Received { batch: &Batch::new(), input: &[] });
    }

    fn end_transaction(&mut self, connection: &mut Connection, exec: Exec<'_>, start_ns: u64, received: Received<'_>) {
        let Exec { dispatch, args } = exec;
        let (client, runner) = (&mut connection.client, &mut self.runner);
        runner.show(client, dispatch, args);
        transaction::end(client, &mut runner.accessor);
        tracking::finish(client, dispatch, &runner.context);
        runner.timing.end_around(&runner.context, client, (dispatch, args), start_ns, received);
        connection.last_command = u32::from(dispatch.index);
    }

    /// Begins the unit, with all that its commands need at hand.
    ///
    /// # Errors
    /// When records have to be read first, or are too many to be in memory together, or another thread goes on with a script of its
    /// keys. The unit has not begun then.
    fn begin(&mut self, client: &Client, unit: Unit<'_>) -> Outcome {
        let Runner { accessor, context, .. } = &mut self.runner;
        let watched = client.watching.as_ref().map_or(&[][..], |watching| &watching.keys);
        if unit.alone {
            step!(KeepOthersOut, accessor.unit().begin_alone(), else { accessor.unit().plan(); accessor.unit().begin() });
            sometimes!("a transaction runs alone");
            context.statistics().counters.units_alone.add(1);
            self.runner.pass_time();
        } else {
            for watched in watched {
                accessor.unit().add(watched.db, &watched.key, false);
            }
            step!(PlanKeys, (), else accessor.unit().plan());
            accessor.unit().begin();
            self.runner.catch_up();
        }
        let Runner { accessor, context, .. } = &mut self.runner;
        let mut required = Ok(());
        if accessor.keyspace().has_waiters() && !unit.alone {
            let filled = unit.filled(context);
            step!(HoldForWaiters, accessor.waiters().hold_for(&filled));
            if accessor.waiters().are_secured() {
                required = accessor.waiters().secure_for_unit(&filled);
            }
        }
        if accessor.unit().long_units().has_refused() {
            accessor.unit().end();
            return Err(Stop::Held);
        }
        if !accessor.cold().is_possible() {
            return Ok(());
        }
        // All of them, so that all are read together.
        for (db, key, access) in unit.keys(context) {
            required = worse(required, accessor.unit().require(db, key, need_of(access)));
        }
        for watched in watched.iter().filter(|watched| watched.existed) {
            required = worse(required, accessor.unit().require(watched.db, &watched.key, need_of(Access::Read)));
        }
        // A record that cannot be read is the error of the command that needs it.
        if required == Err(Missing::Cold) {
            sometimes!("a transaction begins anew with records from the device");
            accessor.unit().end();
            if is_too_much(accessor) {
                accessor.cold().forget_wanted();
                return Err(CommandError::TooManyCold.into());
            }
            return Err(Stop::Cold);
        }
        Ok(())
    }
}

/// Plans what a script of a unit uses, if its code says that, and that it ends soon: the unit is not suspended. False of any other
/// command. A text, or its digits, is the same script when the unit runs. A function may be another one then.
#[cold]
fn plan_script(
    context: &Context,
    accessor: &mut Accessor,
    (db, dispatch, args): (u16, &Dispatch, Args<'_>),
    known: &mut Vec<ScriptKey>,
) -> bool {
    let Handler::Script(prepare) = dispatch.run else { return false };
    let call = match prepare(context, args) {
        Ok(call) => call,
        // It fails, unless it is loaded meanwhile.
        Err(_) => return false,
    };
    if !matches!(call.program, Program::Script(_)) {
        return false;
    }
    let footprint = footprint::of(&call.program, context.table);
    let &Footprint::Declared { writes, nests: false, endless: false, grows: None, .. } = footprint else { return false };
    let may_write = writes || accessor.changes().publishes(TOLD);
    for key in planned_keys(&call) {
        step!(PlanScripts, { accessor.unit().add(db, &key, may_write); }, else {});
        known.push(ScriptKey { db, key, writes });
    }
    true
}

/// Whether a key that is watched has changed, or has expired or been evicted since.
pub(crate) fn is_broken(accessor: &mut Accessor, watching: &Watching) -> bool {
    watching.watcher.has_changed()
        || watching.keys.iter().any(|watched| watched.existed && !accessor.unit().exists(watched.db, &watched.key))
}

/// What has to be read first comes before what cannot be.
fn worse(one: Result<(), Missing>, other: Result<(), Missing>) -> Result<(), Missing> {
    match (one, other) {
        (Err(Missing::Cold), _) | (_, Err(Missing::Cold)) => Err(Missing::Cold),
        _ => one.and(other),
    }
}
