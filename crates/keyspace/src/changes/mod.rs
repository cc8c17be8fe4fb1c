//! Changes of keys: as databases, as effects, and as keyspace events, and who listens to them.
//!
//! **Start reading at**: [`feed`].

pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod feed;
pub(crate) mod listeners;
