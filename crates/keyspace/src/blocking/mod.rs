//! Blocking: queues of clients that wait for keys, and how a unit of work serves them.
//!
//! **Start reading at**: [`wait`].

pub(crate) mod queues;
pub(crate) mod serve_waiters;
pub(crate) mod wait;
