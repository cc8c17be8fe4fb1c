//! Pure values, one folder for each type: strings, bitmaps, HyperLogLog, positions, hashes, lists, sets, sorted sets, streams;
//! and numbers and globs. No I/O, no clock.
//!
//! **Is**: what Redis' commands compute of strings, as functions over byte slices, and collections: as bytes within a record
//! ([`hash::PackedHash`] and its like), and as objects ([`hash::HashObject`] and its like). What the types share is in [`packed`],
//! [`tree`] and [`hashed`]. The texts and the edge cases are Redis'.
//! **Is not**: a place that knows commands, replies, keys or records; it never fails with a RESP error text.
//! **Invariants**: no `unsafe`; functions over bytes allocate nothing but results and [`string::lcs`]'s and [`number`]'s bounded
//! scratch, collections nothing per element; every function is total: no argument makes it panic, unless its documentation says so.
//! A snapshot never changes (INV-TREE-2). An operation on an object ends with [`almandine_base::object::Missing`] where a part of
//! it is not in memory; nothing has changed then, unless the operation says otherwise.
//! **Start reading at**: [`number`] (the texts of floats), [`bitmap`], [`string::lcs`]; for collections [`packed`], then [`tree`].
//!
//! `tests/` holds each module against a naive model, and against a `redis-server`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod bitmap;
pub mod geo;
pub mod glob;
pub mod hash;
pub mod hashed;
pub mod hyperloglog;
mod image;
pub mod list;
pub mod number;
pub mod packed;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod tree;
