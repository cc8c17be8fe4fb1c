//! Deterministic simulation: threads, time, disks and networks that follow from one seed.
//!
//! The parts stand on their own: [`turn::Turn`] runs simulated threads one at a time in virtual time, [`choice::Choices`] decides
//! all that is left open and can be replayed, the trace tells two runs apart, and [`world::World`] has nodes that crash and boot.
//! What is not connected to the rest of `io` yet stands in `docs/simulation.md`.
//!
//! Built with the feature `sim` only. A crash of a node unwinds its threads, so the profile must not abort when a thread panics.

pub mod choice;
pub mod clock;
pub mod disk;
pub mod net;
mod node;
pub(crate) mod parking;
pub mod sync;
pub mod trace;
pub mod turn;
mod wait_point;
pub mod world;

#[cfg(test)]
mod tests;
