//! The behaviour of a network of workers, on both reactors, and in the simulation.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod control;
mod echo;
mod endpoints;
mod limits;
mod reads;
mod rig;
mod stream;
mod transport;
