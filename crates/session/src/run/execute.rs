//! Step 5, *execute*: running commands, one and a group of them.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_handler::{
    AdminCall, CommandError, Dispatch, Flags, Handler, Outcome, ReadCall, Stop, WriteCall, errors, transaction,
};
use almandine_resp::{Args, Reply};

use crate::blocking::begin_wait;
use crate::blocking::serve_waiters::{self, Server};
use crate::observe::running;
use crate::run::events;
use crate::run::execution::Execution;
use crate::run::outcome::{BatchEnd, Executed, Pending};
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::admit::{count_refusal, is_other_protocol, out_of_memory, refusal_of};
use crate::steps::plan::{Planned, declared_keys};
use crate::steps::reply;
use crate::steps::residency;

impl Worker {
    /// Plans and runs a group that begins with command `first` of the batch.
    ///
    /// This is the loop in which the server spends its life: no check here that `slow_path` can make instead.
    #[inline]
    pub(crate) fn execute_group(
        &mut self,
        connection: &mut Connection,
        received: Received<'_>,
        out: &mut Output,
        first: usize,
    ) -> Executed {
        let Self { accessor, context, planner, timing, after_command, serving, now_ms, .. } = self;
        planner.plan_group(accessor, &connection.client, received, first);
        let refused = if context.instance.keyspace.over_limit() { Flags::DENY_OOM } else { Flags::default() };
        let watched_bytes = after_command.watch(received.input.len());
        let group = planner.group();
        let mut ran = group.len();
        let mut execution = Execution { client: &mut connection.client, accessor, context, out, now_ms: *now_ms };
        for (offset, planned) in group.iter().enumerate() {
            // Asked for where it is needed: what is kept would be copied for the call, which then waits for its own stores.
            let args = || received.args(first + offset);
            let Some(dispatch) = planned.dispatch else {
                let args = args();
                if is_other_protocol(args) {
                    return Executed { commands: offset + 1, end: BatchEnd::OtherProtocol };
                }
                end_refused(&mut execution, args);
                reply::error(
                    context,
                    execution.client,
                    execution.out,
                    &refusal_of(execution.client, context, args, execution.now_ms),
                );
                continue;
            };
            if dispatch.flags.any(refused) {
                let error = out_of_memory(&context.instance);
                count_refusal(context, dispatch, &error);
                reply::error(context, execution.client, execution.out, &error);
                continue;
            }
            let is_fast = dispatch.flags.any(Flags::FAST);
            let mut start_ns = 0;
            if !is_fast {
                start_ns = timing.begin_next(context, execution.client, dispatch, execution.now_ms);
            }
            let before = execution.out.len();
            if let Err(pending) = answer(&mut execution, dispatch, planned, args()) {
                if !is_fast {
                    timing.suspend(execution.client, start_ns, pending);
                }
                if pending == Pending::Key {
                    connection.last_command = u32::from(dispatch.index);
                }
                let Executed { commands, end } = Executed::one(BatchEnd::Pending(pending));
                return Executed { commands: offset + commands, end };
            }
            if is_fast {
                timing.count(dispatch.index, first + offset);
            } else {
                timing.end_alone(context, execution.client, dispatch, args(), start_ns);
            }
            let written = execution.out.len() - before;
            if written >= watched_bytes {
                after_command.of(&mut execution, dispatch, args(), written);
            }
            if execution.accessor.serving().has_ready() {
                after_command.tell_changes(execution.client, execution.accessor, context);
                let accessor = &mut *execution.accessor;
                serve_waiters::serve(&mut Server {
                    accessor,
                    context,
                    timing,
                    after_command,
                    memory: serving,
                    now_ms: execution.now_ms,
                });
                execution.accessor.unit().end();
            }
            if !is_fast && execution.out.has_stream() {
                // The commands behind it wait for its end.
                ran = offset + 1;
                break;
            }
        }
        if let Some(last) = group[..ran].last() {
            connection.last_command = last.dispatch.map_or(u32::MAX, |dispatch| u32::from(dispatch.index));
        }
        let end = if connection.client.closing { BatchEnd::CloseAfterReplies } else { BatchEnd::Answered };
        Executed { commands: ran, end }
    }
}

/// EXEC ends the watch of keys even when it is called with a wrong number of arguments.
#[cold]
fn end_refused(execution: &mut Execution<'_>, args: Args<'_>) {
    let Execution { client, accessor, context, .. } = execution;
    if client.watching.is_some() && context.table.lookup(args.at(0)).is_some_and(|dispatch| dispatch.flags.any(Flags::EXECUTES)) {
        transaction::end(client, accessor);
    }
}

/// Runs a command and replies; when it fails, the error takes the place of what it has written.
///
/// # Errors
/// When the command has to run again. Nothing has happened then.
#[inline(always)]
pub(crate) fn answer(execution: &mut Execution<'_>, dispatch: &Dispatch, planned: &Planned, args: Args<'_>) -> Result<(), Pending> {
    let mark = execution.out.mark();
    let mut lookups = None;
    if execution.accessor.has_cold() {
        lookups = Some(execution.context.statistics().lookups());
    }
    running::begin(dispatch.index, args.len());
    match run(execution, dispatch, planned, args) {
        Ok(()) => Ok(()),
        Err(stop) => stopped(execution, (dispatch, args.slice_from(0)), &stop, mark, lookups),
    }
}

