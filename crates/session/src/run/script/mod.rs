//! Scripts: one is a unit of work, and what it calls goes through the runner, as commands of a transaction do.
//!
//! A script whose code says which keys it uses is planned as a transaction is, and runs beside others. Any other one runs alone:
//! all other workers are outside of their batches meanwhile (ADR 25). Within EXEC it is part of that unit, which is planned if the
//! keys of all of its scripts are known.
//!
//! One that is planned and has run for a slice is suspended while nothing of it can have been seen ([`rotation`]); behind that
//! another thread goes on with it ([`carry`]). One that is alone and has run for `busy-reply-threshold` is suspended, with its unit
//! and the batch of its worker open: it goes on between the rounds of the worker, slice by slice, while clients hear that the
//! server is busy ([`crate::service::busy`]). The reply waits for the command, which is run again. EXEC that is alone is
//! suspended with its script.

pub(crate) mod alone;
pub(crate) mod begin;
pub(crate) mod caller;
pub(crate) mod carry;
pub(crate) mod engines;
pub(crate) mod rotation;

use std::sync::Arc;

use almandine_base::Output;
use almandine_base::points::{Witness, witness};
use almandine_handler::{Anew, Client, CommandError, Outcome, PlannedKey, Prepare, ScriptCall, ScriptTurn, Stop, errors};
use almandine_io::clock;
use almandine_keyspace::GlanceId;
use almandine_resp::Args;
use almandine_script::{Engine, Invocation, Program, RunEnd, Running, ScriptFlags};

use crate::run::runner::Runner;
use crate::run::script::begin::{TOLD, growth_of, is_endless};
use crate::run::script::caller::Caller;
use crate::state::script_run::{Before, Restart, Scope, ScriptRun, Slice, Suspended};

