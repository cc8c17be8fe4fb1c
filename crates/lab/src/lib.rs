//! Comparisons of servers: start them alike, load them in turn, compare.
//!
//! **Is**: procedures over several servers, of which users get the results and not the program: alternating repeats, server CPU
//! per command, resident bytes per key, latency from the intended send time.
//! **Is not**: a load generator; loads are made by `almandine-bench`, and nothing here knows how.
//! **Invariants**: every server that is started is confined to its cores, bound to loopback, without persistence, stopped (not
//! just idle) while another one is measured, and ended.
//! **Start reading at**: [`servers`], then [`scenario`], then [`compare`].

pub mod canned;
pub mod churn;
pub mod cli;
pub mod cold;
pub mod compare;
pub mod connections;
pub mod cost;
pub mod expire;
pub mod floor;
pub mod folder;
pub mod grid;
pub mod handover;
pub mod hits;
pub mod info;
pub mod latency;
pub mod launch;
pub mod logs;
pub mod mark;
pub mod memory;
pub mod pipe;
pub mod pubsub;
pub mod scenario;
pub mod scripts;
pub mod servers;
mod size;
pub mod soak;
pub mod teach;
mod turns;
pub mod watch;
pub mod wire;
