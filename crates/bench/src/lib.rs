//! The load generator.
//!
//! **Is**: a client that costs clearly less CPU per command than any server it measures, and says what the server's CPU time per
//! command and the latency from the intended send time were. Comparisons of several servers are `almandine-lab`'s, which is built
//! on this library.
//! **Is not**: a client library. Of the server nothing is used here but the client's end of TLS, so that one mistake cannot hide
//! in both; nothing on the machine is changed, only reported.
//! **Invariants**: requests exist before the clock starts; an open-loop latency counts from the due time.
//! **Start reading at**: [`workload`], then [`load`] for one run.

pub mod cli;
pub mod control;
pub mod generate;
pub mod link;
pub mod load;
pub mod plot;
pub mod reply;
pub mod report;
pub mod system;
pub mod workload;
