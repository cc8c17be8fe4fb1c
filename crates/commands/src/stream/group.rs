//! XGROUP: groups and their consumers.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall, errors, help, number};
use almandine_keyspace::Concerns;
use almandine_keyspace::types::stream::{StreamMut, Streams};

use super::access::STREAM;
use super::id;
use crate::traits::SLOW_WRITE;

pub(super) const XGROUP: Command = Command {
    spec: CommandSpec {
        name: "XGROUP",
        id: 893,
        complexity: "Depends on subcommand.",
        summary: "A container for consumer groups commands.",
        subcommands: &[&CREATE.spec, &CREATECONSUMER.spec, &DELCONSUMER.spec, &DESTROY.spec, &HELP.spec, &SETID.spec],
        ..STREAM
    },
    run: Handler::Container,
};

const ID_ARG: Arg = Arg::one_of("id-selector", &[Arg::value("id"), Arg::pure_token("new-id", "$")]);
const READ_ARG: Arg = Arg::integer("entries-read").token("ENTRIESREAD").optional().display("entries-read");
const CHANGE: Traits = Traits { write: true, ..Traits::NONE };

pub(super) const CREATE: Command = Command {
    spec: CommandSpec {
        name: "XGROUP|CREATE",
        id: 894,
        summary: "Creates a consumer group.",
        args: &[
            Arg::key("key", Access::Insert),
            Arg::value("group"),
            ID_ARG,
            Arg::pure_token("mkstream", "MKSTREAM").optional(),
            READ_ARG,
        ],
        traits: SLOW_WRITE,
        history: &[("7.0.0", "Added the `entries_read` named argument.")],
        ..STREAM
    },
    run: Handler::Write(create),
};

/// Words of CREATE with each of its options once: more are refused, but only when the key is what it must be.
const CREATE_WORDS_MAX: usize = 8;
/// The same of SETID.
const SETID_WORDS_MAX: usize = 7;

/// The options of CREATE and SETID.
struct Start {
    make: bool,
    read: Option<u64>,
}

fn options(call: &WriteCall<'_>, may_make: bool) -> Result<Start, CommandError> {
    let (mut start, mut options) = (Start { make: false, read: None }, Options::after(call.args, 5));
    while let Some(word) = options.next() {
        if may_make && word.is("MKSTREAM") {
            start.make = true;
        } else if word.is("ENTRIESREAD") && options.remaining() > 0 {
            let read = number::integer(options.value()?)?;
            start.read = match u64::try_from(read) {
                Ok(read) => Some(read),
                Err(_) if read == -1 => None,
                Err(_) => return Err(errors::stream::ENTRIES_READ),
            };
        } else {
            return Err(errors::subcommand_syntax("XGROUP", call.args.at(1)));
        }
    }
    Ok(start)
}

/// The second argument as a stream to be changed, which must be there.
fn open<'s>(call: &'s mut WriteCall<'_>) -> Result<StreamMut<'s>, Stop> {
    let key = call.key(2);
    let stream = call.keys.write_as::<Streams>(key, ())?;
    if stream.existed() { Ok(stream) } else { Err(errors::stream::GROUP_NEEDS_KEY.into()) }
}

/// As [`open`], with the number of the group that the third argument names.
fn open_group<'s>(call: &'s mut WriteCall<'_>) -> Result<(StreamMut<'s>, usize), Stop> {
    let (key, group) = (call.args.at(2), call.args.at(3));
    let stream = open(call)?;
    let Some(index) = stream.look()?.groups().find(group) else { return Err(errors::stream::no_group(group, key).into()) };
    Ok((stream, index))
}

/// States an event of the stream that the second argument names.
fn tell(call: &mut WriteCall<'_>, event: &'static str) {
    let key = call.key(2);
    call.event(Classes::STREAM, event, key);
}

