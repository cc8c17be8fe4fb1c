//! Step 3, *admit*: which commands are refused before anything runs, and with which error.

use std::sync::atomic::Ordering::Relaxed;

use almandine_base::Output;
use almandine_base::points::{Witness, witness};
use almandine_command_spec::Group;
use almandine_handler::follow::Refused;
use almandine_handler::{Client, CommandError, Context, Denial, Dispatch, Flags, Handler, errors, follow, transaction};
use almandine_instance::{DeviceState, Instance, PauseScope};
use almandine_resp::Args;

use crate::run::runner::Runner;
use crate::state::connection::Connection;
use crate::state::worker::Worker;
use crate::steps::reply;

/// Whether a command may run now.
pub(crate) enum Admission {
    Granted,
    Paused,
    Refused(CommandError),
    /// The client's user may not run it.
    Denied(Denial),
}

impl Worker {
    /// Whether commands of the connection must be run one by one, with every check.
    #[inline]
    pub(crate) fn needs_care(&self, connection: &Connection) -> bool {
        connection.client.needs_care() || self.watches_each()
    }

    /// Whether commands of all connections must be.
    #[inline]
    pub(crate) fn watches_each(&self) -> bool {
        let Runner { context: Context { instance, .. }, timing, now_ms, .. } = &self.runner;
        timing.exact
            || instance.monitors.active()
            || instance.statistics.hot_keys.is_active()
            || instance.persistence.bars_any()
            || instance.pause.active(*now_ms).is_some()
    }
}

impl Runner {
    /// Answers a command that was not planned.
    #[cold]
    pub(crate) fn refuse_unplanned(&mut self, client: &mut Client, out: &mut Output, args: Args<'_>) {
        witness(Witness::Ran, client.shared.id);
        if self.context.table.lookup(args.at(0)).is_some_and(|dispatch| dispatch.flags.any(Flags::EXECUTES)) {
            // EXEC ends the watch of keys even when it is called with a wrong number of arguments.
            transaction::end(client, &mut self.accessor);
        } else {
            transaction::refuse(client);
        }
        reply::error(&self.context, client, out, &refusal_of(client, &self.context, args, self.now_ms));
    }

    /// Answers a command that the client's user may not run.
    #[cold]
    pub(crate) fn deny(&mut self, client: &mut Client, out: &mut Output, refused: Refused<'_>) {
        let error = follow::deny(&self.context, client, refused, self.now_ms);
        self.refuse(client, out, refused.dispatch, &error);
    }

    /// Answers a command that may not run. A transaction ends with its EXEC, and will not be executed without one of its commands.
    #[cold]
    pub(crate) fn refuse(&mut self, client: &mut Client, out: &mut Output, dispatch: &Dispatch, error: &CommandError) {
        witness(Witness::Ran, client.shared.id);
        count_refusal(&self.context, dispatch, error);
        if dispatch.flags.any(Flags::EXECUTES) {
            transaction::end(client, &mut self.accessor);
            reply::error(&self.context, client, out, &errors::transaction::aborted(error));
        } else {
            transaction::refuse(client);
            reply::error(&self.context, client, out, error);
        }
    }
}

/// Whether a client may run this command now: authentication, its user's rights, memory, pause. `flags` are the command's; for
/// EXEC those of what it executes.
pub(crate) fn admit(
    context: &Context,
    client: &Client,
    dispatch: &Dispatch,
    args: Args<'_>,
    flags: Flags,
    now_ms: i64,
) -> Admission {
    let instance = &context.instance;
    if !client.access.is_admitted() && !dispatch.flags.any(Flags::NO_AUTH) {
        return Admission::Refused(errors::acl::AUTHENTICATION_REQUIRED);
    }
    if client.transaction.is_some() && flags.any(Flags::NO_MULTI) {
        return Admission::Refused(errors::transaction::NOT_ALLOWED);
    }
    if let Some(refused) = follow::refused(client, context.table, dispatch, args) {
        return Admission::Denied(refused.denial);
    }
    if flags.any(Flags::NOT_LOADING) && instance.persistence.is_loading() {
        // In its first moment clients wait, as for a server that is not there yet.
        let is_young = instance.pause.active(now_ms) == Some(PauseScope::All);
        return if is_young { Admission::Paused } else { Admission::Refused(CommandError::Loading) };
    }
    if flags.any(Flags::DENY_OOM) && instance.keyspace.over_limit() {
        return Admission::Refused(out_of_memory(instance));
    }
    if flags.any(Flags::NOT_UNSAVED) && instance.persistence.is_unsaved() {
        let persistence = &context.settings().persistence;
        if persistence.stop_writes_unsaved && !persistence.save_points.is_empty() {
            return Admission::Refused(CommandError::Unsaved);
        }
    }
    if flags.any(Flags::NOT_UNSAVED) && instance.persistence.is_unlogged() {
        return Admission::Refused(unlogged(instance));
    }
    if client.only_listens() && !dispatch.flags.any(Flags::SUBSCRIBED) {
        return Admission::Refused(errors::client::only_listens(&context.table.row(dispatch.index).name));
    }
    if client.shared.modes.monitor.load(Relaxed) && is_about_data(context, dispatch) {
        return Admission::Refused(errors::client::MONITOR_ON_DATA);
    }
    match instance.pause.active(now_ms) {
        Some(PauseScope::All) => Admission::Paused,
        Some(PauseScope::Writes) if flags.any(Flags::MAY_WRITE) && !is_reading_script(context, dispatch, args) => Admission::Paused,
        _ => Admission::Granted,
    }
}

