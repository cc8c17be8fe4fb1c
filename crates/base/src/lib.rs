//! Shared nouns of every layer: limits, output buffers, shared bytes, classes of events, what the store knows of a collection,
//! steps, points, mutants, words of a line.
//!
//! **Is**: the few types that several layers must agree on, and the fixed limits that several crates hold to. A limit of one
//! mechanism stands beside it.
//! **Is not**: a place for helpers with one user; it knows no protocol, no kernel and no clock.
//! **Invariants**: an output's attachments are in ascending order of their offsets, which lie within its bytes.
//! **Start reading at**: [`limits`], then [`output`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod events;
pub mod limits;
pub mod mutants;
pub mod object;
pub mod output;
pub mod points;
pub mod steps;
pub mod words;

pub use output::Output;
