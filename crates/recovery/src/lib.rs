//! From files to a keyspace and back: snapshots, bases, and the redo of the operation log.
//!
//! **Is**: [`load`] (files of Redis into a keyspace), [`save`] (a keyspace into files of Redis), [`transcribe`] (such files value
//! by value, without a keyspace), [`base`] (a copy of
//! all keys that the log completes), [`redo`] (the units of the log).
//! **Is not**: a place that knows clients or commands.
//! **Invariants**: what is loaded is whole or refused; redo looks at no clock.
//! **Start reading at**: [`load`], then [`put`]; [`save`]; `lanes`, by which keys come into a keyspace from several threads.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod base;
mod durable;
mod lanes;
pub mod load;
pub mod put;
pub mod redo;
pub mod save;
pub mod transcribe;

pub use lanes::LANES_MAX;
