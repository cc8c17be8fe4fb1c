//! Commands that wait: from the look that has found nothing to the place in the queues of their keys.
//!
//! A command that writes has its keys latched when it looks, and enters the queues under the same latches. One that reads has not: it runs once
//! more under them, to make sure that there still is nothing (INV-BLOCK-2).

use std::sync::Arc;

use almandine_call::blocking::{Block, Waiting};
use almandine_call::{Access, Client, CommandError, Dispatch, Outcome, PlannedKey, ReadCall};
use almandine_keyspace::Writer;
use almandine_node::ClientShared;
use almandine_resp::{Args, ArgsBuf, ProtocolVersion, Reply};

use crate::execution::Execution;

/// What has to be done for a client that waits, on any worker.
pub(crate) struct Request {
    /// The command that runs, by dense index.
    pub(crate) index: u16,
    /// Its arguments.
    pub(crate) args: ArgsBuf,
    /// The place of another key that it changes.
    pub(crate) other: Option<usize>,
    /// The client's version of the protocol.
    pub(crate) version: ProtocolVersion,
    /// The client.
    pub(crate) shared: Arc<ClientShared>,
    /// What it may do.
    pub(crate) access: Access,
}

/// A client begins to wait for what its command has asked for: all keys are latched. None: it was served in vain and waits already.
#[cold]
pub(crate) fn wait(keys: &mut Writer<'_>, client: &Client, dispatch: &Dispatch, args: Args<'_>) -> Option<Box<Waiting>> {
    let block = client.blocking.take_asked()?;
    if client.blocking.serving.is_some() {
        return None;
    }
    let Block { keys: places, awaited, other, timeout_ms, unanswered, rewritten, .. } = *block;
    let mut names: Vec<Box<[u8]>> = Vec::with_capacity(places.len());
    for name in places.map(|place| args.at(place)) {
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    }
    let args = rewritten.unwrap_or_else(|| owned(args));
    let request = Request {
        index: dispatch.index,
        args,
        other,
        version: client.version,
        shared: Arc::clone(&client.shared),
        access: client.access.clone(),
    };
    let waiter = keys.wait(names.into(), awaited, Box::new(request));
    Some(Box::new(Waiting { waiter, timeout_ms, unanswered }))
}

/// Runs a command once more that reads and has found nothing: under the latches of the keys that it waits for. If it still finds nothing, the
/// client begins to wait under them.
#[cold]
pub(crate) fn read_again(
    execution: &mut Execution<'_>,
    dispatch: &Dispatch,
    handler: fn(&mut ReadCall<'_>) -> Outcome,
    args: Args<'_>,
) -> Outcome {
    let Execution { client, accessor, context, out, .. } = execution;
    if client.blocking.serving.is_some() {
        client.blocking.take_asked();
        return Err(CommandError::Blocks);
    }
    let Some(block) = client.blocking.take_asked() else { return Err(CommandError::Blocks) };
    accessor.plan_unit();
    for place in block.keys {
        accessor.plan_key(client.db, args.at(place), true);
    }
    accessor.begin_unit();
    client.blocking.certain.set(true);
    let reply = Reply::new(out, client.version);
    let outcome =
        handler(&mut ReadCall { args, keys: accessor.reader(client.db), reply, client, context, planned: PlannedKey::default() });
    client.blocking.certain.set(false);
    let found_cold = accessor.has_cold() && accessor.check_met().is_err();
    if matches!(outcome, Err(CommandError::Blocks)) && !found_cold {
        let waiting = wait(&mut accessor.writer(client.db), client, dispatch, args);
        client.blocking.waiting = waiting;
    }
    accessor.reader(client.db).end_events(found_cold);
    accessor.end_unit();
    if found_cold { Err(CommandError::Cold) } else { outcome }
}

fn owned(args: Args<'_>) -> ArgsBuf {
    let mut owned = ArgsBuf::new();
    args.iter().for_each(|argument| owned.push(argument));
    owned
}
