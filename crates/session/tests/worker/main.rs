//! One worker without sockets: what commands cost, and what becomes of their units of work.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[cfg(debug_assertions)]
mod costs;
mod databases;
mod expiry;
mod limits;
mod rig;
mod scripts;
mod served;
mod unplanned;
mod waited;
