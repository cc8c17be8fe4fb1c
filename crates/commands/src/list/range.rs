//! Ranges of places: answered, or all that is kept.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, Handler, Outcome, ReadCall, Stop, WriteCall, number};
use almandine_keyspace::types::list::Lists;

use super::access::{LIST, change, range};
use super::stream;
use crate::look::{look, look_at_all};
use crate::traits::{CHANGE, SLOW_READ};

/// Elements up to which a range is answered under the latch.
const IN_PLACE_MAX: i64 = 1024;

pub(super) const LRANGE: Command = Command {
    spec: CommandSpec {
        name: "LRANGE",
        id: 829,
        complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) \
                     for large lists; and N is the number of elements in the specified range.",
        summary: "Returns a range of elements from a list.",
        args: &[Arg::key("key", Access::Read), Arg::integer("start"), Arg::integer("stop")],
        traits: SLOW_READ,
        ..LIST
    },
    run: Handler::Read(lrange),
};

/// Answers the range: a large part of a large list while the reply is sent.
fn lrange(call: &mut ReadCall<'_>) -> Outcome {
    let (start, stop) = (number::integer(call.args.at(2))?, number::integer(call.args.at(3))?);
    let may_stream = call.reply.out.may_stream();
    if !answer(call, (start, stop), may_stream)? && !stream::begin(call, (start, stop))? {
        // It has become small meanwhile.
        answer(call, (start, stop), false)?;
    }
    Ok(())
}

/// Answers the range. False if it is to be done by a stream; then nothing was written.
fn answer(call: &mut ReadCall<'_>, (start, stop): (i64, i64), may_stream: bool) -> Result<bool, Stop> {
    let is_short = (start < 0) == (stop < 0) && stop.saturating_sub(start) < IN_PLACE_MAX;
    let visit = |list: &almandine_keyspace::types::list::List<'_>, reply: &mut almandine_resp::Reply<'_>| {
        let range = range(start, stop, list.len());
        if may_stream && list.is_large(range.len()) {
            return Ok(false);
        }
        reply.array(range.len());
        list.visit(range.start, range.len(), |element| reply.bulk(element))?;
        Ok(true)
    };
    let found = if is_short { look::<Lists, _>(call, visit)? } else { look_at_all::<Lists, _>(call, 1, visit)? };
    if found.is_none() {
        call.reply.array(0);
    }
    Ok(found != Some(false))
}

pub(super) const LTRIM: Command = Command {
    spec: CommandSpec {
        name: "LTRIM",
        id: 830,
        complexity: "O(N) where N is the number of elements to be removed by the operation.",
        summary: "Removes elements from both ends a list. Deletes the list if all elements were trimmed.",
        args: &[Arg::key("key", Access::Delete), Arg::integer("start"), Arg::integer("stop")],
        traits: Traits { fast: false, ..CHANGE },
        ..LIST
    },
    run: Handler::Write(ltrim),
};

fn ltrim(call: &mut WriteCall<'_>) -> Outcome {
    let (start, stop) = (number::integer(call.args.at(2))?, number::integer(call.args.at(3))?);
    let mut list = change(call)?;
    let keep = range(start, stop, list.len());
    let trimmed = list.trim(keep)?;
    list.settle()?;
    let (existed, emptied) = (list.existed(), list.is_empty());
    list.commit()?;
    call.keys.discard(trimmed);
    if existed {
        let key = call.key(1);
        call.taken(Classes::LIST, "ltrim", key, emptied);
    }
    call.reply.ok();
    Ok(())
}
