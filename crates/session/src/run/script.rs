//! Scripts: one is a unit of work, and what it calls goes through the runner, as commands of a transaction do.
//!
//! A script whose code says which keys it uses is planned as a transaction is, and runs beside others. Any other one runs alone:
//! all other workers are outside of their batches meanwhile (ADR 25). Within EXEC it is part of that unit.
//!
//! One that is planned and has run for a slice is suspended while nothing of it can have been seen ([`crate::run::rotation`]). One
//! that is alone and has run for `busy-reply-threshold` is suspended, with its unit and the batch of its worker open: it goes on
//! between the rounds of the worker, slice by slice, while clients hear that the server is busy ([`crate::service::busy`]). The
//! reply waits for the command, which is run again. Within EXEC a script is not suspended: its worker serves no other client
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_base::events::Classes;
use almandine_base::{Output, step};
use almandine_config::choices::BusyScope;
use almandine_handler::{
    Anew, Client, CommandError, Dispatch, Flags, Outcome, PlannedKey, Prepare, ScriptCall, ScriptTurn, Stop, Watching, errors,
    follow, footprint, rights, tracking,
};
use almandine_io::{clock, entropy};
use almandine_keyspace::{Filled, Missing, Need};
use almandine_net::Control;
use almandine_resp::{Args, ProtocolVersion, Reply};
use almandine_script::{
    Commands, Engine, EngineOptions, Footprint, Function, Invocation, Program, RunEnd, Running, ScriptFlags, Verdict,
};

use crate::observe::{monitor, running};
use crate::run::outcome::{BatchEnd, Executed};
use crate::run::runner::{Called, Runner, steps};
use crate::state::connection::Connection;
use crate::state::script_run::{Before, Growth, Restart, Scope, ScriptRun, Slice, Suspended};
use crate::state::worker::Worker;
use crate::steps::plan::{Planned, declared_keys};
use crate::steps::reply;
use crate::steps::residency::is_too_much;

/// Steps around a command that a script calls.
const IN_SCRIPT: u8 = steps::MONITOR | steps::TRACK | steps::HOT_KEYS | steps::NOTIFY | steps::READ_AT_ONCE;
/// Events that reads tell.
pub(crate) const TOLD: Classes = Classes::EXPIRED.union(Classes::MISS);
/// What a planned script may take before it is suspended.
const FIRST_SLICE_NS: u64 = 2_000_000;
/// What one that is alone, and has run for long, may take between two rounds of its worker.
const SLICE_NS: u64 = 5_000_000;
/// How often a script begins anew, with a slice that is twice as long each time, before it runs alone.
const ANEW_MAX: u32 = 4;
/// Fast commands of a script between two looks at the clock.
const CALLS: u32 = 64;

/// How a script begins.
#[derive(Default)]
struct Begins {
    /// It holds all others up.
    alone: bool,
    /// How often it has begun anew.
    times: u32,
    /// How others know it, if it has begun before.
    running: Option<Arc<Running>>,
    /// The lines for MONITOR's listeners that are not its own.
    lines: usize,
}

