//! Devices in the simulation: crashes at each change of their disks, and faults.

#![cfg(feature = "sim")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod crashes;
mod faults;
mod model;
mod tier;