fn create(call: &mut WriteCall<'_>) -> Outcome {
    let (start, args) = (options(call, true)?, call.args);
    let (group, at) = (call.args.at(3), call.args.at(4));
    let mut stream = if start.make {
        let key = call.key(2);
        call.keys.write_as::<Streams>(key, ())?
    } else {
        open(call)?
    };
    if args.len() > CREATE_WORDS_MAX {
        return Err(errors::subcommand_syntax("XGROUP", args.at(1)).into());
    }
    let last_id = if at == b"$" { stream.look()?.last_id() } else { id::strict(at, 0)? };
    if !stream.groups().create(group, last_id, start.read)? {
        return Err(errors::stream::GROUP_EXISTS.into());
    }
    stream.commit()?;
    tell(call, "xgroup-create");
    call.reply.ok();
    Ok(())
}

pub(super) const SETID: Command = Command {
    spec: CommandSpec {
        name: "XGROUP|SETID",
        id: 895,
        summary: "Sets the last-delivered ID of a consumer group.",
        args: &[Arg::key("key", Access::Update), Arg::value("group"), ID_ARG, READ_ARG],
        traits: CHANGE,
        history: &[("7.0.0", "Added the optional `entries_read` argument.")],
        ..STREAM
    },
    run: Handler::Write(setid),
};

fn setid(call: &mut WriteCall<'_>) -> Outcome {
    let (start, at) = (options(call, false)?, call.args.at(4));
    let args = call.args;
    let (mut stream, group) = open_group(call)?;
    if args.len() > SETID_WORDS_MAX {
        return Err(errors::subcommand_syntax("XGROUP", args.at(1)).into());
    }
    let last_id = if at == b"$" { stream.look()?.last_id() } else { id::parse(at, 0)? };
    stream.groups().set(group, last_id, start.read)?;
    stream.count(1);
    stream.commit()?;
    tell(call, "xgroup-setid");
    call.reply.ok();
    Ok(())
}

pub(super) const DESTROY: Command = Command {
    spec: CommandSpec {
        name: "XGROUP|DESTROY",
        id: 896,
        complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
        summary: "Destroys a consumer group.",
        args: &[Arg::key("key", Access::Delete), Arg::value("group")],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(destroy),
};

fn destroy(call: &mut WriteCall<'_>) -> Outcome {
    let group = call.args.at(3);
    let mut stream = open(call)?;
    let was_there = stream.groups().remove(group)?;
    stream.commit()?;
    if was_there {
        tell(call, "xgroup-destroy");
    }
    call.reply.integer(i64::from(was_there));
    Ok(())
}

pub(super) const CREATECONSUMER: Command = Command {
    spec: CommandSpec {
        name: "XGROUP|CREATECONSUMER",
        id: 897,
        since: "6.2.0",
        summary: "Creates a consumer in a consumer group.",
        args: &[Arg::key("key", Access::Insert), Arg::value("group"), Arg::value("consumer")],
        traits: SLOW_WRITE,
        ..STREAM
    },
    run: Handler::Write(createconsumer),
};

fn createconsumer(call: &mut WriteCall<'_>) -> Outcome {
    let consumer = call.args.at(4);
    let (mut stream, group) = open_group(call)?;
    let is_known = stream.look()?.groups().nth(group).and_then(|group| group.find_consumer(consumer)).is_some();
    if !is_known {
        stream.groups().consumer(group, consumer)?;
    }
    stream.commit_for(Concerns::Watchers)?;
    if !is_known {
        tell(call, "xgroup-createconsumer");
    }
    call.reply.integer(i64::from(!is_known));
    Ok(())
}

pub(super) const DELCONSUMER: Command = Command {
    spec: CommandSpec {
        name: "XGROUP|DELCONSUMER",
        id: 898,
        summary: "Deletes a consumer from a consumer group.",
        args: &[Arg::key("key", Access::Delete), Arg::value("group"), Arg::value("consumer")],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(delconsumer),
};

fn delconsumer(call: &mut WriteCall<'_>) -> Outcome {
    let consumer = call.args.at(4);
    let (mut stream, group) = open_group(call)?;
    let pending = stream.groups().remove_consumer(group, consumer)?;
    stream.commit()?;
    if pending.is_some() {
        tell(call, "xgroup-delconsumer");
    }
    call.reply.unsigned(pending.unwrap_or(0));
    Ok(())
}

pub(super) const HELP: Command = help::command("XGROUP|HELP", 899, STREAM);
