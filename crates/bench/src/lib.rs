//! The load generator and the laboratory around it.
//!
//! **Is**: a client that costs clearly less CPU per command than any server it measures, and the procedures that turn its runs
//! into comparable numbers: alternating repeats, server CPU per command, resident bytes per key, latency from the intended
//! send time.
//! **Is not**: a client library. Nothing of the server is used here, so that one mistake cannot hide in both; nothing on
//! the machine is changed, only reported.
//! **Invariants**: requests exist before the clock starts; an open-loop latency counts from the due time; every server that is
//! started is confined to its cores, bound to loopback, and ended.
//! **Start reading at**: [`workload`], then [`load`] for one run, then [`lab`] for comparisons.

pub mod cli;
pub mod control;
pub mod generate;
pub mod lab;
pub mod load;
pub mod plot;
pub mod reply;
pub mod report;
pub mod system;
pub mod workload;
