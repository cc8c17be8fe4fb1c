//! A script that runs, and one that is suspended.

use std::collections::HashSet;
use std::sync::Arc;

use almandine_base::Output;
use almandine_handler::{Client, Queue, Transaction, Watching};
use almandine_net::ConnectionId;
use almandine_resp::ProtocolVersion;
use almandine_script::{Engine, Program, Running};

use crate::observe::withheld::Withheld;

/// A script that runs.
pub(crate) struct ScriptRun {
    pub(crate) read_only: bool,
    /// Each command that takes memory is checked.
    pub(crate) checks_memory: bool,
    /// The log took nothing when it was to write first.
    pub(crate) unlogged: bool,
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
    pub(crate) slice: Slice,
    /// How often it has begun anew.
    pub(crate) times: u32,
    /// Of one whose commands may read keys that are not known before.
    pub(crate) growth: Option<Box<Growth>>,
    /// What others see of it, once it was suspended or has run for long.
    pub(crate) running: Option<Arc<Running>>,
    /// What it has counted in slices before this one.
    pub(crate) withheld: Option<Box<Withheld>>,
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

/// Whether a script runs again: alone, if its command uses a key outside of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The command fails.
    #[default]
    No,
    /// Nothing of the script can have been seen.
    Possible,
    /// A command has used such a key.
    Due,
    /// The library of the function was replaced or removed while it waited for its unit: it is looked for again.
    Stale,
}

/// What a client was before its script.
pub(crate) struct Before {
    pub(crate) db: u16,
    pub(crate) version: ProtocolVersion,
    pub(crate) transaction: Option<Transaction>,
}

/// The keys of a script whose plan grows.
pub(crate) struct Growth {
    /// Those of the plan, and those that its next command wants.
    pub(crate) known: HashSet<Box<[u8]>, rapidhash::fast::RandomState>,
    /// The latter.
    pub(crate) wanted: Vec<Box<[u8]>>,
    /// The script keeps what it has latched when it comes to another key. Else it releases all, and goes on with that one, too.
    pub(crate) keeps: bool,
    /// Those that were latched since the script began, or was suspended last, while nothing of it could have been seen.
    pub(crate) added: Vec<Box<[u8]>>,
}

impl Growth {
    /// One with the keys that are known before.
    pub(crate) fn new(known: impl Iterator<Item = Box<[u8]>>, keeps: bool) -> Box<Self> {
        Box::new(Self { known: known.collect(), wanted: Vec::new(), keeps, added: Vec::new() })
    }

    /// A command reads a key.
    pub(crate) fn use_key(&mut self, key: &[u8]) {
        if self.learn(key) {
            self.wanted.push(key.into());
        }
    }

    /// Whether a key was not known.
    pub(crate) fn learn(&mut self, key: &[u8]) -> bool {
        !self.known.contains(key) && self.known.insert(key.into())
    }
}

/// How long a script runs before it is suspended.
pub(crate) struct Slice {
    pub(crate) begun_ns: u64,
    /// How long it may be.
    pub(crate) max_ns: u64,
    /// What those before this one have taken.
    pub(crate) spent_ns: u64,
    /// Commands since the script was last asked whether it is over.
    pub(crate) calls: u32,
}

impl Slice {
    pub(crate) fn new(begun_ns: u64, max_ns: u64) -> Self {
        Self { begun_ns, max_ns, spent_ns: 0, calls: 0 }
    }

    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= self.max_ns
    }

    /// Ends it. Returns what it has taken.
    pub(crate) fn end(&mut self, now_ns: u64) -> u64 {
        let took_ns = now_ns.saturating_sub(self.begun_ns);
        self.spent_ns += took_ns;
        took_ns
    }
}

impl ScriptRun {
    /// Whether its next command needs keys outside of its plan.
    pub(crate) fn wants_keys(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| !growth.wanted.is_empty())
    }

    /// Whether it keeps what it has latched when it comes to another key.
    pub(crate) fn keeps_latches(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| growth.keeps)
    }

    /// Whether another client has ended it.
    pub(crate) fn is_killed(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_killed())
    }
}

/// What a script leaves between two slices that holds nothing meanwhile.
pub(crate) struct Rest {
    /// The keys that it may use, and what hears of their changes.
    pub(crate) watching: Watching,
    /// Those that are not watched yet.
    pub(crate) more: Vec<Box<[u8]>>,
    /// Whether it may change them.
    pub(crate) writes: bool,
    /// It has to begin anew in any case.
    pub(crate) is_lost: bool,
    /// Its time, which stands still, Unix milliseconds.
    pub(crate) now_ms: i64,
    /// What MONITOR's listeners see when it ends.
    pub(crate) lines: String,
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
    /// Nothing for one that is alone, and keeps its unit of work.
    pub(crate) rest: Option<Rest>,
    /// The transaction that it is part of.
    pub(crate) exec: Option<Box<RestOfExec>>,
}

/// What EXEC leaves that runs a script which is suspended.
pub(crate) struct RestOfExec {
    /// Its commands.
    pub(crate) queue: Box<Queue>,
    /// The number of the one that has called the script.
    pub(crate) next: usize,
    /// The replies of those before it.
    pub(crate) out: Output,
    pub(crate) start_ns: u64,
}
