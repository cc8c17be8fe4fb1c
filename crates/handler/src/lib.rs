//! What a handler is given, and the table that finds it.
//!
//! **Is**: [`ReadCall`], [`WriteCall`] and [`AdminCall`], whose types are permissions; the connection's [`Client`]; every error
//! text; what handlers read their arguments with; and the [`Table`] that is made of a list of [`Command`]s.
//! **Is not**: a command: those on data are in `commands`, those on the server and its clients in `admin`, and the server puts
//! the list together. Nor aware of sockets, batches or locks.
//! **Invariants**: a handler replies exactly once, or returns a [`Stop`], and then has written nothing; its permission is its
//! type; every error text is in [`errors`], in a file for each family.
//! **Start reading at**: [`call`], then [`table`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod access;
pub mod blocking;
pub mod call;
pub mod client;
pub mod client_line;
mod command;
pub mod computation;
pub mod database;
pub mod errors;
mod fieldsets;
mod flags;
pub mod follow;
pub mod footprint;
pub mod help;
pub mod number;
pub mod options;
pub mod pubsub;
mod queue;
pub mod redact;
pub mod rights;
pub mod script;
mod script_turn;
mod stop;
mod subscriptions;
pub mod table;
pub mod tracking;
pub mod transaction;

pub use access::Access;
pub use call::{AdminCall, Context, KeyAccess, KeyCall, PlannedKey, ReadCall, WriteCall};
pub use client::{Client, ClientTracking, Kept, ReplyMode};
pub use command::{Command, Handler};
pub use errors::CommandError;
pub use fieldsets::Fieldsets;
pub use flags::Flags;
pub use options::{Options, Word};
pub use queue::{Queue, Transaction, WatchedKey, Watching};
pub use rights::Denial;
pub use script::{Prepare, ScriptCall};
pub use script_turn::{Anew, ScriptTurn};
pub use stop::{Outcome, Stop};
pub use table::{Dispatch, Row, Table};
