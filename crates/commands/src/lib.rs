//! Commands on data: specification beside handler, one file per family.
//!
//! **Is**: the commands on keys, as ordinary functions on [`ReadCall`](almandine_handler::ReadCall) or
//! [`WriteCall`](almandine_handler::WriteCall).
//! **Is not**: aware of the server and its clients (`admin`), nor of sockets, batches, locks or time: the session has parsed,
//! checked, prefetched and locked before a handler runs.
//! **Invariants**: a handler never waits and never does I/O; it replies exactly once, or returns an error, and then has replied
//! nothing and written nothing; its permission is its type.
//! **Start reading at**: [`string`] (`GET`, then `SET`), then [`almandine_handler::call`].
//!
//! # Adding a command
//!
//! Four places: the family's file, the server's `ids.txt`, the command's golden session, and, if Redis has the command, the
//! oracle's table (`crates/testkit/src/oracle/table.rs`). A command that writes also has its rows in `docs/effects.md`. A
//! command that was refused until now loses its line in `crates/server/src/unserved.rs`.
//!
//! 1. In the family's file, write the constant and, below it, the handler:
//!
//!    ```ignore
//!    const STRLEN: Command = Command {
//!        spec: CommandSpec {
//!            name: "STRLEN",
//!            id: 10,                                        // a free number of ids.txt
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
//!        let value = call.keys.read(key)?;
//!        let value = string(value.as_ref())?;
//!        call.context.statistics().looked_up(value.is_some());
//!        call.reply.unsigned(value.map_or(0, |value| value.len()) as u64);
//!        Ok(())
//!    }
//!    ```
//!
//! 2. Add it to the family's `COMMANDS` at the top of the file, and `10 STRLEN` to `ids.txt`. A new family adds its module and
//!    one line to [`COMMANDS`] here.
//! 3. Add a golden session, a line of the oracle's table, and, if the command writes, its effects.
//!
//! Conventions that keep the families alike:
//! - `Handler::Read` reads keys or nothing at all (PING); `Handler::Write` is everything with the `write` trait;
//!   `Handler::Admin` changes the connection or the instance, or needs a whole database (FLUSHDB). After an Admin command the rest
//!   of the pipeline is planned anew.
//! - A subcommand is a command of its own, named `CLIENT|KILL`; its arguments start behind both words. Its container lists the
//!   specs in `subcommands` and has `Handler::Container`.
//! - Check everything before the first write. Parse arguments first, in the order in which Redis reports their errors, then look
//!   at keys.
//! - Options are read with [`Options`](almandine_handler::Options), numbers with [`number`](almandine_handler::number), expiries
//!   with [`expiry`].
//! - Read commands call `looked_up` once per key.
//! - `call.keys` and `call.reply` are fields so that a value borrowed from one can be written into the other.
//! - The session latches the declared keys of a write command before it runs it, so reading and then writing is atomic. A
//!   command that needs no such latch sets `self_locking`: because its one verb on its one key (`upsert`, `modify`) is atomic by
//!   itself, which is faster (SET, INCR), or because it locks through its `Writer`: it finds its keys at run time (SORT), or has
//!   something to do before (MSET).
//! - What values and not arguments bound (the algebra of sets, BITOP) is a [`Computation`](almandine_handler::computation) when it
//!   is large.
//! - A read command with several keys sees all of them as of one moment: the session latches them shared.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod bitmap;
pub mod etag;
pub mod expiry;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod list;
mod look;
pub mod payload;
mod random;
mod result;
mod scan;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
mod traits;
mod value;

use almandine_handler::Command;

/// The families.
pub const COMMANDS: &[&[&Command]] = &[
    string::COMMANDS,
    bitmap::COMMANDS,
    etag::COMMANDS,
    generic::COMMANDS,
    geo::COMMANDS,
    hash::COMMANDS,
    hyperloglog::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
];
