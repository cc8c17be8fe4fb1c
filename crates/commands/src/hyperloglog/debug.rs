//! PFDEBUG and PFSELFTEST, for tests of HyperLogLogs.

use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::hyperloglog::{self, Hll, Registers, Way, self_test, sparse};
use almandine_handler::{Command, CommandError, Context, Handler, Outcome, ReadCall, Stop, Word, WriteCall, errors};
use almandine_keyspace::{Kind, Occupied, Put, Slot};
use std::sync::atomic::Ordering::Relaxed;

use super::{make_raw, open};
use crate::traits::SLOW_WRITE;

/// How registers are gone through. It changes no result, so that neither is changing it ordered with anything.
pub(super) fn way(context: &Context) -> Way {
    if context.instance.run.registers_one_by_one.load(Relaxed) { Way::Single } else { Way::Words }
}

pub(super) const PFDEBUG: Command = Command {
    spec: CommandSpec {
        name: "PFDEBUG",
        id: 563,
        since: "2.8.9",
        complexity: "N/A",
        summary: "Internal commands for debugging HyperLogLog values.",
        group: Group::HyperLogLog,
        args: &[Arg::value("subcommand"), Arg::key("key", Access::ReadRepair)],
        traits: Traits { admin: true, system: true, ..SLOW_WRITE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(pfdebug),
};

fn pfdebug(call: &mut WriteCall<'_>) -> Outcome {
    let subcommand = Word(call.args.at(1));
    if subcommand.is("SIMD") {
        return simd(call);
    }
    let key = call.key(2);
    let Slot::Occupied(mut occupied) = call.keys.modify(key)? else { return Err(errors::hyperloglog::NO_KEY.into()) };
    let hll = open(&occupied)?;
    match subcommand {
        _ if subcommand.is("GETREG") => {
            let mut registers = Registers::default();
            registers.merge(hll, way(call.context))?;
            to_dense(&mut occupied)?;
            call.reply.array(registers.iter().len());
            registers.iter().for_each(|register| call.reply.integer(register.into()));
        }
        _ if subcommand.is("DECODE") => {
            let Hll::Sparse(opcodes) = hll else { return Err(errors::hyperloglog::NOT_SPARSE.into()) };
            let text = decode(opcodes);
            make_raw(&mut occupied)?;
            call.reply.bulk(text.as_bytes());
        }
        _ if subcommand.is("ENCODING") => {
            call.reply.simple(if matches!(hll, Hll::Dense(_)) { "dense" } else { "sparse" });
            make_raw(&mut occupied)?;
        }
        _ if subcommand.is("TODENSE") => call.reply.integer(to_dense(&mut occupied)?.into()),
        Word(name) => return Err(errors::hyperloglog::unknown_pfdebug(name).into()),
    }
    Ok(())
}

/// Makes a value dense; whether it was sparse.
fn to_dense(occupied: &mut Occupied<'_>) -> Result<bool, Stop> {
    let Hll::Sparse(_) = open(occupied)? else { return Ok(false) };
    let value = hyperloglog::to_dense(occupied.value())?;
    occupied.replace(Kind::String, &value, Put { edited: true, ..occupied.put() })?;
    Ok(true)
}

fn decode(opcodes: &[u8]) -> String {
    let words = sparse::opcodes(opcodes).map(|(run, is_long)| match (run.value, is_long) {
        (0, true) => format!("Z:{}", run.len),
        (0, false) => format!("z:{}", run.len),
        (value, _) => format!("v:{value},{}", run.len),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn simd(call: &mut WriteCall<'_>) -> Outcome {
    let word = Word(call.args.at(2));
    let (off, answer) = match word {
        _ if word.is("ON") => (false, "enabled"),
        _ if word.is("OFF") => (true, "disabled"),
        _ => return Err(errors::hyperloglog::NOT_ON_OR_OFF.into()),
    };
    call.context.instance.run.registers_one_by_one.store(off, Relaxed);
    call.reply.simple(answer);
    Ok(())
}

pub(super) const PFSELFTEST: Command = Command {
    spec: CommandSpec {
        name: "PFSELFTEST",
        id: 564,
        since: "2.8.9",
        complexity: "N/A",
        summary: "An internal command for testing HyperLogLog values.",
        group: Group::HyperLogLog,
        traits: Traits { admin: true, system: true, ..Traits::NONE },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(pfselftest),
};

fn pfselftest(call: &mut ReadCall<'_>) -> Outcome {
    self_test::run().map_err(CommandError::new)?;
    call.reply.ok();
    Ok(())
}
