//! Sets against an ordered one: packed ones and objects, random operations with snapshots held, images, scans, damaged bytes.
//! `sizes` measures.

#![expect(clippy::unwrap_used, reason = "all is in memory")]

mod algebra;
mod objects;
mod packed;
mod sizes;
