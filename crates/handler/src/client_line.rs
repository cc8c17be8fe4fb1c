//! One line of CLIENT LIST: the fields of Redis 7.0 in its order, then those of later versions.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use almandine_instance::ClientShared;
use almandine_resp::Args;

use crate::table::Table;

/// Appends the line of `client`, without an end of line. `arguments_bytes` are those of the command that it executes.
///
/// Sizes are those of the structures that hold them. Connections have no reply buffer of their own (`rbs`, `rbp`, `obl`): what a
/// peer does not take at once is in `oll` pieces of `omem` bytes. Arguments lie in the input, and are told only of the command
/// that asks, and of one that is not complete (`argv-mem`).
pub fn write(line: &mut String, client: &ClientShared, table: &Table, now_ms: i64, arguments_bytes: usize) {
    let identity = client.identity().clone();
    let (activity, memory) = (&client.activity, &client.memory);
    let command = table.rows().get(activity.last_command.load(Relaxed) as usize).map_or("NULL", |entry| &entry.name);
    let query_bytes = activity.query_bytes.load(Relaxed);
    let understood = memory.understood_bytes.load(Relaxed);
    let output_bytes = memory.output_bytes.load(Relaxed);
    let seconds_since = |then_ms: i64| (now_ms - then_ms).max(0) / 1000;
    // Writing to a String does not fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} qbuf={} \
         qbuf-free={} argv-mem={} multi-mem={} rbs=0 rbp=0 obl=0 oll={} omem={} tot-mem={} events={} cmd={} user={} redir={} \
         resp={} watch={} lib-name={} lib-ver={} io-thread={} tot-net-in={} tot-net-out={} tot-cmds={}",
        client.id,
        client.address,
        client.local_address,
        client.descriptor,
        identity.name,
        seconds_since(client.created_ms),
        seconds_since(activity.at_ms.load(Relaxed)),
        client.flags(),
        activity.db.load(Relaxed),
        client.subscriptions.channels.load(Relaxed),
        client.subscriptions.patterns.load(Relaxed),
        client.subscriptions.shards.load(Relaxed),
        client.transaction.queued.load(Relaxed),
        query_bytes,
        memory.input_bytes.load(Relaxed).saturating_sub(query_bytes + understood),
        arguments_bytes.max(understood),
        client.transaction.bytes.load(Relaxed),
        memory.outputs.load(Relaxed),
        output_bytes,
        memory.total_bytes.load(Relaxed),
        if activity.output_pending_bytes.load(Relaxed) > 0 { "rw" } else { "r" },
        command,
        identity.user,
        client.tracking.redirect.load(Relaxed),
        activity.protocol.load(Relaxed),
        client.transaction.watched.load(Relaxed),
        identity.library_name,
        identity.library_version,
        client.worker,
        activity.input_bytes.load(Relaxed),
        activity.output_bytes.load(Relaxed),
        activity.commands.load(Relaxed),
    );
}

/// Bytes of a command's arguments, its name among them.
#[must_use]
pub fn arguments_bytes(args: Args<'_>) -> usize {
    args.iter().map(<[u8]>::len).sum()
}
