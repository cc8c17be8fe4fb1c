//! What commands compute of strings: parts by their offsets, common subsequences, digests.

pub mod digest;
pub mod lcs;
pub mod range;
