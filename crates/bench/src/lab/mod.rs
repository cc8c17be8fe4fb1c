//! Procedures over several servers: start them alike, measure them in turn, compare.
//!
//! Servers are started on free loopback ports, pinned, without persistence, and stopped (not just idle) while another one is
//! measured. Nothing here knows how a load is made.

pub mod canned;
pub mod churn;
pub mod cold;
pub mod compare;
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
pub mod mark;
pub mod memory;
pub mod pipe;
pub mod pubsub;
pub mod scenario;
pub mod servers;
pub mod soak;
pub mod statistics;
pub mod sweep;
pub mod teach;
mod turns;
pub mod watch;
pub mod wire;
