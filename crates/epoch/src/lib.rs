//! Epoch protection with bump-and-drain actions, and the epoch-protected state machine.
//!
//! **Is**: the answer to two questions that latch-free code asks of its background threads: *may this memory be reused?*
//! ([`Epoch`]) and *does every worker know the new phase?* ([`Machine`]). Workers pay one store and one fence per batch of
//! commands.
//! **Is not**: an allocator or a collector. It holds no memory, starts no thread, knows no store, and never runs control work
//! on a worker.
//! **Invariants**: *E1* what was retired in an epoch at or below [`Epoch::safe`] is reachable by no participant. *E2* an action
//! of [`Epoch::bump_with`] runs at most once, and only when its epoch is safe. *E3* when a machine's step for phase *n* runs, no
//! participant is in an earlier phase. *E4* while one participant is alone, no other one that enters through the gate is inside.
//! `tests/loom.rs` checks each, and that breaking the protocol breaks the test.
//! **Start reading at**: [`epoch`], whose header gives the memory-ordering argument; then [`machine`].
//!
//! Sources: Li, Chandramouli and Madden, *Performant Almost-Latch-Free Data Structures Using Epoch Protection* (DaMoN 2022);
//! the Garnet paper (VLDB 2025), section 3.3.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod deferred;
pub mod epoch;
mod gate;
pub mod machine;
pub mod participant;
mod sync;

pub use deferred::Deferred;
pub use epoch::Epoch;
pub use machine::{Busy, Machine, Phase, Progress, Run, Step};
pub use participant::Participant;
