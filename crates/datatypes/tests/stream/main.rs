//! Streams against naive ones, by random operations; their images; their sizes. INV-STREAM-1, INV-STREAM-2 and INV-TREE-1 are
//! checked throughout, INV-TREE-2 by snapshots that are compared when they end.

#![expect(clippy::unwrap_used, reason = "all is in memory")]

mod groups;
mod images;
mod model;
mod operations;
mod sizes;
