//! EXEC: the commands of a transaction as one unit of work.
//!
//! The unit is planned when its commands declare all keys that they use: the buckets of these, and of the watched keys, are latched together.
//! Else it runs alone: all other workers are outside their batches meanwhile. Before the first command runs, everything that the declared
//! keys need is at hand; if not, the connection waits for it and EXEC begins anew. So a transaction is never undone, and a command that
//! fails leaves the others standing, as in Redis.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_call::{Client, CommandError, Context, Dispatch, Flags, Handler, Transaction, redact, tracking, transaction};
use almandine_command_spec::Access;
use almandine_io::clock;
use almandine_keyspace::{Accessor, Missing};
use almandine_resp::{Args, Reply};

use crate::connection::Connection;
use crate::engine::Engine;
use crate::execute::answer;
use crate::execution::Execution;
use crate::fault::Fault;
use crate::residency::need_of;
use crate::{monitor, reply};

/// Times that a command of a unit that is alone reads what it has missed before that counts as lost.
const READS_MAX: u32 = 1000;

impl Engine {
    /// Executes what the client has queued. Returns where the reply begins; nothing when it waits for the device.
    #[cold]
    pub(crate) fn execute_transaction(
        &mut self,
        connection: &mut Connection,
        exec: &Dispatch,
        args: Args<'_>,
        out: &mut Output,
    ) -> Option<Mark> {
        let client = &mut connection.client;
        let queued = client.transaction.take()?;
        let (mark, start_ns) = (out.mark(), self.timing.begin_alone(&self.context, client, exec, self.now_ms));
        let early = self.fault == Some(Fault::WatchBeforeLatch) && is_broken(&mut self.accessor, client);
        let outcome = if queued.is_refused() { Err(CommandError::TransactionRefused) } else { self.begin(client, &queued) };
        match outcome {
            Err(CommandError::Cold) => {
                client.transaction = Some(queued);
                return None;
            }
            Err(error) => {
                self.context.statistics().command(usize::from(exec.index)).failed.add(1);
                reply::error(&self.context, client, out, &error);
            }
            Ok(()) => {
                let broken = match self.fault {
                    Some(Fault::WatchBeforeLatch) => early,
                    _ => is_broken(&mut self.accessor, client),
                };
                if broken {
                    Reply::new(out, client.version).null_array();
                } else {
                    self.run_queued(client, &queued, out);
                }
                self.accessor.end_unit();
                let keys = keys_of(&self.context, &queued);
                self.accessor.remove_expired(keys.map(|key| (client.db, key.bytes)));
            }
        }
        self.show(client, exec, args);
        transaction::end(client, &mut self.accessor);
        tracking::finish(client, exec, &self.context);
        self.timing.end_alone(&self.context, client, exec, args, start_ns);
        connection.last_command = u32::from(exec.index);
        Some(mark)
    }

    /// Begins the unit, with all that its commands need at hand.
    fn begin(&mut self, client: &Client, queued: &Transaction) -> Result<(), CommandError> {
        let Self { accessor, context, fault, .. } = self;
        let db = client.db;
        let watched = client.watching.as_ref().map_or(&[][..], |watching| &watching.keys);
        let alone = queued.flags().any(Flags::ANY_KEY);
        if *fault == Some(if alone { Fault::NotAlone } else { Fault::NoPlan }) {
            accessor.begin_unit(std::iter::empty());
        } else if alone {
            accessor.begin_alone();
        } else {
            let watched = watched.iter().map(|watched| (watched.db, &*watched.key, false));
            accessor.begin_unit(keys_of(context, queued).map(|key| (db, key.bytes, key.may_write)).chain(watched));
        }
        if !accessor.has_cold() {
            return Ok(());
        }
        let mut required = Ok(());
        // All of them, so that all are read together.
        for key in keys_of(context, queued) {
            required = worse(required, accessor.require_in_unit(db, key.bytes, need_of(key.access)));
        }
        for watched in watched.iter().filter(|watched| watched.existed) {
            required = worse(required, accessor.require_in_unit(watched.db, &watched.key, need_of(Access::Read)));
        }
        // A record that cannot be read is the error of the command that needs it.
        if required == Err(Missing::Cold) {
            accessor.end_unit();
            return Err(CommandError::Cold);
        }
        Ok(())
    }

