//! Histories of units of work: transactions over several keys of two databases, optimistic ones, and commands of several keys,
//! among single commands. Each unit must be explained by one moment at which all of it happened (strict serializability).
//!
//! Keys may expire, which happens at a moment that no client is told: between the earliest and the latest that the clock
//! allows, the model takes each possibility. A watched key that has changed since must keep EXEC from executing, and nothing
//! else may.

mod check;
mod collection;
mod command;
mod contents;
mod model;
mod record;

pub use check::{check, is_refused};
pub use collection::{Kind, Operation};
pub use command::{Command, Features, Unit};
pub use record::{Entry, History, Settings, record};
