//! A connection's life: parse, plan, prefetch, execute, reply.
//!
//! **Is**: the [`net::Service`](almandine_net::Service) of the server. One [`WorkerService`] per worker serves all of its
//! connections; a [`Connection`] is the private state of one.
//! **Is not**: a place for what a command does (`commands`), for sockets (`net`) or for what all workers share (`instance`). It
//! knows no command by name: it branches on traits.
//! **Invariants**: commands of one connection run in the order in which they came, and their replies leave in that order. The
//! time is read once per batch, the epoch is entered once per batch. On the path of an ordinary batch nothing is allocated and
//! no mutex is taken.
//! **Start reading at**: [`receive`] (`receive`), then the files of the steps in their order.
//!
//! # Folders
//!
//! | folder | has |
//! |---|---|
//! | [`service`] | the connections of a worker: they come, send and go; messages, memory, pauses |
//! | [`run`] | batches, groups, the slow path, units of work, EXEC; the steps around each command and the end of each unit |
//! | [`steps`] | what a group does before and behind its commands: plan, admit, cold records, computations, replies |
//! | [`blocking`] | waits for keys: their begin, how they are served, their end |
//! | [`state`] | a worker, a connection, and memory that is used again |
//! | [`observe`] | times, logs, MONITOR, HOTKEYS, counters, the running command for a crash report |
//!
//! # One batch
//!
//! Each received chunk is parsed into at most [`BATCH_COMMANDS_MAX`](almandine_base::limits::BATCH_COMMANDS_MAX) commands
//! ([`receive`]). They run in groups ([`batch`]), and each group takes these steps:
//!
//! 1. [`plan`]: each command is looked up and its first key hashed; its bucket is prefetched, together with those of its other
//!    keys;
//! 2. the buckets are glanced at and the records that they name prefetched, so that misses overlap; look-ups go on from the
//!    glances;
//! 3. [`admit`]: what may not run is refused;
//! 4. [`residency`]: while anything of the data is on the device, the batch asks for its cold records first and waits for them
//!    ([`cold`], [`reads`]);
//! 5. [`runner`], [`execute`]: the steps around a command; its latches; its handler, which writes the reply behind the others;
//! 6. [`transaction`]: EXEC runs what was queued as one unit;
//! 7. [`reply`]: errors take the place of what a handler has written;
//! 8. [`after_command`]: logs of large commands, and clients that track keys.
//!
//! A group ends behind a command that may change what the following ones mean (SELECT, AUTH, CONFIG …). While anything is
//! unusual (authentication outstanding, replies off, a client that tracks, a MONITOR listening, a pause, every command to be
//! timed) commands go through [`slow_path`], one at a time, with every check that the fast loop does not make.
//!
//! # Panics
//!
//! A panic in a handler is a broken invariant of ours while latches may be held, so it ends the process: release builds abort,
//! and the server's panic hook does so in all builds after it has logged where. Serving on with a store in doubt would be worse.
//!
//! [`admit`]: steps::admit
//! [`after_command`]: observe::after_command
//! [`batch`]: run::batch
//! [`cold`]: steps::cold
//! [`execute`]: run::execute
//! [`plan`]: steps::plan
//! [`reads`]: steps::reads
//! [`receive`]: service::receive
//! [`reply`]: steps::reply
//! [`residency`]: steps::residency
//! [`runner`]: run::runner
//! [`slow_path`]: run::slow_path
//! [`transaction`]: run::transaction

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod blocking;
mod observe;
mod run;
mod service;
mod state;
mod steps;

pub use observe::running::{Running, running};
pub use service::receive::WorkerService;
pub use service::replay::{Replay, ReplayTime, Unanswered};
pub use state::carrying::Carrier;
pub use state::connection::Connection;
