//! HyperLogLog: how many different elements there are, about, in 12 KB. The bytes are Redis'.
//!
//! An element's hash chooses one of 16384 registers, and the register keeps the longest run of zero bits, plus one, that the
//! rest of such a hash has begun with. The estimate is made from how many registers have each value ([`estimate`]). The standard
//! error is 0.81 %.
//!
//! ```text
//! byte   0    4         5       8                      16
//!        HYLL encoding  unused  cached cardinality     registers
//!             0: dense  000     64 bits, little end    dense: 12288 bytes, 6 bits each, lowest bits first
//!             1: sparse         first; its highest     sparse: opcodes ([`sparse`])
//!                               bit: not valid
//! ```
//!
//! A value is a string that a client may have written: all of it may be wrong.

mod add;
pub mod dense;
mod element;
mod estimate;
mod header;
mod histogram;
mod registers;
pub mod self_test;
mod shape;
pub mod sparse;
mod value;

pub use add::add;
pub use element::Observation;
pub use header::{CACHE, EMPTY, HEADER_BYTES, cached, invalidate, invalidated};
pub use registers::{Merged, Registers};
pub use shape::{Corrupted, REGISTERS, Way};
pub use value::{DENSE_BYTES, Hll, to_dense};

#[cfg(test)]
mod tests;
