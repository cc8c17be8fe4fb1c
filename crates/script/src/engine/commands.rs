//! What a script may reach outside of its machine.

use almandine_base::Output;
use almandine_resp::{Args, ProtocolVersion};

/// The commands that a script calls, as the session runs them.
pub trait Commands {
    /// Runs a command, and appends its reply; an error of any kind is a reply. False when it has not run: the script is due to be
    /// suspended, or to end, before it.
    #[must_use]
    fn call(&mut self, args: Args<'_>, version: ProtocolVersion, out: &mut Output) -> bool;

    /// Whether the caller's user may run a command; nothing for one that does not exist.
    fn permits(&mut self, args: Args<'_>) -> Option<bool>;

    /// An error is replied that has not been counted.
    fn replied_error(&mut self, text: &[u8]);

    /// The script has written a line for the server's log.
    fn log(&mut self, level: LogLevel, line: String);

    /// The script has run for a while.
    fn verdict(&mut self) -> Verdict;
}

/// How a script that has run for a while goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At once.
    GoOn,
    /// Later.
    Suspend,
    /// Not at all: it was killed.
    End,
}

/// How much a line of a script's log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

impl LogLevel {
    pub(crate) const ALL: [(&'static str, Self); 4] =
        [("LOG_DEBUG", Self::Debug), ("LOG_VERBOSE", Self::Verbose), ("LOG_NOTICE", Self::Notice), ("LOG_WARNING", Self::Warning)];

    /// Writes a line to the server's log.
    pub fn write(self, text: &str) {
        match self {
            Self::Debug => tracing::debug!("{text}"),
            Self::Verbose | Self::Notice => tracing::info!("{text}"),
            Self::Warning => tracing::warn!("{text}"),
        }
    }
}
