//! Snapshot files of the node: loaded at its start, written while it runs and at its end.

pub(crate) mod base;
pub(crate) mod load;
mod saver;
mod write;

pub(crate) use load::{announced_bytes, load, restore};
pub(crate) use saver::{LoadLog, Saver, start};
