//! The kernel: reactors, sockets, memory mappings, clocks, threads, signals, entropy.
//!
//! **Is**: the only crate that touches sockets, files, clocks, threads and entropy, so that a simulator can stand in for all of
//! them.
//! **Is not**: a network server or a storage engine. It knows no connection state, no protocol and no configuration.
//! **Invariants**: *I1* the kernel reads or writes memory of ours only inside a system call of the thread that owns the
//! memory, or inside the buffer ring of a reactor, which lives as long as the reactor, or into the buffer of a read that a
//! reactor has under way, which it owns until the read has ended. *I2* a descriptor that a submission
//! names stays open until the kernel has taken the submission. Errors are those of the system, where a function does not say more.
//! **Start reading at**: [`reactor`], then [`reactor::Outbox`] and [`storage`].

pub mod allocator;
pub mod clock;
pub mod crash;
pub mod detach;
pub mod entropy;
pub mod file;
pub mod files;
pub mod limits;
pub mod mapping;
pub mod memory;
pub mod process;
pub mod reactor;
mod share;
pub mod signal;
#[cfg(feature = "sim")]
pub mod sim;
pub mod socket;
pub mod storage;
pub mod sync;
pub mod syslog;
pub mod thread;
pub mod title;
pub mod usage;
pub mod wake;
