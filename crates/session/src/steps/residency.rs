//! Step 4, *residency*: which records of a batch are on the device, and asking for them.
//!
//! Before a batch runs, all of its keys are probed and what is cold is read together. A command that holds latches looks at its
//! declared keys again before its handler runs, and asks for all that are cold. A read of one key holds none: if it meets a cold
//! record, what it has replied is cut off and it runs again.

use almandine_base::step;
use almandine_command_spec::Access;
use almandine_handler::{Dispatch, Flags, Handler, KeyAccess, KeyCall, Outcome, Stop};
use almandine_keyspace::{Accessor, Filled, Need, Stage};
use almandine_resp::Args;

use crate::run::runner::Runner;
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::admit::{Admission, admit};
use crate::steps::reads::TOGETHER_MAX;

/// Bytes of records that a command may need from the device, in any case and as a part of `maxmemory`. They are in memory
/// together, so one that needs more is refused.
const RECORD_BYTES_MAX: u64 = 64 << 20;
const MEMORY_SHARE: u64 = 4;
/// Records that the commands of a batch ask for before the first of them runs.
const AHEAD_MAX: usize = 1 << 12;

impl Worker {
    /// Notes what the commands of the batch from the one numbered `first` on need from the device.
    pub(crate) fn look_ahead(&mut self, connection: &Connection, received: Received<'_>, mut first: usize) {
        if connection.client.transaction.is_some() {
            // Nothing runs before EXEC, which asks for all that its commands need.
            return;
        }
        let Self { runner: Runner { accessor, context, now_ms, .. }, planner, .. } = self;
        let db = connection.client.db;
        while first < received.len() {
            // In groups, as they run: the cache lines of all buckets are on their way before the first is looked at.
            planner.plan_group(accessor, &connection.client, received, first);
            for (planned, command) in planner.group().iter().zip(first..) {
                let Some(dispatch) = planned.dispatch else { continue };
                let args = received.args(command);
                match admit(context, &connection.client, dispatch, args, dispatch.flags, *now_ms) {
                    Admission::Granted => {}
                    // It will be refused, and must not cost a read.
                    Admission::Refused(_) | Admission::Denied(_) => continue,
                    Admission::Paused => return,
                }
                if matches!(dispatch.run, Handler::Admin(_) | Handler::Script(_) | Handler::Container) {
                    // It may change what the following ones mean.
                    return;
                }
                for (position, access) in
                    context.table.row(dispatch.index).shape.keys_exact(args.len(), |argument| args.at(argument))
                {
                    let key = planned.key.at(args, position).unwrap_or_else(|| accessor.key(db, args.at(position)));
                    // A record that cannot be read is met when it is used.
                    let _ = accessor.cold().probe(key, need_of(access));
                    if accessor.keyspace().has_waiters() {
                        accessor.waiters().probe_for(filled(db, args, (position, access), args.len()));
                    }
                }
                if accessor.cold().wanted() >= AHEAD_MAX {
                    return;
                }
            }
            first += planner.group().len();
        }
    }

    /// Whether any command of the batch may take memory.
    pub(crate) fn writes(&mut self, received: Received<'_>) -> bool {
        (0..received.len())
            .any(|command| self.planner.resolve(received.args(command)).is_some_and(|dispatch| dispatch.flags.any(Flags::DENY_OOM)))
    }

    /// Asks for the records that have been noted as needed. Whether there is anything to wait for.
    pub(crate) fn request_records(&mut self, connection: &mut Connection, stage: &mut Stage) -> bool {
        let Self { runner: Runner { accessor, context, .. }, reads, .. } = self;
        if accessor.cold().wanted() == 0 {
            return false;
        }
        if accessor.cold().wanted() <= TOGETHER_MAX {
            accessor.cold().plan(&mut accessor.cold().take_wanted(), stage, &mut reads.fetches);
            reads.request(connection.id, accessor, &mut connection.waiting, stage);
        } else if is_too_much(accessor) {
            // The command whose they are is refused when it asks for them itself.
            accessor.cold().forget_wanted();
        } else {
            connection.waiting.needed = accessor.cold().take_wanted();
            connection.waiting.needed.sort_unstable();
            reads.request_next(connection.id, accessor, &mut connection.waiting, stage);
        }
        connection.waiting.resumed = connection.waiting.reads != 0;
        if connection.waiting.resumed {
            context.statistics().counters.device_waits.add(1);
        }
        connection.waiting.resumed
    }
}

/// What a command needs a key's record for. It may be replaced or removed although it is lost.
pub(crate) fn need_of(access: Access) -> Need {
    match access {
        Access::Overwrite | Access::Remove => Need::Overwrite,
        _ => Need::Read,
    }
}

/// Makes sure that what is known of the declared keys, which are latched, is at hand: a command of several keys meets none that is
/// missing behind one that it has counted or changed.
#[inline]
pub(crate) fn require<'c, K: KeyAccess<'c>>(dispatch: &Dispatch, call: &mut KeyCall<'c, K>) -> Outcome {
    if call.keys.reader_mut().plan().secures_waiters() && call.client.blocking.serving.is_none() {
        require_cold(dispatch, call)
    } else {
        Ok(())
    }
}

/// A key that is written may be named twice, and removed before it is looked up again: then what lies behind it is at hand, too.
#[cold]
fn require_cold<'c, K: KeyAccess<'c>>(dispatch: &Dispatch, call: &mut KeyCall<'c, K>) -> Outcome {
    let args = call.args;
    let may_repeat = dispatch.flags.any(Flags::MANY_KEYS) && matches!(dispatch.run, Handler::Write(_));
    let shape = &call.context.table.row(dispatch.index).shape;
    let keys = || shape.keys(args.len(), |argument| args.at(argument));
    let has_waiters = call.context.instance.keyspace.has_waiters();
    let reader = call.keys.reader_mut();
    if !has_waiters && !reader.plan().has_cold() {
        return Ok(());
    }
    let mut outcome = Ok(());
    if has_waiters && !reader.plan().in_unit() {
        let db = reader.db();
        let filled: Vec<Filled<'_>> = keys().map(|key| filled(db, args, key, args.len())).collect();
        outcome = reader.plan().secure_waiters(&filled);
    }
    for (position, access) in keys() {
        let key = reader.key(args.at(position));
        // All of them, so that all are read together.
        outcome = outcome.and(reader.plan().require_for(key, need_of(access), may_repeat));
    }
    outcome.map_err(Stop::from)
}

/// A declared key, with how many elements it may get from a command or unit with `arguments` arguments.
pub(crate) fn filled<'k>(db: u16, args: Args<'k>, (position, access): (usize, Access), arguments: usize) -> Filled<'k> {
    let elements = match access {
        Access::Insert | Access::ReadInsert | Access::Update | Access::ReadUpdate => arguments,
        // A whole list may come from elsewhere.
        Access::Overwrite | Access::Create => usize::MAX,
        _ => 0,
    };
    Filled { db, key: args.at(position), elements: step!(SecureDestinations, elements, else 0) }
}

/// Whether more is needed than may be in memory together.
pub(crate) fn is_too_much(accessor: &mut Accessor) -> bool {
    let few = accessor.cold().wanted() <= TOGETHER_MAX;
    !few && accessor.cold().wanted_bytes() > RECORD_BYTES_MAX.max(accessor.keyspace().figures().budget_bytes() / MEMORY_SHARE)
}
