//! Histories: concurrent clients record when they asked and what they were told; a checker finds out whether some order of the
//! operations, each between its call and its return, explains all answers (linearizability).
//!
//! Keys are checked in groups: a group of one key for the single-key commands, of several for the commands that must be atomic over
//! all of them. Groups do not affect each other, so each is checked alone, which is what makes long histories affordable.
//! [`units`] are histories that contain transactions.

pub mod check;
pub(crate) mod expiry;
pub mod faults;
pub mod mock;
pub mod model;
pub mod record;
mod search;
pub mod units;

pub use check::check;
pub use model::{Kind, Op};
pub use record::{Entry, History, Settings, record};
