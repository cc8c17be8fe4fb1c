//! Commands that wait: from the look that has found nothing to the place in the queues of their keys.
//!
//! A command that writes has its keys latched when it looks, and enters the queues under the same latches. One that reads has
//! not: it runs once more under them, to make sure that there still is nothing (INV-BLOCK-2).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use almandine_base::points::{Witness, witness};
use almandine_base::{Output, step};
use almandine_handler::blocking::{Block, Waiting};
use almandine_handler::{Access, Client, Context, Dispatch, Outcome, PlannedKey, ReadCall, Stop};
use almandine_instance::{ClientShared, Message};
use almandine_keyspace::{Accessor, Reader, Waiter, WaiterKeys};
use almandine_resp::{Args, ArgsBuf, ProtocolVersion, Reply};

use crate::run::runner::Runner;

/// What has to be done for a client that waits, on any worker.
pub(crate) struct Request {
    /// The command that runs, by dense index.
    pub(crate) index: u16,
    /// Its arguments.
    pub(crate) args: ArgsBuf,
    /// The client's version of the protocol.
    pub(crate) version: ProtocolVersion,
    /// The client.
    pub(crate) shared: Arc<ClientShared>,
    /// What it may do.
    pub(crate) access: Access,
    /// When there may be something for it though no key changes, in Unix milliseconds; [`NEVER`].
    pub(crate) again_ms: AtomicI64,
}

/// No time.
pub(crate) const NEVER: i64 = i64::MAX;

impl Request {
    /// It was run in vain: there may be something again at `again_ms`, as far as it has looked at all of its keys. Whether that
    /// is sooner than it was known.
    pub(crate) fn look_again(&self, again_ms: Option<i64>, looked_at_all: bool) -> bool {
        let again_ms = again_ms.unwrap_or(NEVER);
        let before = if looked_at_all {
            self.again_ms.swap(again_ms, Ordering::Relaxed)
        } else {
            self.again_ms.fetch_min(again_ms, Ordering::Relaxed)
        };
        again_ms < before
    }
}

/// A client begins to wait for what its command has asked for: all keys are latched. None: it was served in vain and waits already.
#[cold]
pub(crate) fn wait(
    keys: &mut Reader<'_>,
    client: &Client,
    dispatch: &Dispatch,
    args: Args<'_>,
    block: &mut Block,
) -> Option<Box<Waiting>> {
    if client.blocking.serving.is_some() {
        client.blocking.again_ms.set(block.again_ms);
        return None;
    }
    let &mut Block { keys: ref places, awaited, other, timeout_ms, again_ms, unanswered, ref mut rewritten, log, .. } = block;
    let names = WaiterKeys::new(places.clone().map(|place| args.at(place)), other.map(|place| args.at(place)));
    let args = rewritten.take().unwrap_or_else(|| args.into());
    let request = Request {
        index: dispatch.index,
        args,
        version: client.version,
        shared: Arc::clone(&client.shared),
        access: client.access.clone(),
        again_ms: AtomicI64::new(again_ms.unwrap_or(NEVER)),
    };
    let waiter = keys.plan().wait(names, awaited, Box::new(request));
    // Under the latches: a client that can be served can be unblocked.
    client.shared.blocked.set(Some(Arc::clone(&waiter)));
    witness(Witness::Waits, client.shared.id);
    Some(Box::new(Waiting { waiter, timeout_ms, unanswered, log }))
}

/// A command was run with a ready key for one that waits, and has found nothing. Its worker hears of it if there may be
/// something for it sooner than was known.
pub(crate) fn served_in_vain(accessor: &mut Accessor, context: &Context, client: &Client, waiter: &Waiter) {
    let again_ms = client.blocking.again_ms.take();
    let Some(request) = waiter.request().downcast_ref::<Request>() else { return };
    if (again_ms.is_none() && request.again_ms.load(Ordering::Relaxed) == NEVER) || accessor.cold().wanted() > 0 {
        return;
    }
    if step!(LookSooner, request.look_again(again_ms, accessor.waiters().holds_all_of(waiter)), else false) {
        context.instance.workers.send(request.shared.worker, Message::LookAgain(request.shared.id));
    }
}

/// Runs a command once more that reads and has found nothing: under the latches of the keys that it waits for. If it still finds
/// nothing, the client begins to wait under them.
#[cold]
pub(crate) fn read_again(
    runner: &mut Runner,
    client: &mut Client,
    out: &mut Output,
    (dispatch, handler): (&Dispatch, fn(&mut ReadCall<'_>) -> Outcome),
    args: Args<'_>,
    block: Box<Block>,
) -> Outcome {
    if client.blocking.serving.is_some() {
        return Err(Stop::Waiting(block));
    }
    let Runner { accessor, context, .. } = runner;
    let reply = Reply::new(out, client.version);
    let mut call = ReadCall { args, keys: accessor.reader(client.db), reply, client, context, planned: PlannedKey::default() };
    call.keys.plan().lock_all(block.keys.map(|place| args.at(place)));
    let mut outcome = handler(&mut call);
    let waiting = match &mut outcome {
        Err(Stop::Waiting(block)) => wait(&mut call.keys, call.client, dispatch, args, block),
        _ => None,
    };
    call.keys.events().end(matches!(outcome, Err(Stop::Cold | Stop::Unreadable | Stop::Unplanned | Stop::Held)));
    drop(call);
    client.blocking.waiting = waiting;
    // A key that it has found past its time may be one whose end another client waits for.
    if accessor.serving().has_ready() {
        runner.end_unit();
    }
    outcome
}
