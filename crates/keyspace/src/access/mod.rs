//! Access: databases, units of work, and what a command may do with a key.
//!
//! **Start reading at**: [`accessor`].

pub(crate) mod accessor;
pub(crate) mod copying;
#[cfg(test)]
mod copying_tests;
pub(crate) mod databases;
pub(crate) mod destinations;
pub(crate) mod dumping;
pub mod frequency;
pub(crate) mod latest_time;
pub(crate) mod namespaces;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod unit;
pub(crate) mod value;
pub(crate) mod writer;
