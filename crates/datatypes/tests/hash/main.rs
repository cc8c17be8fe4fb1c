//! Large hashes against an ordered map: random operations with snapshots held, images, scans, expiry, damaged bytes. `sizes` and
//! `speed` measure.

#![expect(clippy::unwrap_used, reason = "all is in memory")]

mod images;
mod model;
mod operations;
mod sampling;
mod scanning;
mod sizes;
mod speed;