    /// Runs the commands, one after the other.
    fn run_queued(&mut self, client: &mut Client, queued: &Transaction, out: &mut Output) {
        Reply::new(out, client.version).array(queued.len());
        out.set_whole(true);
        let watched_bytes = self.aftermath.watch(&self.context, queued.memory_bytes());
        // Fast commands are timed together, as everywhere.
        let mut first_together = None;
        for (index, args) in queued.commands() {
            let dispatch = self.context.table.dispatch(index);
            self.show(client, dispatch, args);
            let planned = self.planner.plan_alone(&mut self.accessor, client.db, args);
            let Self { accessor, context, timing, aftermath, now_ms, .. } = self;
            let alone = timing.exact || !dispatch.flags.any(Flags::FAST);
            let mut start_ns = 0;
            if alone {
                start_ns = timing.begin_alone(context, client, dispatch, *now_ms);
                first_together = None;
            } else {
                first_together = first_together.or(Some(args));
            }
            let tracked = tracking::before_read(client, dispatch, args, context);
            let (start, before) = (out.bytes.len(), out.len());
            let mut execution = Execution { client, accessor, context, out, now_ms: *now_ms };
            let mut reads = 0;
            while !answer(&mut execution, dispatch, &planned, args) {
                reads += 1;
                if reads > READS_MAX || !execution.accessor.read_missing() {
                    execution.accessor.forget_wanted();
                    reply::error(context, execution.client, execution.out, &CommandError::StorageUnreadable);
                    break;
                }
            }
            if alone {
                timing.end_alone(context, execution.client, dispatch, args, start_ns);
            } else {
                timing.count(dispatch.index);
            }
            if let Some(tracked) = tracked {
                tracking::after_read(tracked, execution.client, dispatch, args, context);
            }
            let written = execution.out.len() - before;
            if written >= watched_bytes {
                aftermath.of(&mut execution, dispatch, args, start, written);
            }
        }
        out.set_whole(false);
        let Self { context, timing, .. } = self;
        if let Some(first) = first_together
            && let Some((elapsed_ns, together)) = timing.end(clock::monotonic_ns(), context.statistics())
        {
            timing.note_segment(context, client, first, together, elapsed_ns);
        }
    }

    /// Shows a command to those who MONITOR.
    fn show(&mut self, client: &Client, dispatch: &Dispatch, args: Args<'_>) {
        if self.context.node.monitors.active() && !dispatch.flags.any(Flags::SKIP_MONITOR) {
            let spec = &self.context.table.row(dispatch.index).command.spec;
            monitor::write_line(&mut self.monitor_lines, client, redact::shown(spec, args));
        }
    }
}

/// A key that a queued command declares.
struct DeclaredKey<'a> {
    bytes: &'a [u8],
    access: Access,
    /// Whether the command may change any of its keys.
    may_write: bool,
}

/// The keys that queued commands declare.
fn keys_of<'a>(context: &'a Context, queued: &'a Transaction) -> impl Iterator<Item = DeclaredKey<'a>> {
    queued.commands().flat_map(|(index, args)| {
        let dispatch = context.table.dispatch(index);
        let may_write = matches!(dispatch.run, Handler::Write(_));
        let shape = &context.table.row(dispatch.index).shape;
        let keys = shape.keys(args.len(), move |argument| args.at(argument));
        keys.map(move |(position, access)| DeclaredKey { bytes: args.at(position), access, may_write })
    })
}

/// Whether a key that the client watches has changed, or has expired or been evicted since.
fn is_broken(accessor: &mut Accessor, client: &Client) -> bool {
    let Some(watching) = &client.watching else { return false };
    watching.watcher.has_changed()
        || watching.keys.iter().any(|watched| watched.existed && !accessor.exists_in_unit(watched.db, &watched.key))
}

/// What has to be read first comes before what cannot be.
fn worse(one: Result<(), Missing>, other: Result<(), Missing>) -> Result<(), Missing> {
    match (one, other) {
        (Err(Missing::Cold), _) | (_, Err(Missing::Cold)) => Err(Missing::Cold),
        _ => one.and(other),
    }
}

/// A command that waits for EXEC is answered so.
pub(crate) fn queue(client: &mut Client, dispatch: &Dispatch, args: Args<'_>, out: &mut Output) -> Result<(), CommandError> {
    transaction::queue(client, dispatch, args)?;
    Reply::new(out, client.version).simple("QUEUED");
    Ok(())
}
