//! Commands on the server, its connections and its clients: what operators, tools and drivers ask. One file per topic.
//!
//! **Is**: ordinary functions, most of them on [`AdminCall`], which may change the connection and the node.
//! **Is not**: a place for what works on keys (`commands`).
//! **Invariants**: as in `commands`. A handler that waits does so outside the batch's epoch.
//! **Start reading at**: [`COMMANDS`], then the topic's file.

mod acl;
mod command;
mod config;
mod connection;
mod databases;
mod debug;
mod digest;
mod info;
mod latency;
mod lolwut;
mod memory;
mod module;
mod persistence;
mod process;
mod replication;
mod slowlog;
mod sparkline;

use std::net::SocketAddr;

use almandine_call::{AdminCall, Command};
use almandine_command_spec::Traits;
use almandine_node::{ClientShared, Node};

/// All of them, topic by topic.
pub const COMMANDS: &[&[&Command]] = &[
    connection::COMMANDS,
    info::COMMANDS,
    config::COMMANDS,
    command::COMMANDS,
    databases::COMMANDS,
    slowlog::COMMANDS,
    latency::COMMANDS,
    memory::COMMANDS,
    process::COMMANDS,
    persistence::COMMANDS,
    replication::COMMANDS,
    module::COMMANDS,
    acl::COMMANDS,
    lolwut::COMMANDS,
    debug::COMMANDS,
];

/// What most commands for operators have in common.
const FOR_OPERATORS: Traits = Traits { admin: true, noscript: true, loading: true, stale: true, ..Traits::NONE };

/// Runs `work` outside the batch's epoch, so that a wait in it holds nothing up: memory is reclaimed meanwhile.
fn outside_epoch(call: &mut AdminCall<'_>, work: impl FnOnce(&Node)) {
    call.accessor.end_batch();
    work(&call.context.node);
    call.accessor.begin_batch(call.now_ms);
}

/// Whether a client is on this machine, for what only such clients may do.
fn is_local(client: &ClientShared) -> bool {
    client.unix_socket || client.address.parse::<SocketAddr>().is_ok_and(|address| address.ip().to_canonical().is_loopback())
}
