//! A script that runs, and one that is suspended.

use std::sync::Arc;

use almandine_base::Output;
use almandine_handler::{Client, Transaction};
use almandine_net::ConnectionId;
use almandine_resp::ProtocolVersion;
use almandine_script::{Engine, Program, Running};

/// A script that runs.
pub(crate) struct ScriptRun {
    pub(crate) read_only: bool,
    /// Each command that takes memory is checked.
    pub(crate) checks_memory: bool,
    /// Memory was beyond its limit when the script began.
    pub(crate) over_limit: bool,
    pub(crate) wrote: bool,
    /// Its client's tracking remembers what the call declares.
    pub(crate) remembered: bool,
    pub(crate) scope: Scope,
    pub(crate) start_ns: u64,
    /// When its slice began.
    pub(crate) slice_ns: u64,
    /// What others see of it, once it has run for long.
    pub(crate) running: Option<Arc<Running>>,
    pub(crate) program: Program,
    /// What its client was.
    pub(crate) before: Before,
}

/// The unit of work that a script is, or is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One of the keys that its code declares.
    Planned,
    /// One that may touch anything.
    Alone,
    /// That of EXEC.
    OfTransaction,
}

/// What a client was before its script.
pub(crate) struct Before {
    pub(crate) db: u16,
    pub(crate) version: ProtocolVersion,
    pub(crate) transaction: Option<Transaction>,
}

/// A script that is suspended.
pub(crate) struct Suspended {
    pub(crate) engine: Box<Engine>,
    pub(crate) run: ScriptRun,
    /// Whose it is.
    pub(crate) connection: Option<ConnectionId>,
    /// A client in place of one that is gone.
    pub(crate) orphan: Option<Box<Client>>,
    pub(crate) out: Output,
}
