//! Snapshot files of Redis and Valkey into a keyspace: one item after the other, in small batches, so that memory is bounded by the
//! largest key and others come to their turn between any two.

mod fault;
mod function;
mod input;
mod lane;
mod rdb;
#[cfg(test)]
mod tests;

pub use fault::{LoadError, LoadFault};
pub use function::library_name;
pub use input::FileInput;
pub use rdb::{Existing, LoadOptions, Loaded, load};
