//! HSCAN: through the fields, some at a time.

use almandine_call::{Command, CommandError, Handler, Options, Outcome, ReadCall};
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_resp::reply::write_header;

use super::access::{HASH, look_at_all};
use crate::scan::{self, takes};
use crate::traits::SLOW_READ;

pub(super) const HSCAN: Command = Command {
    spec: CommandSpec {
        name: "HSCAN",
        id: 615,
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        summary: "Iterates over fields and values of a hash.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::pure_token("novalues", "NOVALUES").optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..HASH
    },
    run: Handler::Read(hscan),
};

/// What HSCAN's options say.
struct Scan<'c> {
    pattern: &'c [u8],
    count: usize,
    values: bool,
}

fn scan_options<'c>(mut options: Options<'c>) -> Result<Scan<'c>, CommandError> {
    let mut scan = Scan { pattern: b"*", count: scan::COUNT, values: true };
    while let Some(option) = options.next() {
        match option {
            o if o.is("MATCH") => scan.pattern = options.value()?,
            o if o.is("COUNT") => scan.count = scan::count(&mut options)?,
            o if o.is("NOVALUES") => scan.values = false,
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(scan)
}

pub(crate) fn hscan(call: &mut ReadCall<'_>) -> Outcome {
    let cursor = scan::cursor(call.args.at(2))?;
    // Of a key that does not exist Redis does not read the options.
    let options = scan_options(Options::after(call.args, 3));
    let found = look_at_all(call, |hash, reply| {
        let Ok(Scan { pattern, count, values }) = &options else { return Ok(()) };
        // The next cursor comes before the fields and is known only after them.
        let (mut elements, mut len) = (Vec::new(), 0);
        let next = hash.scan(cursor, *count, &mut |entry| {
            if takes(pattern, entry.field) {
                bulk(entry.field, &mut elements);
                if *values {
                    bulk(entry.value, &mut elements);
                }
                len += 1;
            }
        })?;
        reply.array(2);
        reply.bulk(next.to_string().as_bytes());
        reply.array(if *values { 2 * len } else { len });
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

fn bulk(value: &[u8], out: &mut Vec<u8>) {
    write_header(out, b'$', value.len());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