/// What a planned script may take before it is suspended.
const FIRST_SLICE_NS: u64 = 2_000_000;
/// What a connection's batch may take before a script of it waits until other connections have been looked at.
const BATCH_NS: u64 = 500_000;
/// What one that is alone, and has run for long, may take between two rounds of its worker.
const SLICE_NS: u64 = 5_000_000;
/// How often a script begins anew, with a slice that is twice as long each time, before it runs alone.
const ANEW_MAX: u32 = 4;

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
                witness(Witness::Answered, client.shared.id);
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
        let ran = self.run_admitted(client, out, (args, key), prepare, &mut begins);
        match (&ran, running) {
            (Ok(()) | Err(Stop::Suspended), _) | (_, None) => {}
            (Err(Stop::Cold | Stop::Held), Some(running)) => {
                client.script = Some(Box::new(ScriptTurn::Anew(Anew { running, times })))
            }
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
        begins: &mut Begins,
    ) -> Outcome {
        loop {
            // It is not moved: it was just written.
            let prepared = prepare(&self.context, args);
            let Ok(call) = &prepared else { return prepared.map(drop).map_err(Stop::from) };
            self.admit_script(call)?;
            let mut restart = self.run_prepared(client, out, (args, key), call, begins)?;
            if restart == Restart::Due {
                self.monitor_lines.truncate(begins.lines);
                (begins.alone, begins.running) = (true, None);
                restart = self.run_prepared(client, out, (args, key), call, begins)?;
            }
            if restart != Restart::Stale {
                return Ok(());
            }
        }
    }

    /// Whether a script waits for the next part of the round: others of this one, or what came before it in its connection's batch,
    /// have taken so long.
    fn is_past_turn(&mut self, client: &Client) -> bool {
        let batch_ns = self.timing.begun_ns().saturating_sub(self.rotation.batch_ns);
        let is_long = self.rotation.spent_ns >= FIRST_SLICE_NS || batch_ns >= BATCH_NS;
        is_long && !self.is_past && !self.accessor.reader(client.db).plan().in_unit()
    }

    /// Runs a script that may run. One that is planned, and uses a key outside of its plan before anything of it was seen, has
    /// left nothing behind, and is due to run alone.
    fn run_prepared(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        (args, key): (Args<'_>, PlannedKey),
        call: &ScriptCall<'_>,
        begins: &mut Begins,
    ) -> Result<Restart, Stop> {
        let own = self.take_engine(&call.program);
        let scope = match self.begin_unit(client, call, begins.alone || own.is_none()) {
            Ok(scope) => scope,
            Err(stop) => {
                if let Some(engine) = own {
                    self.keep_engine(engine, &call.program);
                }
                if matches!(stop, Stop::Suspended) {
                    let times = begins.times;
                    let anew = begins.running.take().map(|running| ScriptTurn::Anew(Anew { running, times }));
                    client.script = Some(Box::new(anew.unwrap_or(ScriptTurn::Waits)));
                }
                return Err(stop);
            }
        };
        // What a library keeps has one machine. It is there for a unit that is alone.
        let libraries = &self.context.instance.scripts.libraries;
        if own.is_none()
            && let Program::Function(function) = &call.program
            && !libraries.has(function)
        {
            if scope != Scope::OfTransaction {
                self.accessor.unit().end();
            }
            return Ok(Restart::Stale);
        }
        let Some(mut engine) = own.or_else(|| libraries.take_engine()) else {
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
        engine.start(&instance.scripts.machines, &invocation);
        let mut run = ScriptRun {
            read_only: call.writes_nothing(),
            checks_memory: call.program.flags().any(ScriptFlags::COMPATIBLE),
            over_limit: instance.keyspace.over_limit(),
            unlogged: false,
            wrote: false,
            remembered: false,
            // What is told of keys that are read is seen.
            seen: scope != Scope::Planned || self.accessor.changes().publishes(TOLD),
            endless: scope == Scope::Planned && is_endless(&call.program),
            scope,
            start_ns,
            slice: Slice::new(slice_ns, slice_max_ns(scope, begins.times)),
            times: begins.times,
            growth: if scope == Scope::Planned { growth_of(call) } else { None },
            running: begins.running.take(),
            withheld: None,
            before: Before { db: client.db, version: client.version, transaction: client.transaction.take() },
        };
        client.in_script = true;
        let (mark, before, at) = (out.mark(), out.len(), out.bytes.len());
        let key = match scope {
            Scope::Single => key,
            Scope::Planned => {
                // What was asked for with the group is gone when it is its turn: this script takes the place.
                self.accessor.group().prefetch_next(key.glance);
                // Its bucket is latched: what was seen before is of no use.
                PlannedKey { glance: GlanceId::default(), ..key }
            }
            Scope::Alone | Scope::OfTransaction => PlannedKey::default(),
        };
        let called = Some((&args, &key));
        let mut rest = None;
        let mut end = self.go_on((&mut engine, &call.program), &mut run, client, out, called);
        while end == RunEnd::Suspended && scope == Scope::Planned && self.carrying.spare.is_none() {
            let rest = rest.get_or_insert_with(|| self.rest_of(call));
            self.release(&mut run, rest);
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
                let suspended = Box::new(Suspended { engine, run, program, connection, orphan, out, rest, exec: None });
                if self.carrying.spare.is_some() {
                    self.hand_over(suspended, client, Some(args), true);
                } else if scope == Scope::Planned {
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
            self.end_unit();
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

    /// Runs a script that has been prepared, until it ends or is suspended.
    pub(crate) fn go_on(
        &mut self,
        (engine, program): (&mut Engine, &Program),
        run: &mut ScriptRun,
        client: &mut Client,
        out: &mut Output,
        called: Option<(&Args<'_>, &PlannedKey)>,
    ) -> RunEnd {
        let version = run.before.version;
        let watched_bytes = self.after_command.watch(0);
        // One that may begin anew has not been counted then.
        let may_begin_anew = run.scope == Scope::Planned && !run.seen;
        let counters = &self.context.statistics().counters;
        let looked_up = [counters.keyspace_hits.value(), counters.keyspace_misses.value()];
        self.timing.withholds = may_begin_anew;
        if let Some(withheld) = run.withheld.take() {
            self.timing.withheld = *withheld;
        }
        // What it misses now it would miss in the middle of its work.
        let passes = self.accessor.unit().long_units().pass(false);
        let mut caller = Caller { runner: self, client, run, program, called, watched_bytes };
        let end = engine.go_on(program, &mut caller, version, out);
        self.accessor.unit().long_units().pass(passes);
        client.version = version;
        // What its commands took is theirs, the rest is its own.
        if may_begin_anew && (end == RunEnd::Suspended || self.restart == Restart::Due) {
            self.timing.end_inner(self.context.statistics());
            self.timing.withholds = false;
            let mut withheld = Box::new(std::mem::take(&mut self.timing.withheld));
            withheld.take_looked_up(looked_up, self.context.statistics());
            run.withheld = Some(withheld);
        } else {
            self.timing.count_withheld(client, &self.context);
            self.timing.end_inner(self.context.statistics());
        }
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
}

/// How long the first slice of a script may be.
fn slice_max_ns(scope: Scope, times: u32) -> u64 {
    if scope == Scope::Planned { FIRST_SLICE_NS << times.min(ANEW_MAX) } else { SLICE_NS }
}
