//! HELP of a container, derived from its subcommands' specs.

use almandine_command_spec::{Arg, ArgKind, CommandSpec, Traits};

use crate::call::AdminCall;
use crate::command::{Command, Handler};
use crate::stop::Outcome;

/// The HELP of a container, with what its subcommands have in common.
#[must_use]
pub const fn command(name: &'static str, id: u16, common: CommandSpec) -> Command {
    let traits = Traits { loading: true, stale: true, ..Traits::NONE };
    let summary = "Returns helpful text about the different subcommands.";
    Command { spec: CommandSpec { name, id, summary, traits, tips: &[], ..common }, run: Handler::Admin(reply) }
}

/// Answers HELP for the container that the call names: for each subcommand its syntax and, indented, its summary; HELP itself
/// comes last.
fn reply(call: &mut AdminCall<'_>) -> Outcome {
    let table = call.context.table;
    let Some(container) = table.lookup(call.args.at(0)).map(|dispatch| table.row(dispatch.index)) else { return Ok(()) };
    let spec = &container.command.spec;
    call.reply.array(1 + 2 * spec.subcommands.len());
    call.reply.simple(&format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", spec.name));
    // HELP stands last, as tools expect it.
    for subcommand in spec.subcommands.iter().filter(|subcommand| subcommand.own_name() != "HELP") {
        call.reply.simple(&syntax(subcommand));
        call.reply.simple(&format!("    {}", subcommand.summary));
    }
    call.reply.simple("HELP");
    call.reply.simple("    Prints this help.");
    Ok(())
}

/// The syntax line of a command without its container's name.
#[must_use]
pub fn syntax(spec: &CommandSpec) -> String {
    format!("{}{}", spec.own_name(), arguments(spec.args))
}

fn arguments(args: &[Arg]) -> String {
    args.iter().map(|arg| format!(" {}", argument(arg))).collect()
}

fn argument(arg: &Arg) -> String {
    let name = if arg.display.is_empty() { arg.name } else { arg.display };
    let value = match arg.kind {
        ArgKind::PureToken => String::new(),
        ArgKind::OneOf(args) => args.iter().map(argument).collect::<Vec<_>>().join("|"),
        ArgKind::Block(args) => arguments(args).trim_start().to_owned(),
        _ => format!("<{name}>"),
    };
    let mut text = [arg.token, value.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    if arg.multiple {
        text = format!("{text} [{text} ...]");
    }
    if arg.optional { format!("[{text}]") } else { text }
}
