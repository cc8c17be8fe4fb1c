//! WATCH: which clients must hear that a key has changed.
//!
//! **Start reading at**: [`watched_keys`].

pub(crate) mod table;
pub(crate) mod watched_keys;
