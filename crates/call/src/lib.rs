//! What a handler is given, and the table that finds it.
//!
//! **Is**: [`ReadCall`], [`WriteCall`] and [`AdminCall`], whose types are permissions; the connection's [`Client`]; every error text; what
//! handlers read their arguments with; and the [`Table`] that is made of a list of [`Command`]s.
//! **Is not**: a command: those on data are in `commands`, those on the server and its clients in `admin`, and the server puts the list
//! together. Nor aware of sockets, batches or locks.
//! **Invariants**: a handler replies exactly once, or returns an error, and then has replied nothing and written nothing; its permission is
//! its type; every error text is in [`errors`].
//! **Start reading at**: [`call`], then [`table`].

pub mod call;
pub mod client;
pub mod errors;
pub mod help;
pub mod number;
pub mod options;
pub mod table;
pub mod tracking;

use almandine_command_spec::CommandSpec;

pub use call::{AdminCall, Context, PlannedKey, ReadCall, WriteCall};
pub use client::{Client, ReplyMode};
pub use errors::{CommandError, Outcome};
pub use options::{Options, Word};
pub use table::{Entry, Flags, Plan, Table};
pub use tracking::ClientTracking;

/// A command: what it is, and what it does.
#[derive(Debug)]
pub struct Command {
    /// Everything that can be known without running it.
    pub spec: CommandSpec,
    /// What runs.
    pub run: Handler,
}

/// A handler. The variant is the permission.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// Reads keys, or needs none.
    Read(fn(&mut ReadCall<'_>) -> Outcome),
    /// Reads and writes keys; the declared ones are locked.
    Write(fn(&mut WriteCall<'_>) -> Outcome),
    /// Reads and changes the connection, the node, or whole databases.
    Admin(fn(&mut AdminCall<'_>) -> Outcome),
    /// Only its subcommands run.
    Container,
}
