//! Changes of keys, as names in databases, as effects and as keyspace events, and the listeners for them.
//!
//! **Start reading at**: [`feed`].

pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod held;
pub(crate) mod listeners;
pub(crate) mod log;
