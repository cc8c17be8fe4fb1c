//! Numbers as texts, byte for byte as Redis reads and writes them.
//!
//! - [`integer`]: the one text that stands for each integer; anything else is not an integer.
//! - [`double`]: scores and their like: whatever C's `strtod` takes, written with 17 digits or with as few as suffice.
//! - [`extended`]: what `INCRBYFLOAT` computes with: the x87's 80-bit float, in software and thus on every processor.

pub mod double;
pub mod extended;
pub mod integer;
mod literal;
mod natural;
mod rounding;

pub use double::{parse_f64, parse_f64_leniently, write_g17, write_shortest};
pub use extended::{Extended, FloatError, add_texts};
pub use integer::parse_i64;
