//! What commands for operators have in common.

use std::net::SocketAddr;

use almandine_command_spec::Traits;
use almandine_handler::AdminCall;
use almandine_instance::{ClientShared, Instance};

/// What most commands for operators have in common.
pub(crate) const FOR_OPERATORS: Traits = Traits { admin: true, noscript: true, loading: true, stale: true, ..Traits::NONE };

/// Runs `work` outside the batch's epoch, so that a wait in it holds nothing up: memory is reclaimed meanwhile.
pub(crate) fn outside_epoch(call: &mut AdminCall<'_>, work: impl FnOnce(&Instance)) {
    let instance = &call.context.instance;
    call.accessor.outside_epoch(|| work(instance));
}

/// The caller, for the log.
pub(crate) fn caller(call: &AdminCall<'_>) -> String {
    let shared = &call.client.shared;
    let user = String::from_utf8_lossy(&call.client.access.user().name).into_owned();
    format!("client {} at {}, user {}", shared.id, shared.address, user.escape_default())
}

/// Whether a client is on this machine, for what only such clients may do.
pub(crate) fn is_local(client: &ClientShared) -> bool {
    client.unix_socket || client.address.parse::<SocketAddr>().is_ok_and(|address| address.ip().to_canonical().is_loopback())
}
