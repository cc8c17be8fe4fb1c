//! ACL LOG: what users were denied lately.

use almandine_acl::Entry;
use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{AdminCall, Command, Handler, Outcome, Word, errors, number};
use almandine_io::clock;

use super::subcommand::SUBCOMMAND;

/// Entries that are shown when it is not said how many.
const SHOWN: i64 = 10;

pub(super) const LOG: Command = Command {
    spec: CommandSpec {
        name: "ACL|LOG",
        id: 472,
        complexity: "O(N) with N being the number of entries shown.",
        summary: "Lists recent security events generated due to ACL rules.",
        args: &[Arg::one_of("operation", &[Arg::integer("count"), Arg::pure_token("reset", "RESET")]).optional()],
        history: &[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(log),
};

fn log(call: &mut AdminCall<'_>) -> Outcome {
    let log = &call.context.instance.acl.log;
    let count = match call.args.get(2) {
        None => SHOWN,
        Some(_) if call.args.len() > 3 => return Err(errors::subcommand_syntax("ACL", call.args.at(1)).into()),
        Some(word) if Word(word).is("RESET") => {
            log.reset();
            call.reply.ok();
            return Ok(());
        }
        Some(count) => number::integer(count)?.max(0),
    };
    let entries = log.newest(usize::try_from(count).unwrap_or(usize::MAX));
    let now_ms = clock::unix_ms();
    call.reply.array(entries.len());
    entries.iter().for_each(|entry| show(call, entry, now_ms));
    Ok(())
}

fn show(call: &mut AdminCall<'_>, entry: &Entry, now_ms: i64) {
    let reply = &mut call.reply;
    reply.map(10);
    reply.bulk(b"count");
    reply.unsigned(entry.count);
    for (field, value) in [
        (&b"reason"[..], entry.reason.word().as_bytes()),
        (b"context", entry.context.word().as_bytes()),
        (b"object", &entry.object),
        (b"username", &entry.username),
    ] {
        reply.bulk(field);
        reply.bulk(value);
    }
    reply.bulk(b"age-seconds");
    reply.double((now_ms - entry.updated_ms) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(entry.client_info.as_bytes());
    reply.bulk(b"entry-id");
    reply.unsigned(entry.id);
    for (field, time_ms) in [(&b"timestamp-created"[..], entry.created_ms), (b"timestamp-last-updated", entry.updated_ms)] {
        reply.bulk(field);
        reply.integer(time_ms);
    }
}
