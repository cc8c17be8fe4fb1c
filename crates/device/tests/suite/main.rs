//! Every device against one suite, and what each has of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod conformance;
mod faulty;
mod file;
mod guards;
mod memory;
#[cfg(feature = "object-store")]
mod object;
mod scratch;
mod sharded;
mod tiered;