/// Whether a script is called that says it writes nothing.
#[cold]
pub(crate) fn is_reading_script(context: &Context, dispatch: &Dispatch, args: Args<'_>) -> bool {
    let Handler::Script(prepare) = dispatch.run else { return false };
    prepare(context, args).is_ok_and(|call| call.writes_nothing())
}

/// The error of a command that was not planned: one that its user may not run, or [`refusal`].
#[cold]
fn refusal_of(client: &Client, context: &Context, args: Args<'_>, now_ms: i64) -> CommandError {
    let dispatch = context.table.resolve(args.at(0), args.get(1)).or_else(|| answered(context, args.at(0), args.get(1)));
    let dispatch = dispatch.filter(|dispatch| dispatch.accepts(args.len()));
    let refused = dispatch.and_then(|dispatch| follow::refused(client, context.table, dispatch, args));
    let Some(refused) = refused else { return refusal(client, context, args) };
    let error = follow::deny(context, client, refused, now_ms);
    count_refusal(context, refused.dispatch, &error);
    if refused.dispatch.flags.any(Flags::EXECUTES) { errors::transaction::aborted(&error) } else { error }
}

/// Whether a client that runs MONITOR may not run a command, as in Redis.
fn is_about_data(context: &Context, dispatch: &Dispatch) -> bool {
    dispatch.flags.any(Flags::MAY_WRITE) || context.table.row(dispatch.index).command.spec.traits.readonly
}

/// The error of a command that was not planned: an unknown name, a wrong number of arguments, or a command that is not served.
#[cold]
fn refusal(client: &Client, context: &Context, args: Args<'_>) -> CommandError {
    let table = context.table;
    let Some(dispatch) = table.lookup(args.at(0)).or_else(|| answered(context, args.at(0), None)) else {
        return unknown(context, args);
    };
    let dispatch = match args.get(1).filter(|_| dispatch.flags.any(Flags::CONTAINER)) {
        None => dispatch,
        Some(name) => match table.subcommand(dispatch, name) {
            // Under the name that the client used: `rename-command` may have given another.
            None => return errors::unknown_subcommand(&String::from_utf8_lossy(args.at(0)), name),
            Some(dispatch) => dispatch,
        },
    };
    if matches!(dispatch.run, Handler::Unserved) && dispatch.accepts(args.len()) {
        return if client.access.is_admitted() { errors::cluster::DISABLED } else { errors::acl::AUTHENTICATION_REQUIRED };
    }
    let error = errors::wrong_arity(&table.row(dispatch.index).name);
    count_refusal(context, dispatch, &error);
    if dispatch.flags.any(Flags::EXECUTES) { errors::transaction::aborted(&error) } else { error }
}

/// The error of a name that is not served. The reason stands behind Redis' words when the command is one of Redis.
fn unknown(context: &Context, args: Args<'_>) -> CommandError {
    note_unknown(context, args);
    let Some(dispatch) = context.table.resolve_known(args.at(0), None) else { return errors::unknown_command(args) };
    let spec = &context.table.row(dispatch.index).command.spec;
    let reason = match (spec.group, spec.name) {
        (_, "SYNC" | "PSYNC" | "REPLCONF" | "FAILOVER") => "replication is not served yet",
        (_, "MIGRATE") => "it is not served yet: DUMP and RESTORE move keys",
        _ => "it is not served yet",
    };
    errors::unserved(args, reason)
}

/// Counts a command that is not served, and keeps its name for the log.
fn note_unknown(context: &Context, args: Args<'_>) {
    context.statistics().counters.unknown_commands.add(1);
    context.instance.statistics.unserved.note(args.at(0));
}

/// A command that is not served and yet answers as a server without such things does: a client learns that there is no cluster.
fn answered<'c>(context: &'c Context, name: &[u8], subcommand: Option<&[u8]>) -> Option<&'c Dispatch> {
    let dispatch = context.table.resolve_known(name, subcommand)?;
    let spec = &context.table.row(dispatch.index).command.spec;
    (spec.group == Group::Cluster).then_some(dispatch)
}

/// Why nothing is written: the log takes it not.
#[cold]
pub(crate) fn unlogged(instance: &Instance) -> CommandError {
    let failure = instance.persistence.log.figures().and_then(|figures| figures.last_failure);
    let failure = failure.unwrap_or_else(|| "No space left on device".to_owned());
    CommandError::new(format!("MISCONF Errors writing to the AOF file: {failure}"))
}

/// Why there is no memory: the limit, or the storage below it.
#[cold]
pub(crate) fn out_of_memory(instance: &Instance) -> CommandError {
    match instance.gauges.storage.state() {
        DeviceState::Sound => CommandError::OutOfMemory,
        DeviceState::Full => CommandError::StorageFull,
        DeviceState::Failing => CommandError::StorageFailing,
    }
}

/// Counts a command that is refused before it runs.
#[cold]
fn count_refusal(context: &Context, dispatch: &Dispatch, error: &CommandError) {
    context.statistics().command(usize::from(dispatch.index)).rejected.add(1);
    if matches!(error, CommandError::OutOfMemory | CommandError::StorageFull | CommandError::StorageFailing) {
        context.statistics().counters.refused_out_of_memory.add(1);
    }
}

/// Whether a web browser was tricked into speaking to this port.
#[cold]
pub(crate) fn is_other_protocol(args: Args<'_>) -> bool {
    let name = args.at(0);
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}
