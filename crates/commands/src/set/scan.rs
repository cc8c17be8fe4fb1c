//! SSCAN: through the members, some at a time.

use almandine_call::{Command, CommandError, Handler, Options, Outcome, ReadCall};
use almandine_command_spec::{Access, Arg, CommandSpec};

use super::access::{SET, look_at_all};
use super::stream::write_member;
use crate::scan::{self, takes};
use crate::traits::SLOW_READ;

pub(super) const SSCAN: Command = Command {
    spec: CommandSpec {
        name: "SSCAN",
        id: 706,
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        summary: "Iterates over members of a set.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..SET
    },
    run: Handler::Read(sscan),
};

fn scan_options<'c>(mut options: Options<'c>) -> Result<(&'c [u8], usize), CommandError> {
    let (mut pattern, mut count) = (&b"*"[..], scan::COUNT);
    while let Some(option) = options.next() {
        match option {
            o if o.is("MATCH") => pattern = options.value()?,
            o if o.is("COUNT") => count = scan::count(&mut options)?,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok((pattern, count))
}

pub(crate) fn sscan(call: &mut ReadCall<'_>) -> Outcome {
    let cursor = scan::cursor(call.args.at(2))?;
    // Of a key that does not exist Redis does not read the options.
    let options = scan_options(Options::after(call.args, 3));
    let found = look_at_all(call, |set, reply| {
        let Ok((pattern, count)) = options else { return Ok(()) };
        // The next cursor comes before the members and is known only after them.
        let (mut members, mut len) = (Vec::new(), 0);
        let next = set.scan(cursor, count, &mut |member| {
            if takes(pattern, member) {
                write_member(member, &mut members);
                len += 1;
            }
        })?;
        reply.array(2);
        reply.bulk(next.to_string().as_bytes());
        reply.array(len);
        reply.raw(&members);
        Ok(())
    })?;
    if found.is_some() {
        options?;
        return Ok(());
    }
    call.reply.array(2);
    call.reply.bulk(b"0");
    call.reply.array(0);
    Ok(())
}
