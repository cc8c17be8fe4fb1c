//! The chunks of the two trees of a sorted set.

pub(super) mod index;
pub(super) mod order;
