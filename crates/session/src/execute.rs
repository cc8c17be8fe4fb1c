//! The engine: running commands, one and a group of them.

use almandine_base::Output;
use almandine_call::{
    AdminCall, Client, CommandError, Context, Entry, Flags, Handler, Outcome, Plan, PlannedKey, ReadCall, WriteCall, errors,
};
use almandine_io::clock;
use almandine_keyspace::Accessor;
use almandine_resp::{Args, Batch, Reply};

use crate::aftermath::Aftermath;
use crate::batch::Planner;
use crate::cold;
use crate::connection::Connection;
use crate::timing::Timing;

/// Locks what the command declares and runs it. What it has replied when it fails is the caller's to cut off.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the parts of a worker, borrowed one by one")]
fn run(
    plan: &Plan,
    key: PlannedKey,
    args: Args<'_>,
    client: &mut Client,
    accessor: &mut Accessor,
    context: &Context,
    out: &mut Output,
    now_ms: i64,
) -> Outcome {
    let reply = Reply::new(out, client.version);
    match plan.run {
        Handler::Read(handler) => {
            let mut keys = accessor.reader(client.db);
            if plan.flags.any(Flags::MANY_KEYS) {
                let entry = entry(plan, context);
                if declared_keys(entry, args).nth(1).is_some() {
                    keys.lock_shared_all(declared_keys(entry, args));
                }
            }
            handler(&mut ReadCall { args, keys, reply, client, context, planned: key })
        }
        Handler::Write(handler) => {
            let keys = accessor.writer(client.db);
            let mut call = WriteCall { args, keys, reply, client, context, planned: key };
            if !plan.flags.any(Flags::SELF_LOCKING) {
                lock(plan, &mut call);
                if call.keys.has_cold() && (!plan.flags.any(Flags::BLIND) || call.keys.reads_before_write()) {
                    cold::require(plan, &mut call)?;
                }
            }
            handler(&mut call)
        }
        Handler::Admin(handler) => handler(&mut AdminCall { args, accessor, reply, client, context, now_ms }),
        Handler::Container => Err(errors::wrong_arity(&entry(plan, context).name)),
    }
}

#[inline]
fn lock(plan: &Plan, call: &mut WriteCall<'_>) {
    if plan.key != 0 {
        let key = call.key(usize::from(plan.key));
        call.keys.lock_one(key);
    } else if plan.flags.any(Flags::MANY_KEYS) {
        let args = call.args;
        call.keys.lock_all(declared_keys(entry(plan, call.context), args));
    }
}

pub(crate) fn entry(plan: &Plan, context: &Context) -> &'static Entry {
    context.table.entry(plan.index)
}

pub(crate) fn declared_keys<'a>(entry: &'static Entry, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    entry.shape.keys(args.len(), move |argument| args.at(argument)).map(move |(position, _)| args.at(position))
}

/// The error of a command that was not planned.
#[cold]
pub(crate) fn refusal(context: &Context, args: Args<'_>) -> CommandError {
    let table = context.table;
    let Some(plan) = table.lookup(args.at(0)) else { return errors::unknown_command(args) };
    let plan = match args.get(1).filter(|_| plan.flags.any(Flags::CONTAINER)) {
        None => plan,
        Some(name) => match table.subcommand(plan, name) {
            // Under the name that the client used: `rename-command` may have given another.
            None => return errors::unknown_subcommand(&String::from_utf8_lossy(args.at(0)), name),
            Some(plan) => plan,
        },
    };
    reject(context, plan, errors::wrong_arity(&table.entry(plan.index).name))
}

/// Counts a command that is refused before it runs.
#[cold]
pub(crate) fn reject(context: &Context, plan: &Plan, error: CommandError) -> CommandError {
    context.statistics().command(usize::from(plan.index)).rejected.add(1);
    if error == CommandError::OutOfMemory {
        context.statistics().counters.refused_out_of_memory.add(1);
    }
    error
}

/// Writes an error in place of a reply.
#[cold]
pub(crate) fn reply_error(context: &Context, client: &Client, out: &mut Output, error: &CommandError) {
    context.statistics().error_replied(&error.text());
    Reply::new(out, client.version).error_bytes(error.bytes());
}

/// Runs one worker's commands.
pub(crate) struct Engine {
    pub(crate) accessor: Accessor,
    pub(crate) context: Context,
    pub(crate) planner: Planner,
    pub(crate) timing: Timing,
    pub(crate) aftermath: Aftermath,
    /// The batch's time, Unix milliseconds.
    pub(crate) now_ms: i64,
    /// What MONITOR's listeners are to see of this batch.
    pub(crate) monitor_lines: String,
}

