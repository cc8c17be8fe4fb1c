//! A connection's life: parse, plan, prefetch, execute, reply.
//!
//! **Is**: the [`net::Service`](almandine_net::Service) of the server. One [`Sessions`] per worker serves all of its connections; a
//! [`Connection`] is the private state of one.
//! **Is not**: a place for what a command does (`commands`), for sockets (`net`) or for what all workers share (`node`). It knows no
//! command by name: it branches on traits.
//! **Invariants**: commands of one connection run in the order in which they came, and their replies leave in that order. The time is read
//! once per batch, the epoch is entered once per batch. On the path of an ordinary batch nothing is allocated and no mutex is taken.
//! **Start reading at**: [`service`] (`receive`), then [`batch`], then [`execute`].
//!
//! # One batch
//!
//! Each received chunk is parsed into at most [`BATCH_COMMANDS_MAX`](almandine_base::limits::BATCH_COMMANDS_MAX) commands. They run in groups:
//!
//! 1. *plan*: each command is looked up and its first key hashed; its bucket is prefetched, together with those of its other keys;
//! 2. *prefetch*: the records that the buckets name are prefetched;
//! 3. *execute*: lock what the spec declares, run the handler, which writes its reply behind the others; a few commands have an
//!    aftermath.
//!
//! A group ends behind a command that may change what the following ones mean (SELECT, AUTH, CONFIG …). While anything is unusual —
//! authentication outstanding, replies off, a client that tracks, a MONITOR listening, a pause, every command to be timed — commands go through [`careful`],
//! one at a time, with every check that the fast loop does not make.
//!
//! # Panics
//!
//! A panic in a handler is a broken invariant of ours while latches may be held, so it ends the process: release builds abort, and the
//! server's panic hook does so in all builds after it has logged where. Serving on with a store in doubt would be worse.

mod aftermath;
pub mod batch;
pub mod careful;
mod cold;
pub mod connection;
pub mod execute;
mod monitor;
mod protected;
pub mod service;
mod timing;

pub use connection::Connection;
pub use service::Sessions;
