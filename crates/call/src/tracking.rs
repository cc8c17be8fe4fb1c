//! CLIENT TRACKING around each command: what a tracking client reads is remembered, and who has read a key is notified of its changes.
//!
//! The session calls [`before_read`] and [`after_read`] around the commands of a tracking client, and [`after_write`] behind commands that
//! may write, of any client, while somebody tracks. Who is notified, and how, is the node's business ([`almandine_node::tracking`]).

use almandine_node::Node;
use almandine_resp::Args;

use crate::call::Context;
use crate::client::Client;
use crate::flags::Flags;
use crate::table::Dispatch;

/// Ends tracking for a client: CLIENT TRACKING OFF, RESET, the end of the connection.
pub fn stop(client: &mut Client, node: &Node) {
    if client.tracking.take().is_some() {
        node.tracking.disable(&client.shared);
    }
}

/// All keys of a database are gone.
pub fn emptied(client: &mut Client, node: &Node) {
    node.tracking.invalidate_all(Some(client.shared.id), &mut client.invalidations);
}

/// A read of a tracking client, between [`before_read`] and [`after_read`].
#[derive(Clone, Copy, Debug)]
#[must_use = "keys that are read must be looked at again"]
pub struct Tracked {
    stamp: u64,
}

/// Remembers the keys that a command of a client is about to read, if it is one to remember. Keys beyond `tracking-table-max-keys` are
/// taken out first; what the client hears of that is in its invalidations.
pub fn before_read(client: &mut Client, dispatch: &Dispatch, args: Args<'_>, context: &Context) -> Option<Tracked> {
    let tracking = client.tracking.as_ref()?;
    let entry = context.table.row(dispatch.index);
    if !entry.command.spec.traits.readonly || !tracking.remembers() {
        return None;
    }
    let node = &context.node;
    node.tracking.limit(keys_max(context), Some(client.shared.id), &mut client.invalidations);
    let tracked = Tracked { stamp: node.tracking.stamp() };
    remember(client, dispatch, args, context);
    Some(tracked)
}

/// Makes sure that the keys that were read are still remembered.
pub fn after_read(tracked: Tracked, client: &Client, dispatch: &Dispatch, args: Args<'_>, context: &Context) {
    let node = &context.node;
    if node.tracking.stamp() != tracked.stamp {
        remember(client, dispatch, args, context);
    }
}

fn remember(client: &Client, dispatch: &Dispatch, args: Args<'_>, context: &Context) {
    for (position, _) in keys(dispatch, args, context) {
        context.node.tracking.remember(client.shared.id, args.at(position));
    }
}

/// Ends a command of a tracking client: CLIENT CACHING was about it, unless it was one about the client. A transaction is one command.
pub fn finish(client: &mut Client, dispatch: &Dispatch, context: &Context) {
    if client.transaction.is_none()
        && let Some(tracking) = &mut client.tracking
        && !context.table.row(dispatch.index).name.starts_with("client|")
    {
        tracking.caching_said = false;
    }
}

/// Notifies who has read the keys that a command has changed. Keys below a prefix that somebody tracks go to `broadcasts`, and are reported
/// together at the end of the batch. Of a command that deletes some keys and finds others missing, the missing ones count as changed, too.
pub fn after_write(
    client: &mut Client,
    dispatch: &Dispatch,
    args: Args<'_>,
    reply: &[u8],
    context: &Context,
    broadcasts: &mut Vec<Vec<u8>>,
) {
    if !dispatch.flags.any(Flags::MAY_WRITE) || has_changed_nothing(dispatch, args, reply, context) {
        return;
    }
    let node = &context.node;
    for (position, _) in keys(dispatch, args, context).filter(|(_, is_write)| *is_write) {
        let key = args.at(position);
        node.tracking.invalidate(key, Some(client.shared.id), &mut client.invalidations);
        if node.tracking.is_broadcast(key) {
            broadcasts.push(key.to_vec());
        }
    }
}

/// Tells who tracks a prefix of the keys that a batch has changed.
pub fn finish_batch(client: &mut Client, context: &Context, broadcasts: &mut Vec<Vec<u8>>) {
    context.node.tracking.broadcast_changes(
        broadcasts.iter().map(Vec::as_slice),
        Some(client.shared.id),
        &mut client.invalidations,
    );
    broadcasts.clear();
}

/// Whether the reply says that the command has changed nothing. Saying no is always right: somebody is notified once too often then.
fn has_changed_nothing(dispatch: &Dispatch, args: Args<'_>, reply: &[u8], context: &Context) -> bool {
    let is_null = matches!(reply, b"$-1\r\n" | b"_\r\n");
    match context.table.row(dispatch.index).name.as_str() {
        _ if reply.first() == Some(&b'-') => true,
        "del" | "unlink" | "expire" | "pexpire" | "expireat" | "pexpireat" | "persist" | "setnx" | "msetnx" | "msetex"
        | "renamenx" | "copy" | "move" | "delex" | "delifgreater" => reply == b":0\r\n",
        "getdel" => is_null,
        "getex" => is_null || args.len() == 2,
        // With GET, null is the value before.
        "set" => is_null && !args.slice_from(3).iter().any(|argument| argument.eq_ignore_ascii_case(b"get")),
        _ => false,
    }
}

/// `tracking-table-max-keys`.
fn keys_max(context: &Context) -> usize {
    context.settings().connections.tracking_keys_max
}

/// The keys of a call: their positions, and whether the command may change them.
fn keys<'a>(dispatch: &Dispatch, args: Args<'a>, context: &Context) -> impl Iterator<Item = (usize, bool)> + use<'a> {
    let shape = &context.table.row(dispatch.index).shape;
    shape.keys(args.len(), move |argument| args.at(argument)).map(|(position, access)| (position, access.is_write()))
}
