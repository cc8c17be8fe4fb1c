//! Running commands: batches, groups, the slow path, units of work, and what became of each.

pub(crate) mod batch;
pub(crate) mod events;
pub(crate) mod execute;
pub(crate) mod outcome;
pub(crate) mod runner;
pub(crate) mod script;
pub(crate) mod seen;
pub(crate) mod slow_path;
pub(crate) mod transaction;
pub(crate) mod unit;

#[cfg(test)]
mod footprint_tests;
