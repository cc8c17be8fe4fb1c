//! Scripts: their texts and flags, the cache of those that are loaded, and the machine of a worker with what they may call.
//!
//! **Is**: [`Scripts`], which all workers share, and [`Engine`], of which each worker has one: a Lua machine with the tables
//! `redis` and `server`, and the conversions between values of Lua and replies.
//! **Is not**: aware of commands, clients and keys. What a script calls is run by the [`Commands`] that the session gives.
//! **Invariants**: nothing that a run makes is seen by another one, but for the keyspace; a script that is killed catches
//! nothing any more; what a script returns is written as one reply, without ends of line within a line.
//! **Start reading at**: [`Engine::go_on`], then [`Scripts`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod cache;
mod engine;
mod flags;
mod functions;
mod machines;
mod program;
mod recent;
mod running;
mod shebang;
mod turns;

pub use almandine_lua::Unseen;
pub use cache::Scripts;
pub use engine::commands::{Commands, LogLevel, Verdict};
pub use engine::{Engine, EngineOptions, Invocation, RunEnd};
pub use flags::ScriptFlags;
pub use functions::{ChangeKind, Libraries, Library, LibraryChange, RestorePolicy};
pub use machines::Machines;
pub use program::{Footprint, Function, Program, Script, Sha};
pub use recent::RecentScripts;
pub use running::{KillRefused, ProgramKind, Running, RunningScript};
pub use turns::{TurnWait, Turns};

/// An error line without its `-`, as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(pub Vec<u8>);

impl ScriptError {
    fn new(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// `before`, what the client has sent, `after`.
    fn quoting(before: &str, words: &[u8], after: &str) -> Self {
        Self([before.as_bytes(), words, after.as_bytes()].concat())
    }
}
