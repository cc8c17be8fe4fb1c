//! The operation log in the simulation: crashes at each change of its disk, failing disks, and the steps of its protocol left out.

#![cfg(feature = "sim")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod crashes;
mod faults;
mod foreign;
mod heal;
mod keys;
mod life;
mod rings;
mod wait;
mod writer;
