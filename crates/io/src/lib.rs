//! The kernel: reactors, sockets, memory mappings, clocks, threads, entropy.

pub mod clock;
pub mod memory;
pub mod thread;
