//! A command: its specification beside its handler.

use almandine_command_spec::CommandSpec;

use crate::call::{AdminCall, ReadCall, WriteCall};
use crate::script::Prepare;
use crate::stop::Outcome;

/// A command: what it is, and what it does.
#[derive(Debug)]
pub struct Command {
    /// Everything that can be known without running it.
    pub spec: CommandSpec,
    /// What runs.
    pub run: Handler,
}

impl Command {
    /// Whether clients can call it.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        !matches!(self.run, Handler::Unserved)
    }
}

/// A handler. The variant is the permission.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// Reads keys, or needs none.
    Read(fn(&mut ReadCall<'_>) -> Outcome),
    /// Reads and writes keys; the declared ones are locked.
    Write(fn(&mut WriteCall<'_>) -> Outcome),
    /// Reads and changes the connection, the instance, or whole databases.
    Admin(fn(&mut AdminCall<'_>) -> Outcome),
    /// Runs a script, which this finds.
    Script(Prepare),
    /// Only its subcommands run.
    Container,
    /// Not built yet: rules may name it, clients cannot call it.
    Unserved,
}
