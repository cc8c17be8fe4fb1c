//! Step 4, *residency*: which records of a batch are on the device, and asking for them.
//!
//! Before a batch runs, all of its keys are probed and what is cold is read together. A command that writes is asked again under its latches,
//! before it changes anything; one that reads and has met a cold record has its reply cut off.

use almandine_call::{CommandError, Dispatch, Flags, Handler, Outcome, WriteCall};
use almandine_command_spec::Access;
use almandine_keyspace::{Accessor, Need, Stage};
use almandine_net::Next;
use almandine_resp::Args;

use crate::admit::{Admission, admit};
use crate::connection::Connection;
use crate::engine::Engine;
use crate::plan::declared_keys;
use crate::received::Received;

/// Records that a command may need from the device at once; one that needs more is refused.
const RECORDS_MAX: usize = 1 << 16;
/// Records that the commands of a batch ask for before the first of them runs.
const AHEAD_MAX: usize = 1 << 12;

impl Engine {
    /// Notes what the commands of the batch need from the device.
    pub(crate) fn look_ahead(&mut self, connection: &Connection, received: Received<'_>) {
        let Self { planner, accessor, context, now_ms, .. } = self;
        let db = connection.client.db;
        let mut first = 0;
        while first < received.len() {
            // In groups, as they run: the cache lines of all buckets are on their way before the first is looked at.
            planner.plan_group(accessor, db, received, first);
            for (planned, command) in planner.group().iter().zip(first..) {
                let Some(dispatch) = planned.dispatch else { continue };
                match admit(context, &connection.client, dispatch, *now_ms) {
                    Admission::Granted => {}
                    // It will be refused, and must not cost a read.
                    Admission::Refused(_) => continue,
                    Admission::Paused => return,
                }
                let need = match dispatch.run {
                    Handler::Read(_) => Need::Read,
                    Handler::Write(_) => Need::Change,
                    // It may change what the following ones mean.
                    Handler::Admin(_) | Handler::Container => return,
                };
                let args = received.args(command);
                for (position, access) in
                    context.table.row(dispatch.index).shape.keys_exact(args.len(), |argument| args.at(argument))
                {
                    if need == Need::Read || accessor.reads_before_write() || !is_blind(dispatch, access, args) {
                        let key = planned.key.at(args, position).unwrap_or_else(|| accessor.key(db, args.at(position)));
                        accessor.probe(key, need);
                    }
                }
                if accessor.wanted() >= AHEAD_MAX {
                    return;
                }
            }
            first += planner.group().len();
        }
    }

    /// Whether any command of the batch may take memory.
    pub(crate) fn writes(&mut self, connection: &Connection, received: Received<'_>) -> bool {
        (0..received.len()).any(|command| {
            let planned = self.planner.plan_alone(&self.accessor, connection.client.db, received.args(command));
            planned.dispatch.is_some_and(|dispatch| dispatch.flags.any(Flags::DENY_OOM))
        })
    }

    /// Asks for the records that have been noted as needed. `None` when there is nothing to wait for.
    pub(crate) fn request_records(&mut self, connection: &mut Connection, stage: &mut Stage) -> Option<Next> {
        let Self { accessor, context, reads, .. } = self;
        if accessor.wanted() == 0 {
            return None;
        }
        accessor.plan(stage, &mut reads.fetches);
        reads.request(connection.id, &mut connection.waiting);
        connection.waiting.resumed = connection.waiting.reads != 0;
        if connection.waiting.resumed {
            context.statistics().counters.device_waits.add(1);
        }
        connection.waiting.resumed.then_some(Next::Await)
    }
}

/// Whether a call most probably sets this key without regard to what it was. A wrong guess costs a second read, or one too many.
fn is_blind(dispatch: &Dispatch, access: Access, args: Args<'_>) -> bool {
    let expiry = || [&b"ex"[..], b"px", b"exat", b"pxat"].iter().any(|option| args.at(3).eq_ignore_ascii_case(option));
    let set = || args.len() == 3 || args.len() == 5 && expiry();
    dispatch.flags.any(Flags::BLIND) || access == Access::Overwrite && dispatch.flags.any(Flags::SELF_LOCKING) && set()
}

/// Makes sure that what is known of the declared keys, which are locked, is at hand.
#[cold]
pub(crate) fn require(dispatch: &Dispatch, call: &mut WriteCall<'_>) -> Outcome {
    let mut outcome = Ok(());
    for key in declared_keys(call.context, dispatch, call.args) {
        let key = call.keys.key(key);
        // All of them, so that all are read together.
        outcome = outcome.and(call.keys.require(key));
    }
    outcome.map_err(CommandError::from)
}

/// What a command's outcome is worth, when it may have met records that are on the device.
#[cold]
pub(crate) fn settle(outcome: Outcome, accessor: &mut Accessor) -> Outcome {
    let met = accessor.check_met();
    if matches!(outcome, Err(CommandError::Cold | CommandError::StorageUnreadable)) || met.is_ok() {
        return outcome;
    }
    if accessor.wanted() > RECORDS_MAX {
        accessor.forget_wanted();
        return Err(CommandError::TooManyCold);
    }
    met.map_err(CommandError::from)
}
