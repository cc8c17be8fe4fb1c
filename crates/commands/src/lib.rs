//! Every command: specification beside handler, one file per family.
//!
//! **Is**: the commands, as ordinary functions on [`ReadCall`], [`WriteCall`] or [`AdminCall`], and the table that finds them.
//! **Is not**: aware of sockets, batches, locks or time: the session has parsed, checked, prefetched and locked before a handler runs.
//! **Invariants**: a handler never waits and never does I/O; it replies exactly once, or returns an error, and then has replied nothing
//! and written nothing; its permission is its type; every error text is in [`errors`]; every id is pinned in `ids.txt`.
//! **Start reading at**: [`string`] (`GET`, then `SET`), then [`call`], then [`table`].
//!
//! # Adding a command
//!
//! Three places: the family's file, `ids.txt`, and the command's golden session.
//!
//! 1. In the family's file, write the constant and, below it, the handler:
//!
//!    ```ignore
//!    const STRLEN: Command = Command {
//!        spec: CommandSpec {
//!            name: "STRLEN",
//!            id: 10,                                        // the next free number of ids.txt
//!            since: "2.2.0",
//!            summary: "Returns the length of a string value.",
//!            group: Group::String,
//!            args: &[Arg::key("key", Access::Inspect)],      // arity and key positions follow from these
//!            traits: Traits { readonly: true, fast: true, ..Traits::NONE },
//!            ..CommandSpec::BLANK
//!        },
//!        run: Handler::Read(strlen),
//!    };
//!
//!    fn strlen(call: &mut ReadCall<'_>) -> Outcome {
//!        let key = call.key(1);
//!        let value = call.keys.read(key);
//!        let value = string(value.as_ref())?;
//!        call.context.statistics().looked_up(value.is_some());
//!        call.reply.unsigned(value.map_or(0, |value| value.len()) as u64);
//!        Ok(())
//!    }
//!    ```
//!
//! 2. Add it to the family's `COMMANDS` at the top of the file, and `10 STRLEN` to `ids.txt`. A new family adds its module and one line
//!    to [`COMMANDS`] here.
//! 3. Add a golden session.
//!
//! Conventions that keep the families alike:
//! - `Handler::Read` reads keys or nothing at all (PING); `Handler::Write` is everything with the `write` trait; `Handler::Admin` changes the
//!   connection or the node, or needs a whole database (FLUSHDB). After an Admin command the rest of the pipeline is planned anew.
//! - A subcommand is a command of its own, named `CLIENT|KILL`; its arguments start behind both words. Its container lists the specs in
//!   `subcommands` and has `Handler::Container`.
//! - Check everything before the first write. Parse arguments first, in the order in which Redis reports their errors, then look at keys.
//! - Options are read with [`options::Options`], numbers with [`number`]; expiries with [`expiry`].
//! - Read commands call `looked_up` once per key.
//! - `call.keys` and `call.reply` are fields so that a value borrowed from one can be written into the other.
//! - The session latches the declared keys of a write command before it runs it, so reading and then writing is atomic. A command that
//!   needs no such latch sets `self_locking`: because its one verb on its one key (`upsert`, `modify`) is atomic by itself, which is faster
//!   (SET, INCR), or because it finds its keys at run time and locks through its `Writer`.
//! - A read command with several keys sees all of them as of one moment: the session latches them shared.

pub mod call;
pub mod client;
pub mod errors;
pub mod expiry;
pub mod help;
pub mod number;
pub mod options;
pub mod table;
pub mod tracking;

pub mod bitmap;
mod connection;
pub mod etag;
pub mod generic;
mod server;
pub mod string;

use almandine_command_spec::CommandSpec;

pub use call::{AdminCall, Context, PlannedKey, ReadCall, WriteCall};
pub use client::{Client, ReplyMode};
pub use errors::{CommandError, Outcome};
pub use table::{Entry, Flags, Plan, Table};

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

/// All commands, family by family. Everything else is derived from this.
pub const COMMANDS: &[&[&Command]] =
    &[string::COMMANDS, bitmap::COMMANDS, etag::COMMANDS, generic::COMMANDS, connection::COMMANDS, server::COMMANDS];
