//! Access control: users, what they may do, and the log of what they were denied.
//!
//! **Is**: the rules of ACL SETUSER and of ACL files, in both directions; users as values; the questions whether a selector permits
//! a command, a key, a channel, a database; passwords, which are kept as SHA-256 hashes.
//! **Is not**: aware of clients, of a command's handler, of files, or of the caller: which questions a call raises, and what
//! follows from the answers, is decided in `handler`.
//! **Invariants**: a [`User`] that others see never changes, a change makes another; what describes a user makes the same user
//! again; no password is kept, only its hash, and hashes are compared in constant time.
//! **Start reading at**: [`User::apply`], then [`Selector`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod catalog;
mod commands;
mod database;
mod error;
mod file;
mod log;
mod password;
mod pattern;
mod selector;
mod user;
mod users;

pub use catalog::Catalog;
pub use commands::CommandSet;
pub use database::Databases;
pub use error::{RuleError, UserError};
pub use log::{AclLog, Entry, LogContext, Reason};
pub use password::Password;
pub use pattern::{KeyPattern, Pattern};
pub use selector::Selector;
pub use user::{Defaults, User};
pub use users::{DEFAULT_USER, DEFAULT_USER_ID, Users, is_valid_name};