/// Cuts off what a command has written that stopped, and replies its error if it failed. This is the only place where a [`Stop`] is
/// looked at.
#[cold]
fn stopped(
    execution: &mut Execution<'_>,
    (dispatch, args): (&Dispatch, Args<'_>),
    stop: &Stop,
    mark: Mark,
    lookups: Option<(u64, u64)>,
) -> Result<(), Pending> {
    let Execution { client, accessor, context, out, .. } = execution;
    debug_assert!(
        matches!(stop, Stop::Waiting(_)) || client.blocking.waiting.is_none(),
        "INV-BLOCK-2: a command that waits has no reply, {stop:?}"
    );
    out.truncate(mark);
    let pending = match stop {
        Stop::Error(error) => return fail(execution, dispatch, error),
        Stop::Unreadable if accessor.lacks_room() => return fail(execution, dispatch, &CommandError::NoRoomForCold),
        Stop::Unreadable => return fail(execution, dispatch, &CommandError::StorageUnreadable),
        Stop::Cold => {
            residency::ask_for_all(context, accessor, client.db, dispatch, args);
            if residency::is_too_much(accessor) {
                accessor.forget_wanted();
                return fail(execution, dispatch, &CommandError::TooManyCold);
            }
            Pending::Records
        }
        Stop::Unplanned => {
            debug_assert!(false, "a command uses a key that its lock plan does not hold");
            return fail(execution, dispatch, &CommandError::StorageUnreadable);
        }
        Stop::Computing => Pending::Computation,
        Stop::Waiting(_) => Pending::Key,
    };
    if let Some(lookups) = lookups {
        context.statistics().restore_lookups(lookups);
    }
    Err(pending)
}

fn fail(execution: &mut Execution<'_>, dispatch: &Dispatch, error: &CommandError) -> Result<(), Pending> {
    let Execution { client, context, out, .. } = execution;
    context.statistics().command(usize::from(dispatch.index)).failed.add(1);
    reply::error(context, client, out, error);
    Ok(())
}

/// Locks what the command declares and runs it. What it has replied when it fails is the caller's to cut off.
#[inline(always)]
fn run(execution: &mut Execution<'_>, dispatch: &Dispatch, planned: &Planned, args: Args<'_>) -> Outcome {
    let Execution { client, accessor, context, out, now_ms } = execution;
    let reply = Reply::new(out, client.version);
    match dispatch.run {
        Handler::Read(handler) => {
            let mut call = ReadCall { args, keys: accessor.reader(client.db), reply, client, context, planned: planned.key };
            let together = dispatch.flags.any(Flags::MANY_KEYS) && declared_keys(context, dispatch, call.args).nth(1).is_some();
            let outcome = if call.keys.tells_events() {
                read_telling(&mut call, dispatch, handler, together)
            } else {
                if together {
                    call.keys.lock_shared_all(declared_keys(context, dispatch, call.args));
                }
                handler(&mut call)
            };
            drop(call);
            if together {
                accessor.unit().remove_expired(declared_keys(context, dispatch, args).map(|key| (client.db, key)));
            }
            if let Err(Stop::Waiting(block)) = outcome {
                // A copy, whose address may be taken: that of the call's own would keep them from the registers.
                return begin_wait::read_again(execution, dispatch, handler, args.slice_from(0), block);
            }
            outcome
        }
        Handler::Write(handler) => {
            let has_cold = accessor.has_cold();
            let keys = accessor.writer(client.db);
            let mut call = WriteCall { args, keys, reply, client, context, planned: planned.key };
            let tells = call.keys.tells_events();
            if !dispatch.flags.any(Flags::SELF_LOCKING) || (tells && events::latches_write(dispatch)) {
                lock(dispatch, &mut call);
                if has_cold && call.client.blocking.serving.is_none() {
                    residency::require(dispatch, &mut call)?;
                }
            }
            let mut outcome = handler(&mut call);
            if tells {
                events::end(&mut call.keys, &outcome, false);
            }
            if let Err(Stop::Waiting(block)) = &mut outcome {
                let waiting = begin_wait::wait(&mut call.keys, call.client, dispatch, call.args, block);
                drop(call);
                client.blocking.waiting = waiting;
            }
            outcome
        }
        Handler::Admin(handler) => {
            let outcome = handler(&mut AdminCall { args, accessor, reply, client, context, now_ms: *now_ms });
            if dispatch.flags.any(Flags::ANY_KEY) {
                accessor.changes().follow_events();
            }
            outcome
        }
        // Of the second the table finds none by the name of a call.
        Handler::Container | Handler::Unserved => Err(errors::wrong_arity(&context.table.row(dispatch.index).name).into()),
    }
}

/// Runs a command that reads while events are told: latched where it may tell any.
#[cold]
#[inline(never)]
fn read_telling(
    call: &mut ReadCall<'_>,
    dispatch: &Dispatch,
    handler: fn(&mut ReadCall<'_>) -> Outcome,
    together: bool,
) -> Outcome {
    if events::latches_read(dispatch, &call.keys, together) {
        call.keys.lock_for_events(declared_keys(call.context, dispatch, call.args));
    } else if together {
        call.keys.lock_shared_all(declared_keys(call.context, dispatch, call.args));
    }
    let outcome = handler(call);
    events::end(&mut call.keys, &outcome, true);
    outcome
}

#[inline]
fn lock(dispatch: &Dispatch, call: &mut WriteCall<'_>) {
    if dispatch.key != 0 {
        let key = call.key(usize::from(dispatch.key));
        call.keys.lock_one(key);
    } else if dispatch.flags.any(Flags::MANY_KEYS) {
        call.keys.lock_all(declared_keys(call.context, dispatch, call.args));
    }
}
