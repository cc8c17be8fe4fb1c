//! The operation log: units of work as bytes with numbers, from the rings of the threads that did them to files.
//!
//! **Is**: the order of units ([`unit`]), and the log in files that is fed by a [`UnitSource`].
//! **Is not**: aware of commands, records or types of values: what a unit did is bytes of entries.
//! **Invariants**: a number is given once, and the numbers of a ring ascend; what is written to files is a closed cut.
//! **Start reading at**: [`unit`], then [`source`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod source;
pub mod unit;

pub use source::{RingId, UnitSource};
pub use unit::{UnitHead, epoch_of};
