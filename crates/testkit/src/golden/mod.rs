//! Golden sessions: what a client types and what it must see, in files that a person can read.
//!
//! ```text
//! # A comment.
//! === what this session shows            (a new session: an empty keyspace, new connections)
//! @resp 3                                (directives; see `file::Session`)
//! SET a "1 2"
//! GET a                                  (several commands: one pipeline)
//! 2> GET a                               (on connection 2)
//! ----
//! +OK                                    (one reply per command, in the notation of `Value`, or a matcher as `<int>`)
//! $"1 2"
//! $"1 2"
//! ```
//!
//! An empty line ends a step. With `ALMANDINE_BLESS=1` the runner asks redis-server instead and writes its replies into the files,
//! so that the texts are true; what already matches, matchers included, stays. It must not be used to make our own output pass.

pub mod expect;
pub mod file;
pub mod run;

pub use expect::Expect;
pub use file::{Session, Step, parse};
pub use run::{Manner, Outcome, bless_file, run_file, run_file_with};