impl Runner {
    /// Runs a script as a unit of work, or as part of the one that has begun. Its errors are replies.
    ///
    /// # Errors
    /// When it may not run, or is suspended.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_script(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        (args, key): (Args<'_>, PlannedKey),
        prepare: Prepare,
    ) -> Outcome {
        let mut begins = Begins { lines: self.monitor_lines.len(), ..Begins::default() };
        let turn = client.script.take();
        if !matches!(turn.as_deref(), Some(ScriptTurn::Ended(_))) && self.is_past_turn(client) {
            client.script = turn.or_else(|| Some(Box::new(ScriptTurn::Waits)));
            return Err(Stop::Suspended);
        }
        match turn.map(|turn| *turn) {
            Some(ScriptTurn::Ended(mut reply)) => {
                reply.flatten();
                self.count_failure(args, &reply.bytes);
                out.bytes.extend_from_slice(&reply.bytes);
                return Ok(());
            }
            Some(ScriptTurn::Anew(anew)) => {
                (begins.times, begins.alone, begins.running) = (anew.times, anew.times > ANEW_MAX, Some(anew.running));
            }
            Some(ScriptTurn::Waits) | None => {}
        }
        let (running, times) = (begins.running.clone(), begins.times);
        let ran = self.run_admitted(client, out, (args, key), prepare, begins);
        match (&ran, running) {
            (Ok(()) | Err(Stop::Suspended), _) | (_, None) => {}
            (Err(Stop::Cold), Some(running)) => client.script = Some(Box::new(ScriptTurn::Anew(Anew { running, times }))),
            (Err(_), Some(running)) => self.context.instance.scripts.running.leave(&running),
        }
        ran
    }

    /// Runs a script, unless it may not run.
    fn run_admitted(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        (args, key): (Args<'_>, PlannedKey),
        prepare: Prepare,
        begins: Begins,
    ) -> Outcome {
        let call = prepare(&self.context, args)?;
        self.admit_script(&call)?;
        let (lines, times) = (begins.lines, begins.times);
        if self.run_prepared(client, out, (args, key), &call, begins)? == Restart::Due {
            self.monitor_lines.truncate(lines);
            self.run_prepared(client, out, (args, key), &call, Begins { alone: true, times, running: None, lines })?;
        }
        Ok(())
    }

    /// Whether scripts of this part of the round have taken so long that others wait for the next one.
    fn is_past_turn(&mut self, client: &Client) -> bool {
        self.rotation.spent_ns >= FIRST_SLICE_NS && !self.is_past && !self.accessor.reader(client.db).plan().in_unit()
    }

    /// Runs a script that may run. One that is planned, and uses a key outside of its plan before anything of it was seen, has
    /// left nothing behind, and is due to run alone.
    fn run_prepared(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        (args, key): (Args<'_>, PlannedKey),
        call: &ScriptCall<'_>,
        begins: Begins,
    ) -> Result<Restart, Stop> {
        let own = self.take_engine(&call.program);
        let scope = match self.begin_unit(client, call, begins.alone || own.is_none()) {
            Ok(scope) => scope,
            Err(stop) => {
                if let Some(engine) = own {
                    self.keep_engine(engine, &call.program);
                }
                return Err(stop);
            }
        };
        // What a library keeps has one machine. It is there for a unit that is alone.
        let Some(mut engine) = own.or_else(|| self.context.instance.scripts.libraries.take_engine()) else {
            if scope != Scope::OfTransaction {
                self.accessor.unit().end();
            }
            return Err(errors::script::BUSY_FUNCTION.into());
        };
        // One that runs alone has waited for others.
        let slice_ns = if scope == Scope::Alone && !begins.alone { clock::monotonic_ns() } else { self.timing.begun_ns() };
        let start_ns = begins.running.as_ref().map_or(slice_ns, |running| running.start_ns);
        let instance = &self.context.instance;
        let invocation = Invocation { program: &call.program, keys: call.keys, args: call.args };
        engine.start(&instance.scripts.machines, invocation);
        let mut run = ScriptRun {
            read_only: call.writes_nothing(),
            checks_memory: call.program.flags().any(ScriptFlags::COMPATIBLE),
            over_limit: instance.keyspace.over_limit(),
            wrote: false,
            remembered: false,
            // What is told of keys that are read is seen.
            seen: scope != Scope::Planned || self.accessor.changes().publishes(TOLD),
            endless: scope == Scope::Planned && is_endless(&call.program),
            scope,
            start_ns,
            slice: Slice::new(slice_ns, slice_max_ns(scope, begins.times)),
            times: begins.times,
            growth: (scope == Scope::Planned && grows(&call.program)).then(|| Growth::new(planned_keys(call).into_iter())),
            running: begins.running,
            before: Before { db: client.db, version: client.version, transaction: client.transaction.take() },
        };
        client.in_script = true;
        let (mark, before, at) = (out.mark(), out.len(), out.bytes.len());
        let called = (Some(args), if scope == Scope::Single { key } else { PlannedKey::default() });
        let mut rest = None;
        let mut end = self.go_on((&mut engine, &call.program), &mut run, client, out, called);
        while end == RunEnd::Suspended && scope == Scope::Planned {
            let rest = rest.get_or_insert_with(|| self.rest_of(call));
            self.release(run.before.db, rest);
            if !run.wants_keys() {
                break;
            }
            if let Err(grown) = self.grow(&mut run, rest) {
                out.truncate(mark);
                out.set_whole(false);
                return self.give_up(engine, (run, rest), client, (args, &call.program, grown));
            }
            end = self.go_on((&mut engine, &call.program), &mut run, client, out, called);
        }
        match end {
            RunEnd::Suspended => {
                debug_assert_eq!(before, out.len(), "a script that is suspended has no reply");
                out.truncate(mark);
                out.set_whole(false);
                self.restart = Restart::No;
                let (connection, orphan, out) = (None, None, Output::new());
                let program = call.program.clone();
                let suspended = Box::new(Suspended { engine, run, program, connection, orphan, out, rest });
                if scope == Scope::Planned {
                    self.leave(suspended, args, begins.lines);
                } else {
                    self.suspended = Some(suspended);
                }
                return Err(Stop::Suspended);
            }
            RunEnd::Failed | RunEnd::Returned => {}
        }
        out.set_whole(scope == Scope::OfTransaction);
        if std::mem::take(&mut self.restart) == Restart::Due {
            out.truncate(mark);
            self.end_script(&mut run, client);
            self.keep_engine(engine, &call.program);
            self.accessor.unit().end();
            self.unwatch(rest.as_ref());
            return Ok(Restart::Due);
        }
        self.count_failure(args, &out.bytes[at..]);
        self.end_script(&mut run, client);
        self.keep_engine(engine, &call.program);
        // One that has made a key ready is ended by the caller, behind the command.
        if matches!(scope, Scope::Planned | Scope::Alone) && !self.accessor.serving().has_ready() {
            self.accessor.unit().end();
            if scope == Scope::Planned {
                self.accessor.unit().remove_expired(call.keys.iter().map(|key| (client.db, key)));
            }
        }
        self.unwatch(rest.as_ref());
        Ok(Restart::No)
    }

    /// A script whose reply is an error has failed, whether it was raised or returned.
    fn count_failure(&self, args: Args<'_>, reply: &[u8]) {
        if reply.first() == Some(&b'-')
            && let Some(dispatch) = self.context.table.lookup(args.at(0))
        {
            self.context.statistics().command(usize::from(dispatch.index)).failed.add(1);
        }
    }

    /// Begins the unit of work of a script, unless it is part of one.
    ///
    /// # Errors
    /// When records have to be read first. The unit has not begun then.
    fn begin_unit(&mut self, client: &Client, call: &ScriptCall<'_>, alone: bool) -> Result<Scope, Stop> {
        if self.accessor.reader(client.db).plan().in_unit() {
            return Ok(Scope::OfTransaction);
        }
        if !alone
            && let footprint = footprint::of(&call.program, self.context.table)
            && let Footprint::Declared { keys, constants, built, writes, reads_once, endless, grows } = footprint
            && !((*endless || grows.is_some()) && self.accessor.changes().publishes(TOLD))
            && !(grows.is_some() && self.is_past)
        {
            if *reads_once && !self.accessor.cold().is_possible() && !self.accessor.changes().publishes(TOLD) {
                return Ok(Scope::Single);
            }
            let declared = if *keys { call.keys } else { call.keys.first(0) };
            let known = || declared.iter().chain(constants.iter().map(|key| &**key));
            if !built.is_empty() {
                let built = footprint.built_keys(call.keys, call.args);
                self.begin_planned(client.db, || known().chain(built.iter().map(|key| &**key)), *writes)?;
                return Ok(Scope::Planned);
            }
            let keys = known;
            self.begin_planned(client.db, keys, *writes)?;
            return Ok(Scope::Planned);
        }
        self.accessor.unit().begin_alone();
        self.context.statistics().counters.units_alone.add(1);
        // Others have gone on while it waited for them: what has expired for them has expired for it.
        self.now_ms = self.later_ms();
        self.accessor.unit().pass_time(self.now_ms);
        Ok(Scope::Alone)
    }

    /// Begins a unit of these keys, with all that a script may need of them at hand.
    pub(crate) fn begin_planned<'k, K: Iterator<Item = &'k [u8]>>(
        &mut self,
        db: u16,
        keys: impl Fn() -> K,
        writes: bool,
    ) -> Outcome {
        let accessor = &mut self.accessor;
        // What has expired is removed where it is met, while that is told.
        let may_write = writes || accessor.changes().publishes(TOLD);
        accessor.unit().plan();
        for key in keys() {
            step!(PlanKeys, { accessor.unit().add(db, key, may_write); }, else {});
        }
        accessor.unit().begin();
        let mut required = Ok(());
        if writes && accessor.keyspace().has_waiters() {
            let filled: Vec<Filled<'_>> = keys().map(|key| Filled { db, key, elements: usize::MAX }).collect();
            accessor.waiters().hold_for(&filled);
            if accessor.cold().is_possible() {
                required = accessor.waiters().secure_for_unit(&filled);
            }
        }
        if !accessor.cold().is_possible() {
            return Ok(());
        }
        for key in keys() {
            // All of them, so that all are read together. What has to be read first comes before what cannot be.
            required = match (required, accessor.unit().require(db, key, Need::Read)) {
                (Err(Missing::Cold), _) | (_, Err(Missing::Cold)) => Err(Missing::Cold),
                (one, other) => one.and(other),
            };
        }
        // A record that cannot be read is the error of the command that needs it.
        if required != Err(Missing::Cold) {
            return Ok(());
        }
        accessor.unit().end();
        if is_too_much(accessor) {
            accessor.cold().forget_wanted();
            return Err(CommandError::TooManyCold.into());
        }
        Err(Stop::Cold)
    }

    /// Runs a script that has been prepared, until it ends or is suspended.
    pub(crate) fn go_on(
        &mut self,
        (engine, program): (&mut Engine, &Program),
        run: &mut ScriptRun,
        client: &mut Client,
        out: &mut Output,
        (called, key): (Option<Args<'_>>, PlannedKey),
    ) -> RunEnd {
        let version = run.before.version;
        let watched_bytes = self.after_command.watch(0);
        let mut caller = Caller { runner: self, client, run, program, called, key, watched_bytes };
        let end = engine.go_on(program, &mut caller, version, out);
        client.version = version;
        // What its commands took is theirs, the rest is its own.
        self.timing.end_inner(self.context.statistics());
        end
    }

    /// The client of a script that has ended is what it was.
    pub(crate) fn end_script(&self, run: &mut ScriptRun, client: &mut Client) {
        if let Some(running) = run.running.take() {
            self.context.instance.scripts.running.leave(&running);
        }
        client.in_script = false;
        client.transaction = run.before.transaction.take();
        if client.db != run.before.db {
            client.select(run.before.db);
        }
    }

    /// What its first line says of a script is checked before it runs.
    fn admit_script(&self, call: &ScriptCall<'_>) -> Result<(), CommandError> {
        let flags = call.program.flags();
        if flags.any(ScriptFlags::COMPATIBLE) {
            return Ok(());
        }
        if call.read_only && !flags.any(ScriptFlags::NO_WRITES) {
            return Err(errors::script::WRITES_BY_READER);
        }
        let may_fill = flags.any(ScriptFlags::ALLOW_OOM.with(ScriptFlags::NO_WRITES));
        if !may_fill && self.context.instance.keyspace.over_limit() {
            return Err(errors::script::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// Keeps the machine for the next run.
    pub(crate) fn keep_engine(&mut self, mut engine: Box<Engine>, program: &Program) {
        let machines = &self.context.instance.scripts.machines;
        engine.note_memory(machines);
        let replaced = match program {
            _ if engine.of_libraries.is_some() => self.function_engine.replace(engine),
            Program::Script(_) => self.engine.replace(engine),
            Program::Function(_) => {
                self.context.instance.scripts.libraries.give_engine(engine);
                None
            }
        };
        // The one that scripts had meanwhile.
        if let Some(replaced) = replaced {
            replaced.retire(machines);
        }
    }

    /// The worker's machine that runs a script or function; nothing for one that needs the machine of all workers.
    fn take_engine(&mut self, program: &Program) -> Option<Box<Engine>> {
        match program {
            Program::Script(_) => {
                let deprecated = self.context.settings().security.lua_deprecated_api;
                Some(self.engine.take().unwrap_or_else(|| self.new_engine(deprecated)))
            }
            Program::Function(function) if function.keeps_nothing && self.has_brought(function) => self.function_engine.take(),
            Program::Function(_) => None,
        }
    }

    /// Makes the worker's own machine for functions have one; false when that is not possible.
    fn has_brought(&mut self, function: &Function) -> bool {
        let scripts = &self.context.instance.scripts;
        let generation = scripts.libraries.generation();
        if let Some(old) = self.function_engine.take_if(|engine| engine.of_libraries != Some(generation)) {
            // With the code of libraries that are gone.
            old.retire(&scripts.machines);
        }
        let mut engine = self.function_engine.take().unwrap_or_else(|| self.new_engine(false));
        engine.of_libraries = Some(generation);
        let has_brought = engine.bring(function);
        self.function_engine = Some(engine);
        has_brought
    }

    #[cold]
    fn new_engine(&self, deprecated: bool) -> Box<Engine> {
        let settings = self.context.settings();
        Box::new(Engine::new(EngineOptions {
            seed: entropy::seed(),
            memory_limit: usize::try_from(settings.process.script_memory_limit_bytes).unwrap_or(usize::MAX),
            deprecated,
        }))
    }
}

impl Worker {
    /// The connection waits for the end of its script; `done` commands of the batch have run.
    #[cold]
    pub(crate) fn await_script(&mut self, connection: &Connection, done: usize) -> Executed {
        let rotation = &mut self.runner.rotation;
        if let Some(mut suspended) = rotation.left.take() {
            suspended.connection = Some(connection.id);
            rotation.enter(suspended);
        } else if let Some(suspended) = &mut self.runner.suspended {
            suspended.connection = Some(connection.id);
            monitor::publish(&mut self.runner.monitor_lines, &self.runner.context.instance);
            running::end();
        } else {
            rotation.waiting.push_back(connection.id);
        }
        Executed { commands: done, end: BatchEnd::Awaits }
    }

    /// The connection is gone: its script runs to its end. One that only reads, or has not begun, does not: then the keys that it
    /// watched are returned.
    pub(crate) fn keep_script(&mut self, connection: &mut Connection) -> Option<Watching> {
        self.runner.forget_script(&mut connection.client);
        let client = &connection.client;
        let orphan = || {
            let mut orphan = Client::new(Arc::clone(&client.shared), client.access.clone());
            (orphan.db, orphan.in_script) = (client.db, true);
            Some(Box::new(orphan))
        };
        // The connections of all others do not look for one.
        let own = if client.in_script { self.runner.rotation.take(connection.id) } else { None };
        if let Some(mut suspended) = own {
            if suspended.rest.as_ref().is_none_or(|rest| !rest.writes) {
                return Some(self.runner.drop_script(suspended));
            }
            suspended.orphan = orphan();
            self.runner.rotation.enter(suspended);
        } else if let Some(suspended) = &mut self.runner.suspended
            && suspended.connection == Some(connection.id)
        {
            suspended.orphan = orphan();
        }
        None
    }

    /// Runs the script that is suspended, alone, for a slice.
    #[cold]
    pub(crate) fn go_on_with_script(&mut self, control: &mut dyn Control<Connection>) {
        let Some(mut suspended) = self.runner.suspended.take() else { return };
        let mut orphan = suspended.orphan.take();
        let id = suspended.connection;
        let client = match (&mut orphan, id) {
            (Some(orphan), _) => &mut **orphan,
            (None, Some(id)) => match control.connection(id) {
                Some((connection, _)) => &mut connection.client,
                None => {
                    // It is being closed.
                    self.runner.suspended = Some(suspended);
                    return;
                }
            },
            (None, None) => return,
        };
        let runner = &mut self.runner;
        let Suspended { engine, run, program, out, .. } = &mut *suspended;
        run.slice.begun_ns = clock::monotonic_ns();
        runner.timing.begin(run.slice.begun_ns);
        if runner.go_on((engine, program), run, client, out, (None, PlannedKey::default())) == RunEnd::Suspended {
            suspended.orphan = orphan;
            runner.suspended = Some(suspended);
        } else {
            runner.end_script(run, client);
            client.computing.spend(clock::monotonic_ns().saturating_sub(run.start_ns));
            runner.notify_changes(client);
            runner.end_unit();
            runner.notify_changes(client);
            runner.accessor.end_batch();
            client.script = Some(Box::new(ScriptTurn::Ended(std::mem::take(out))));
            runner.keep_engine(suspended.engine, &suspended.program);
            runner.after_command.finish_of_nobody(&runner.context);
            if let Some(id) = id.filter(|_| orphan.is_none()) {
                control.resume(id);
            }
        }
        running::end();
        monitor::publish(&mut self.runner.monitor_lines, &self.runner.context.instance);
    }
}

/// How long the first slice of a script may be.
fn slice_max_ns(scope: Scope, times: u32) -> u64 {
    if scope == Scope::Planned { FIRST_SLICE_NS << times.min(ANEW_MAX) } else { SLICE_NS }
}

/// The keys of a planned script that are known before it runs.
pub(crate) fn planned_keys(call: &ScriptCall<'_>) -> Vec<Box<[u8]>> {
    let Some(footprint) = call.program.footprint().get() else { return Vec::new() };
    let Footprint::Declared { keys, constants, .. } = footprint else { return Vec::new() };
    let mut all = footprint.built_keys(call.keys, call.args);
    let declared = if *keys { call.keys } else { call.keys.first(0) };
    all.extend(declared.iter().chain(constants.iter().map(|key| &**key)).map(Box::from));
    all
}

/// Whether a script may read keys that are not known before it runs.
fn grows(program: &Program) -> bool {
    matches!(program.footprint().get(), Some(Footprint::Declared { grows: Some(_), .. }))
}

fn is_endless(program: &Program) -> bool {
    matches!(program.footprint().get(), Some(Footprint::Declared { endless: true, .. }))
}

/// The reply to a command of a script that runs again: no client reads it.
pub(crate) fn write_left_plan(out: &mut Output, version: ProtocolVersion) {
    Reply::new(out, version).error("ERR the script runs again");
}

/// A script's way to the commands.
struct Caller<'r> {
    runner: &'r mut Runner,
    client: &'r mut Client,
    run: &'r mut ScriptRun,
    program: &'r Program,
    /// The call of the script, in its first slice.
    called: Option<Args<'r>>,
    /// The first key of the call, as it was planned, when that is how it is used.
    key: PlannedKey,
    watched_bytes: usize,
}

impl Caller<'_> {
    /// Why a command may not run.
    fn refusal(&self, dispatch: &Dispatch, args: Args<'_>) -> Option<CommandError> {
        let flags = dispatch.flags;
        if !dispatch.accepts(args.len()) {
            return Some(errors::script::ARITY);
        }
        let context = &self.runner.context;
        let may_call_any = || context.instance.scripts.call_any.load(Relaxed) && !flags.any(Flags::RUNS_SCRIPT);
        if flags.any(Flags::NO_SCRIPT) && !may_call_any() {
            return Some(errors::script::NOT_ALLOWED);
        }
        if let Some(refused) = follow::refused(self.client, context.table, dispatch, args) {
            return Some(errors::script::denied(&follow::deny(context, self.client, refused, self.runner.now_ms)));
        }
        if self.run.read_only && flags.any(Flags::MAY_WRITE) {
            return Some(errors::script::READS_ONLY);
        }
        let persistence = &context.settings().persistence;
        let stops = || persistence.stop_writes_unsaved && !persistence.save_points.is_empty();
        if !self.run.wrote && flags.any(Flags::WRITES) && context.instance.persistence.is_unsaved() && stops() {
            return Some(CommandError::Unsaved);
        }
        let may_fill = self.run.wrote || !self.run.over_limit || !self.run.checks_memory;
        if !may_fill && flags.any(Flags::DENY_OOM) {
            return Some(CommandError::OutOfMemory);
        }
        None
    }

    /// The key of a command, if it is the one that was planned.
    #[inline]
    fn planned_key(&self, dispatch: &Dispatch, args: Args<'_>) -> PlannedKey {
        match self.called {
            Some(called) if self.key.position != 0 && dispatch.key != 0 => {
                let is_it = args.get(usize::from(dispatch.key)) == called.get(usize::from(self.key.position));
                if is_it { PlannedKey { position: dispatch.key, ..self.key } } else { PlannedKey::default() }
            }
            _ => PlannedKey::default(),
        }
    }

    /// A client that tracks hears of the keys that the call declares once the script has read anything, whichever it reads.
    #[cold]
    fn remember_declared(&mut self, dispatch: &Dispatch) {
        let context = &self.runner.context;
        if !context.table.row(dispatch.index).command.spec.traits.readonly {
            return;
        }
        self.run.remembered = true;
        let words: Vec<&[u8]> = match (&self.called, &self.run.running) {
            (Some(called), _) => called.iter().collect(),
            (None, Some(running)) => running.command.iter().map(Vec::as_slice).collect(),
            (None, None) => return,
        };
        tracking::declared(self.client, &words, context);
    }

    /// Others hear of the script from now on, and may end it.
    #[cold]
    fn show(&mut self) {
        let running = self.runner.make_known(self.run, self.program, self.called);
        if self.run.scope != Scope::Planned {
            self.runner.context.instance.scripts.running.hold_all(&running);
        }
    }

    /// Whether the script may be suspended without anything that it holds: nothing of it was seen.
    fn may_rest(&self) -> bool {
        let run = &*self.run;
        run.scope == Scope::Planned && !run.seen && !self.runner.is_past && !self.program.code().mentions(b"log")
    }

    /// Whether the unit of the script has all keys of a command. Those that it has not are wanted.
    #[cold]
    fn has_keys(&mut self, dispatch: &Dispatch, args: Args<'_>) -> bool {
        if let Some(growth) = &mut self.run.growth {
            declared_keys(&self.runner.context, dispatch, args).for_each(|key| growth.use_key(key));
        }
        !self.run.wants_keys()
    }

    /// Whether the script has run for `busy-reply-threshold`.
    fn is_long(&self, now_ns: u64) -> bool {
        let threshold_ms = self.runner.context.settings().process.busy_reply_threshold_ms;
        threshold_ms != 0 && now_ns.saturating_sub(self.run.start_ns) / 1_000_000 >= threshold_ms
    }

    /// Whether the script is to be suspended, or to end, before its next command.
    fn is_due(&mut self, dispatch: &Dispatch) -> bool {
        let run = &mut *self.run;
        run.slice.calls += if dispatch.flags.any(Flags::FAST) { 1 } else { CALLS / 4 };
        if run.slice.calls <= CALLS {
            return false;
        }
        run.slice.calls = 0;
        let now_ns = clock::monotonic_ns();
        run.is_killed() || run.slice.is_over(now_ns) && (run.scope == Scope::Alone && self.is_long(now_ns) || self.may_rest())
    }
}

impl Commands for Caller<'_> {
    fn call(&mut self, args: Args<'_>, version: ProtocolVersion, out: &mut Output) -> bool {
        self.client.version = version;
        out.set_whole(true);
        if self.runner.restart == Restart::Due {
            // The script catches what is not for it.
            write_left_plan(out, version);
            return true;
        }
        let table = self.runner.context.table;
        let resolved = match self.runner.names.lookup(table, args.at(0)) {
            Some(dispatch) if !dispatch.flags.any(Flags::CONTAINER) => Some(dispatch),
            _ => table.resolve(args.at(0), args.get(1)),
        };
        let Some(dispatch) = resolved else {
            let known = table.resolve_known(args.at(0), args.get(1)).filter(|known| known.flags.any(Flags::NO_SCRIPT));
            let error = if known.is_some() { &errors::script::NOT_ALLOWED } else { &errors::script::UNKNOWN_COMMAND };
            reply::error(&self.runner.context, self.client, out, error);
            return true;
        };
        if self.is_due(dispatch) {
            return false;
        }
        if let Some(refusal) = self.refusal(dispatch, args) {
            self.run.seen |= !self.run.endless && self.run.growth.is_none();
            self.runner.context.statistics().command(usize::from(dispatch.index)).rejected.add(1);
            reply::error(&self.runner.context, self.client, out, &refusal);
            return true;
        }
        if self.run.growth.is_some() && !self.has_keys(dispatch, args) {
            return false;
        }
        if dispatch.flags.any(Flags::WRITES) && !self.run.wrote {
            if let Some(running) = &self.run.running
                && !self.runner.context.instance.scripts.running.may_write(running)
            {
                return false;
            }
            self.run.wrote = true;
        }
        if self.client.tracking.is_some() && !self.run.remembered && !dispatch.flags.any(Flags::MAY_WRITE) {
            self.remember_declared(dispatch);
        }
        let planned = Planned { dispatch: Some(dispatch), key: self.planned_key(dispatch, args) };
        let together = !self.runner.timing.exact && dispatch.flags.any(Flags::FAST);
        let called = Called { dispatch, planned: &planned, number: 0, together, watched_bytes: self.watched_bytes };
        self.runner.restart = if self.run.seen { Restart::No } else { Restart::Possible };
        self.run.seen |= dispatch.flags.any(Flags::MAY_WRITE);
        let ran = self.runner.run::<IN_SCRIPT>(self.client, out, called, || args);
        debug_assert!(ran.is_ok(), "a command of a unit has a reply, if only an error");
        true
    }

    fn permits(&mut self, args: Args<'_>) -> Option<bool> {
        let table = self.runner.context.table;
        let dispatch = table.resolve(args.at(0), args.get(1)).filter(|dispatch| dispatch.accepts(args.len()))?;
        let access = &self.client.access;
        Some(!access.is_restricted() || rights::permits(access, table, dispatch, args, self.client.db))
    }

    fn replied_error(&mut self, text: &[u8]) {
        if self.runner.restart == Restart::Due {
            return;
        }
        self.runner.context.statistics().error_replied(&String::from_utf8_lossy(text));
    }

    fn verdict(&mut self) -> Verdict {
        if self.runner.restart == Restart::Due {
            return Verdict::End;
        }
        let now_ns = clock::monotonic_ns();
        self.run.slice.calls = 0;
        if self.run.is_killed() {
            return Verdict::End;
        }
        if self.run.wants_keys() {
            return Verdict::Suspend;
        }
        let (is_over, is_long) = (self.run.slice.is_over(now_ns), self.is_long(now_ns));
        let is_told = self.runner.context.settings().process.busy_reply_scope == BusyScope::Node;
        if !(is_long && is_told) && (is_over || is_long) && self.may_rest() {
            return if is_over { Verdict::Suspend } else { Verdict::GoOn };
        }
        if is_long && self.run.endless && !self.run.seen {
            // It is suspended then, and may be killed, while all others hear of it.
            self.runner.restart = Restart::Due;
            return Verdict::End;
        }
        let holds_all = |running: &Arc<Running>| running.holds_all.load(Relaxed);
        if is_long && self.run.running.as_ref().is_none_or(|running| self.run.scope != Scope::Planned && !holds_all(running)) {
            self.show();
            self.run.slice.begun_ns = 0;
        }
        if self.run.scope == Scope::Alone && is_long && self.run.slice.is_over(now_ns) { Verdict::Suspend } else { Verdict::GoOn }
    }
}
