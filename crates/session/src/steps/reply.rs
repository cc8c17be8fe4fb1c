//! Step 6, *reply*, where a handler has written none: errors, and the ends of connections.

use almandine_base::Output;
use almandine_handler::{Client, CommandError, Context};
use almandine_net::Next;
use almandine_resp::{ProtocolError, Reply};

use crate::state::connection::Connection;

/// Writes an error in place of a reply.
#[cold]
pub(crate) fn error(context: &Context, client: &Client, out: &mut Output, error: &CommandError) {
    context.statistics().error_replied(&error.text());
    Reply::new(out, client.version).error(error.bytes());
}

/// Replies that commands wait for EXEC.
#[inline]
pub(crate) fn queued(out: &mut Output, commands: usize) {
    const QUEUED: &[u8] = b"+QUEUED\r\n";
    out.bytes.reserve(commands * QUEUED.len());
    (0..commands).for_each(|_| out.bytes.extend_from_slice(QUEUED));
}

/// A violation of the protocol is answered, and the connection closed behind the answer.
#[cold]
pub(crate) fn violation(connection: &Connection, error: &ProtocolError, out: &mut Output) -> Next {
    tracing::debug!("Protocol error from client {}: {error}", connection.client.shared.address);
    Reply::new(out, connection.client.version).error(error.message());
    Next::CloseAfterFlush
}

/// A peer that speaks HTTP is cut off without an answer, as Redis does.
#[cold]
pub(crate) fn abort_other_protocol(connection: &Connection) -> Next {
    tracing::warn!(
        "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to Redis. This is \
         likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Redis instance. \
         Connection from {} aborted.",
        connection.client.shared.address
    );
    Next::Close
}
