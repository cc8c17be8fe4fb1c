//! The server family: what operators and tools ask of a server as a whole. One file per topic.

mod acl;
mod command;
mod config;
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

use almandine_command_spec::Traits;
use almandine_node::{ClientShared, Node};

use crate::{AdminCall, Command};

/// The family, topic by topic.
const TOPICS: &[&[&Command]] = &[
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

/// The family.
pub(crate) const COMMANDS: &[&Command] = &joined::<{ count(TOPICS) }>(TOPICS);

const fn count(topics: &[&[&Command]]) -> usize {
    let (mut count, mut topic) = (0, 0);
    while topic < topics.len() {
        count += topics[topic].len();
        topic += 1;
    }
    count
}

const fn joined<const N: usize>(topics: &[&[&'static Command]]) -> [&'static Command; N] {
    let mut all = [topics[0][0]; N];
    let (mut filled, mut topic) = (0, 0);
    while topic < topics.len() {
        let mut command = 0;
        while command < topics[topic].len() {
            all[filled] = topics[topic][command];
            (filled, command) = (filled + 1, command + 1);
        }
        topic += 1;
    }
    all
}

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
