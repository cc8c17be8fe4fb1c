//! CLIENT REPLY, NO-EVICT, NO-TOUCH, CAPA and IMPORT-SOURCE: how a connection is treated.

use std::sync::atomic::Ordering::Relaxed;

use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, ReplyMode, Word, errors};

use super::subcommand::{FOR_OPERATORS, ON_OFF, SUBCOMMAND, on_or_off};

pub(super) const REPLY: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|REPLY",
        id: 85,
        since: "3.2.0",
        summary: "Instructs the server whether to reply to commands.",
        args: &[Arg::one_of("action", &[ON_OFF[0], ON_OFF[1], Arg::pure_token("skip", "SKIP")])],
        ..SUBCOMMAND
    },
    run: Handler::Admin(reply),
};

fn reply(call: &mut AdminCall<'_>) -> Outcome {
    match Word(call.args.at(2)) {
        word if word.is("ON") => {
            call.client.reply_mode = ReplyMode::On;
            call.reply.ok();
        }
        word if word.is("OFF") => call.client.reply_mode = ReplyMode::Off,
        word if word.is("SKIP") => {
            if call.client.reply_mode != ReplyMode::Off {
                call.client.reply_mode = ReplyMode::SkipNext;
            }
        }
        _ => return Err(CommandError::Syntax.into()),
    }
    Ok(())
}

pub(super) const NO_EVICT: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|NO-EVICT",
        id: 82,
        since: "7.0.0",
        summary: "Sets the client eviction mode of the connection.",
        args: &[Arg::one_of("enabled", &ON_OFF)],
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let on = on_or_off(call.args.at(2))?;
        call.client.kept.protected = on;
        call.client.shared.modes.no_evict.store(on, Relaxed);
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const NO_TOUCH: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|NO-TOUCH",
        id: 83,
        since: "7.2.0",
        summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
        args: &[Arg::one_of("enabled", &ON_OFF)],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let on = on_or_off(call.args.at(2))?;
        call.client.no_touch = on;
        call.accessor.set_quiet(on);
        call.client.shared.modes.no_touch.store(on, Relaxed);
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const CAPA: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|CAPA",
        id: 73,
        since: "8.0.0",
        summary: "A client claims its capability.",
        args: &[Arg::value("capability").multiple()],
        ..SUBCOMMAND
    },
    // What is not known is ignored by definition.
    run: Handler::Admin(|call| {
        if call.args.slice_from(2).iter().any(|capability| Word(capability).is("redirect")) {
            call.client.shared.modes.redirects.store(true, Relaxed);
        }
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const IMPORT_SOURCE: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|IMPORT-SOURCE",
        id: 78,
        since: "8.1.0",
        summary: "Marks this client as an import source when the server is in import mode.",
        args: &[Arg::one_of("enabled", &ON_OFF)],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        on_or_off(call.args.at(2))?;
        Err(errors::client::NOT_IN_IMPORT_MODE.into())
    }),
};
