//! Sorted sets against a naive one: packed ones and objects, random operations with snapshots held, ranges, images, scans, expiry,
//! damaged bytes. `sizes` and `speed` measure.

#![expect(clippy::unwrap_used, reason = "all is in memory")]

mod model;
mod objects;
mod packed;
mod ranges;
mod sizes;
mod speed;
