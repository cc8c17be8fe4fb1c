//! The stream family: entries with ascending ids, and groups of consumers that read them.
//!
//! XADD is in [`add`], trims in [`trim`], ranges in [`range`], deletion in [`delete`]. XREAD and XREADGROUP are in [`read`] and
//! [`readgroup`]; they never wait. Of groups, XGROUP is in [`group`], what is pending in [`pending`], [`ack`], [`claim`] and
//! [`nack`]. XINFO is in [`info`], producers in [`producers`].

mod access;
mod ack;
mod add;
mod claim;
mod delete;
mod full;
mod group;
mod id;
mod info;
mod nack;
mod pending;
mod producers;
mod range;
mod read;
mod readgroup;
mod reply;
mod streams;
mod trim;

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler};

use crate::traits::READ;
pub use access::limits;
use access::{STREAM, look};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &add::XADD,
    &XLEN,
    &range::XRANGE,
    &range::XREVRANGE,
    &delete::XDEL,
    &delete::XDELEX,
    &trim::XTRIM,
    &add::XSETID,
    &read::XREAD,
    &readgroup::XREADGROUP,
    &group::XGROUP,
    &group::CREATE,
    &group::SETID,
    &group::DESTROY,
    &group::CREATECONSUMER,
    &group::DELCONSUMER,
    &group::HELP,
    &ack::XACK,
    &ack::XACKDEL,
    &nack::XNACK,
    &pending::XPENDING,
    &claim::XCLAIM,
    &claim::XAUTOCLAIM,
    &info::XINFO,
    &info::XINFO_STREAM,
    &info::GROUPS,
    &info::CONSUMERS,
    &info::HELP,
    &producers::XCFGSET,
    &producers::XIDMPRECORD,
];

const XLEN: Command = Command {
    spec: CommandSpec {
        name: "XLEN",
        id: 881,
        summary: "Return the number of messages in a stream.",
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..STREAM
    },
    run: Handler::Read(|call| {
        let len = look(call, |stream, _| Ok(stream.len()))?;
        call.reply.unsigned(len.unwrap_or(0));
        Ok(())
    }),
};
