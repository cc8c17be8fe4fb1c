//! XNACK: what a consumer gives back to its group.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::{Pending, StreamId, UNOWNED};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Word, WriteCall, errors, number};

use super::access::{STREAM, change};
use super::delete::IDS_ARG;
use super::id;
use crate::traits::CHANGE;

/// How often something was delivered that no consumer should try again.
const FAILED: u64 = i64::MAX.unsigned_abs();

pub(super) const XNACK: Command = Command {
    spec: CommandSpec {
        name: "XNACK",
        id: 892,
        since: "8.8.0",
        complexity: "O(1) for each message ID processed.",
        summary: "Releases pending messages back to the group's PEL without acknowledging them, making them available for \
                  re-delivery.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::value("group"),
            Arg::one_of(
                "mode",
                &[Arg::pure_token("silent", "SILENT"), Arg::pure_token("fail", "FAIL"), Arg::pure_token("fatal", "FATAL")],
            ),
            IDS_ARG,
            Arg::integer("count").token("RETRYCOUNT").optional(),
            Arg::pure_token("force", "FORCE").optional(),
        ],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(xnack),
};

/// What a consumer says of its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It was none of the entry: the delivery does not count.
    Silent,
    /// It may be the entry's.
    Fail,
    /// It is the entry's: no consumer should try again.
    Fatal,
}

/// The words behind the mode.
struct Release {
    ids: Vec<StreamId>,
    count: Option<u64>,
    force: bool,
}

fn parse(call: &WriteCall<'_>) -> Result<Release, CommandError> {
    let (args, mut options) = (call.args, Options::after(call.args, 4));
    if !options.next().is_some_and(|word| word.is("IDS")) {
        return Err(errors::stream::IDS_EXPECTED);
    }
    let count = options.integer().ok().filter(|count| *count > 0).ok_or(errors::stream::RELEASED_NOT_POSITIVE)?;
    let from = options.position();
    if count.unsigned_abs() > (args.len() - from) as u64 {
        return Err(errors::stream::RELEASED_MISMATCH);
    }
    let ids = id::all(args.slice_from(from).iter().take(count.unsigned_abs() as usize))?;
    let (mut count, mut force, mut options) = (None, false, Options::after(args, from + ids.len()));
    while let Some(word) = options.next() {
        if word.is("RETRYCOUNT") && options.remaining() > 0 {
            let given = number::integer(options.value()?)?;
            count = Some(u64::try_from(given).map_err(|_| errors::stream::RETRY_COUNT_NEGATIVE)?);
        } else if word.is("FORCE") {
            force = true;
        } else {
            return Err(errors::stream::unknown_option("XNACK", word.0));
        }
    }
    Ok(Release { ids, count, force })
}

fn xnack(call: &mut WriteCall<'_>) -> Outcome {
    let (key, name, mode) = (call.args.at(1), call.args.at(2), Word(call.args.at(3)));
    let parsed = parse(call);
    let mut stream = change(call)?;
    let group = if stream.existed() { stream.look()?.groups().find(name) } else { None };
    let Some(group) = group else { return Err(errors::stream::no_key_or_group(key, name).into()) };
    let mode = match mode {
        word if word.is("SILENT") => Mode::Silent,
        word if word.is("FAIL") => Mode::Fail,
        word if word.is("FATAL") => Mode::Fatal,
        _ => return Err(errors::stream::RELEASE_MODE.into()),
    };
    let Release { ids, count, force } = parsed?;
    let mut released = 0;
    for id in ids {
        let before = stream.groups().pending(group, id)?;
        let deliveries = match (before, mode) {
            (None, _) if !force || !stream.has(id)? => continue,
            (_, Mode::Fatal) => FAILED,
            (None, _) => 0,
            (Some(before), Mode::Silent) => before.count.saturating_sub(1),
            (Some(before), Mode::Fail) => before.count,
        };
        stream.groups().pend(group, Pending { id, time: 0, count: count.unwrap_or(deliveries), owner: UNOWNED })?;
        released += 1;
    }
    stream.count(released);
    stream.commit()?;
    call.reply.unsigned(released);
    Ok(())
}
