//! Commands that wait: for a key that another client fills, or for their time to be up.
//!
//! A command looks at its keys, and when none has anything for it, it returns what [`crate::KeyCall::block`] returns. The
//! session lets the connection wait; when one of the keys is ready it runs the same command again, on any worker, with the
//! arguments that it had, and sends what it answers. It is run then for one key only, which [`crate::KeyCall::candidates`]
//! tells, or for those that the unit of work has latched ([`crate::KeyCall::candidates_together`]).
//!
//! Where a client cannot wait, as in EXEC, the command answers what it would when its time is up.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use almandine_instance::LogSeal;
use almandine_keyspace::{Awaited, Kind, Waiter};
use almandine_resp::{ArgsBuf, Reply};

use crate::errors::{self, CommandError};
use crate::number;

/// Milliseconds that a timeout may be at most, so that its end is a time, too.
const TIMEOUT_MS_MAX: i64 = i64::MAX - (1 << 42);

/// What a command waits for.
#[derive(Debug)]
pub struct Block {
    /// The places of the keys among the arguments; none for a command that waits for no key.
    pub keys: Range<usize>,
    /// What the keys must be.
    pub awaited: Awaited,
    /// The place of another key that the command changes.
    pub other: Option<usize>,
    /// After how many milliseconds it gives up; none: never.
    pub timeout_ms: Option<u64>,
    /// When there may be something for it though no key changes, in Unix milliseconds.
    pub again_ms: Option<i64>,
    /// What it answers when it gives up.
    pub unanswered: Unanswered,
    /// What it answers where its client cannot wait.
    pub at_once: Unanswered,
    /// The arguments to run it again with, if not those that it has.
    pub rewritten: Option<ArgsBuf>,
    /// What it waits for of the operation log.
    pub log: Option<LogWait>,
}

/// What a command waits for of the operation log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWait {
    /// What the log has to reach.
    pub seal: LogSeal,
    /// Whether that is all that the command waits for.
    pub ends: bool,
    /// What the command answers from then on.
    pub reached: Unanswered,
}

impl Block {
    /// Waits for one of several keys of a type, for so long; then it answers a null array.
    #[must_use]
    pub fn on(kind: Kind, keys: Range<usize>, timeout_ms: Option<u64>) -> Self {
        let awaited = Awaited { kind, or_gone: false };
        let unanswered = Unanswered::NullArray;
        Self { keys, awaited, other: None, timeout_ms, again_ms: None, unanswered, at_once: unanswered, rewritten: None, log: None }
    }

    /// Waits until its time is up.
    #[must_use]
    pub fn until_time(timeout_ms: Option<u64>, unanswered: Unanswered) -> Self {
        Self { unanswered, at_once: unanswered, ..Self::on(Kind::String, 0..0, timeout_ms) }
    }
}

/// What a command answers that has waited in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Null.
    Null,
    /// A null array.
    NullArray,
    /// Zero.
    Zero,
    /// Two zeroes.
    TwoZeroes,
    /// One and zero.
    OneAndZero,
    /// COMMITAOF: all is durable.
    Committed,
    /// It is not. Where the log breaks the command waits no more.
    Uncommitted,
    /// BACKUP SEAL: it is on its way.
    Unsealed,
}

impl Unanswered {
    /// Answers it.
    pub fn write(self, reply: &mut Reply<'_>) {
        match self {
            Self::Null => reply.null(),
            Self::NullArray => reply.null_array(),
            Self::Zero => reply.integer(0),
            Self::TwoZeroes | Self::OneAndZero => {
                reply.array(2);
                reply.integer(i64::from(self == Self::OneAndZero));
                reply.integer(0);
            }
            Self::Committed => reply.simple("AOF file committed"),
            Self::Uncommitted => reply.error(errors::server::COMMIT_FAILED.bytes()),
            Self::Unsealed => reply.error(errors::server::BACKUP_UNSEALED.bytes()),
        }
    }
}

/// What a client waits for, while it does.
#[derive(Debug)]
pub struct Waiting {
    /// Its place in the queues of its keys.
    pub waiter: Arc<Waiter>,
    /// See [`Block::timeout_ms`].
    pub timeout_ms: Option<u64>,
    /// See [`Block::unanswered`].
    pub unanswered: Unanswered,
    /// See [`Block::log`]; none once it is reached.
    pub log: Option<LogWait>,
}

/// A client as one that waits.
#[derive(Default)]
pub struct Blocking {
    /// What the client waits for. The session lets it go on.
    pub waiting: Option<Box<Waiting>>,
    /// The client stands for one that waits, and is served with this key.
    pub serving: Option<Arc<[u8]>>,
    /// The command was run with what the client stands for, in vain. When there may be something for it, as in [`Block::again_ms`].
    pub again_ms: Cell<Option<i64>>,
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Blocking").field("waiting", &self.waiting).field("serving", &self.serving).finish_non_exhaustive()
    }
}

/// How long a command waits, in milliseconds, from an argument in seconds with fractions. None: for ever.
///
/// # Errors
/// As Redis checks it.
pub fn timeout_in_seconds(argument: &[u8]) -> Result<Option<u64>, CommandError> {
    let seconds = number::double(argument).map_err(|_| CommandError::TimeoutNotFloat)?;
    let milliseconds = (seconds * 1000.0).ceil();
    if milliseconds > TIMEOUT_MS_MAX as f64 {
        return Err(CommandError::TimeoutOutOfRange);
    }
    timeout(milliseconds as i64)
}

/// As [`timeout_in_seconds`], from one in whole milliseconds.
///
/// # Errors
/// As Redis checks it.
pub fn timeout_in_milliseconds(argument: &[u8]) -> Result<Option<u64>, CommandError> {
    let milliseconds = number::integer(argument).map_err(|_| CommandError::TimeoutNotInteger)?;
    if milliseconds > TIMEOUT_MS_MAX {
        return Err(CommandError::TimeoutOutOfRange);
    }
    timeout(milliseconds)
}

fn timeout(milliseconds: i64) -> Result<Option<u64>, CommandError> {
    let milliseconds = u64::try_from(milliseconds).map_err(|_| CommandError::TimeoutNegative)?;
    Ok((milliseconds > 0).then_some(milliseconds))
}
