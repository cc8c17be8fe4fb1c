//! Snapshot files of the node: loaded at its start.

mod load;

pub(crate) use load::{announced_bytes, load};
