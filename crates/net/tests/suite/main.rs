//! The behaviour of a network of workers, on both reactors.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod control;
mod echo;
mod endpoints;
mod limits;
mod reads;
mod stream;
