//! XRANGE and XREVRANGE.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::{StreamId, StreamObject};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall};
use almandine_keyspace::Refusal;
use almandine_resp::Reply;

use super::access::{STREAM, look, look_at_all};
use super::id;
use super::reply::write_entry;
use super::streams;
use crate::traits::SLOW_READ;

/// Entries up to which a range is read in place.
const IN_PLACE_MAX: u64 = 1000;

pub(super) const XRANGE: Command = Command {
    spec: CommandSpec {
        name: "XRANGE",
        id: 882,
        complexity: "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for the \
                     first 10 elements with COUNT), you can consider it O(1).",
        summary: "Returns the messages from a stream within a range of IDs.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::value("start"),
            Arg::value("end"),
            Arg::integer("count").token("COUNT").optional(),
        ],
        traits: SLOW_READ,
        history: &[("6.2.0", "Added exclusive ranges.")],
        ..STREAM
    },
    run: Handler::Read(|call| range(call, false)),
};

pub(super) const XREVRANGE: Command = Command {
    spec: CommandSpec {
        name: "XREVRANGE",
        id: 883,
        complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the first 10 \
                     elements with COUNT), you can consider it O(1).",
        summary: "Returns the messages from a stream within a range of IDs in reverse order.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::value("end"),
            Arg::value("start"),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..XRANGE.spec
    },
    run: Handler::Read(|call| range(call, true)),
};

fn range(call: &mut ReadCall<'_>, backwards: bool) -> Outcome {
    let (first, second) = (call.args.at(2), call.args.at(3));
    let (start, end) = if backwards { (second, first) } else { (first, second) };
    let (start, end) = (id::start(start)?, id::end(end)?);
    let (mut count, mut options) = (None, Options::after(call.args, 4));
    while let Some(word) = options.next() {
        if !word.is("COUNT") || options.remaining() == 0 {
            return Err(CommandError::Syntax.into());
        }
        count = Some(id::count(options.value()?)?);
    }
    let found = match count {
        Some(count @ 0..=IN_PLACE_MAX) => look(call, |stream, reply| answer(stream, (start, end), count, backwards, reply))?,
        count if streams::stream_range(call, (start, end), count, backwards)? => Some(()),
        count => {
            let count = count.unwrap_or(u64::MAX);
            look_at_all(call, 1, |stream, reply| answer(stream, (start, end), count, backwards, reply))?
        }
    };
    if found.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

fn answer(
    stream: &StreamObject,
    (start, end): (StreamId, StreamId),
    count: u64,
    backwards: bool,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    if count == 0 {
        reply.null_array();
        return Ok(());
    }
    let (array, mut len) = (reply.begin(), 0);
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    if start > end {
        // No entries; both ends would be looked up for nothing.
    } else if backwards {
        for entry in stream.entries().backwards(start, end)?.take(limit) {
            write_entry(reply, &entry?);
            len += 1;
        }
    } else {
        for entry in stream.entries().range(start, end)?.take(limit) {
            write_entry(reply, &entry?);
            len += 1;
        }
    }
    array.end_array(reply, len);
    Ok(())
}
