//! ZSCAN: through the members, some at a time.

use almandine_call::{Command, CommandError, Handler, Options, Outcome, ReadCall};
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_resp::number;

use super::access::{SORTED_SET, append_bulk, look_at_all};
use crate::scan::{self, takes};
use crate::traits::SLOW_READ;

pub(super) const ZSCAN: Command = Command {
    spec: CommandSpec {
        name: "ZSCAN",
        id: 769,
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        summary: "Iterates over members and scores of a sorted set.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::pure_token("noscores", "NOSCORES").optional().since("8.0.0"),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        history: &[("8.0.0", "Added the `NOSCORES` option, which is Valkey's.")],
        ..SORTED_SET
    },
    run: Handler::Read(zscan),
};

/// What ZSCAN's options say.
struct Scan<'c> {
    pattern: &'c [u8],
    count: usize,
    scores: bool,
}

fn scan_options<'c>(mut options: Options<'c>) -> Result<Scan<'c>, CommandError> {
    let mut scan = Scan { pattern: b"*", count: scan::COUNT, scores: true };
    while let Some(option) = options.next() {
        match option {
            o if o.is("MATCH") => scan.pattern = options.value()?,
            o if o.is("COUNT") => scan.count = scan::count(&mut options)?,
            o if o.is("NOSCORES") => scan.scores = false,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(scan)
}

pub(crate) fn zscan(call: &mut ReadCall<'_>) -> Outcome {
    let cursor = scan::cursor(call.args.at(2))?;
    // Of a key that does not exist Redis does not read the options.
    let options = scan_options(Options::after(call.args, 3));
    let found = look_at_all(call, |set, reply| {
        let Ok(Scan { pattern, count, scores }) = &options else { return Ok(()) };
        // The next cursor comes before the members and is known only after them.
        let (mut elements, mut len, mut score) = (Vec::new(), 0, Vec::new());
        let next = set.scan(cursor, *count, &mut |entry| {
            if takes(pattern, entry.member) {
                append_bulk(&mut elements, entry.member);
                if *scores {
                    score.clear();
                    number::write_double(&mut score, entry.score);
                    append_bulk(&mut elements, &score);
                }
                len += 1;
            }
        })?;
        reply.array(2);
        reply.bulk(next.to_string().as_bytes());
        reply.array(if *scores { 2 * len } else { len });
        reply.raw(&elements);
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
