//! One line of CLIENT LIST, with Redis' fields in Redis' order.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use almandine_call::Table;
use almandine_node::ClientShared;

/// Appends the line of `client`, without an end of line. What other threads may not know (buffer sizes) reads as 0.
pub(super) fn write(line: &mut String, client: &ClientShared, table: &Table, now_ms: i64) {
    let identity = client.identity().clone();
    let command = table.rows().get(client.activity.last_command.load(Relaxed) as usize).map_or("NULL", |entry| &entry.name);
    let query_bytes = client.activity.query_bytes.load(Relaxed);
    let output_bytes = client.activity.output_pending_bytes.load(Relaxed);
    let seconds_since = |then_ms: i64| (now_ms - then_ms).max(0) / 1000;
    // Writing to a String does not fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} \
         qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} user={} redir={} resp={} \
         lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={}",
        client.id,
        client.address,
        client.local_address,
        client.descriptor,
        identity.name,
        seconds_since(client.created_ms),
        seconds_since(client.activity.at_ms.load(Relaxed)),
        client.flags(),
        client.activity.db.load(Relaxed),
        client.subscriptions.channels.load(Relaxed),
        client.subscriptions.patterns.load(Relaxed),
        client.subscriptions.shards.load(Relaxed),
        client.transaction.queued.load(Relaxed),
        client.transaction.watched.load(Relaxed),
        query_bytes,
        client.transaction.bytes.load(Relaxed),
        output_bytes,
        query_bytes + output_bytes + client.transaction.bytes.load(Relaxed) + size_of::<ClientShared>(),
        command,
        identity.user,
        client.tracking.redirect.load(Relaxed),
        client.activity.protocol.load(Relaxed),
        identity.library_name,
        identity.library_version,
        client.activity.input_bytes.load(Relaxed),
        client.activity.output_bytes.load(Relaxed),
        client.activity.commands.load(Relaxed),
    );
}
