//! Commands on the server, its connections and its clients: what operators, tools and drivers ask. One file per topic.
//!
//! **Is**: ordinary functions, most of them on [`AdminCall`](almandine_handler::AdminCall), which may change the connection and the
//! instance.
//! **Is not**: a place for what works on keys (`commands`).
//! **Invariants**: as in `commands`. A handler that waits does so outside the batch's epoch.
//! **Start reading at**: [`COMMANDS`], then the topic's file.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod acl;
mod backup;
mod client;
mod command;
mod config;
mod connection;
mod databases;
mod debug;
mod digest;
mod eval;
mod function;
mod hotkeys;
mod info;
mod latency;
mod lolwut;
mod memory;
mod module;
mod names;
mod operators;
mod persistence;
mod process;
mod pubsub;
mod reload;
mod replication;
mod script;
mod slowlog;
mod sparkline;
mod transactions;

use almandine_handler::Command;

/// All of them, topic by topic.
pub const COMMANDS: &[&[&Command]] = &[
    connection::COMMANDS,
    client::COMMANDS,
    transactions::COMMANDS,
    pubsub::COMMANDS,
    hotkeys::COMMANDS,
    info::COMMANDS,
    config::COMMANDS,
    command::COMMANDS,
    databases::COMMANDS,
    slowlog::COMMANDS,
    latency::COMMANDS,
    memory::COMMANDS,
    process::COMMANDS,
    persistence::COMMANDS,
    backup::COMMANDS,
    replication::COMMANDS,
    module::COMMANDS,
    eval::COMMANDS,
    function::COMMANDS,
    script::COMMANDS,
    acl::COMMANDS,
    lolwut::COMMANDS,
    debug::COMMANDS,
];
