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
    /// Others may see that it has run: it does not run again.
    pub(crate) seen: bool,
    /// It may have no end: it runs again, alone, when it has run for long.
    pub(crate) endless: bool,
    pub(crate) scope: Scope,
    pub(crate) start_ns: u64,
    /// When its slice began.
    pub(crate) slice_ns: u64,
    /// What others see of it, once it has run for long.
    pub(crate) running: Option<Arc<Running>>,
    /// What its client was.
    pub(crate) before: Before,
}

/// The unit of work that a script is, or is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One of the keys that its code declares.
    Planned,
    /// One read of one key, as a command reads it.
    Single,
    /// One that may touch anything.
    Alone,
    /// That of EXEC.
    OfTransaction,
}

/// Whether a script whose command uses a key outside of its unit runs again, alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The command fails.
    #[default]
    No,
    /// Nothing of the script can have been seen.
    Possible,
    /// A command has used such a key.
    Due,
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
    pub(crate) program: Program,
    /// Whose it is.
    pub(crate) connection: Option<ConnectionId>,
    /// A client in place of one that is gone.
    pub(crate) orphan: Option<Box<Client>>,
    pub(crate) out: Output,
}