impl Engine {
    /// Plans and runs a group that begins with command `first` of the batch. Returns how many commands that were.
    ///
    /// This is the loop in which the server spends its life: no check here that `careful` can make instead.
    #[inline]
    pub(crate) fn execute_group(
        &mut self,
        connection: &mut Connection,
        batch: &Batch,
        input: &[u8],
        out: &mut Output,
        first: usize,
    ) -> usize {
        let Self { accessor, context, planner, timing, aftermath, now_ms, .. } = self;
        planner.plan_group(accessor, connection.client.db, batch, input, first);
        let refused = if context.node.keyspace.over_limit() { Flags::DENY_OOM } else { Flags::default() };
        let watched_bytes = aftermath.watch(context, input.len());
        let group = planner.group();
        for (offset, planned) in group.iter().enumerate() {
            let args = batch.args(first + offset, input);
            let Some(plan) = planned.plan else {
                if is_other_protocol(args) {
                    connection.hostile = true;
                    return offset + 1;
                }
                reply_error(context, &connection.client, out, &refusal(context, args));
                continue;
            };
            if plan.flags.any(refused) {
                let error = reject(context, plan, CommandError::OutOfMemory);
                reply_error(context, &connection.client, out, &error);
                continue;
            }
            let is_fast = plan.flags.any(Flags::FAST);
            let mut start_ns = 0;
            if !is_fast {
                start_ns = begin_alone(connection, context, timing, plan, *now_ms);
            }
            let (start, before) = (out.bytes.len(), out.len());
            if !answer(plan, planned.key, args, &mut connection.client, accessor, context, out, *now_ms) {
                connection.parked = true;
                return offset;
            }
            if is_fast {
                timing.count(plan.index);
            } else {
                end_alone(connection, context, timing, plan, args, start_ns);
            }
            let written = out.len() - before;
            if written >= watched_bytes {
                aftermath.of(connection, plan, args, context, out, start, written);
            }
        }
        if watched_bytes > 0 && context.node.tracking.active() {
            aftermath.catch_up(connection, group, |offset| batch.args(first + offset, input), context);
        }
        let last = group.last().and_then(|planned| planned.plan);
        connection.last_command = last.map_or(connection.last_command, |plan| u32::from(plan.index));
        group.len()
    }
}

/// Whether a web browser was tricked into speaking to this port.
#[cold]
pub(crate) fn is_other_protocol(args: Args<'_>) -> bool {
    let name = args.at(0);
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Ends the segment before a command that is timed alone; returns the time.
pub(crate) fn begin_alone(connection: &Connection, context: &Context, timing: &mut Timing, plan: &Plan, now_ms: i64) -> u64 {
    let start_ns = clock::monotonic_ns();
    timing.end(start_ns, context.statistics());
    connection.announce(plan, now_ms);
    start_ns
}

/// Records a command that was timed alone and begins the next segment.
pub(crate) fn end_alone(
    connection: &Connection,
    context: &Context,
    timing: &mut Timing,
    plan: &Plan,
    args: Args<'_>,
    start_ns: u64,
) {
    let end_ns = clock::monotonic_ns();
    timing.record(context, connection, plan, args, end_ns.saturating_sub(start_ns));
    timing.begin(end_ns);
}

/// Runs a command and replaces what it has written by an error when it fails. False when it has to run again, because it needs a
/// record that is on the device: then nothing has happened.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the parts of a worker, borrowed one by one")]
pub(crate) fn answer(
    plan: &Plan,
    key: PlannedKey,
    args: Args<'_>,
    client: &mut Client,
    accessor: &mut Accessor,
    context: &Context,
    out: &mut Output,
    now_ms: i64,
) -> bool {
    let mark = out.mark();
    if accessor.has_cold() {
        // What somebody else has missed, as the aftermath of the command before, must not void this one.
        accessor.forget_met();
    }
    let mut outcome = run(plan, key, args, client, accessor, context, out, now_ms);
    if accessor.has_cold() {
        outcome = cold::settle(outcome, accessor);
    }
    if let Err(error) = outcome {
        out.truncate(mark);
        if error == CommandError::Cold {
            return false;
        }
        context.statistics().command(usize::from(plan.index)).failed.add(1);
        reply_error(context, client, out, &error);
    }
    true
}
