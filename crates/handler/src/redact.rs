//! Arguments as MONITOR and the command logs may show them.

use almandine_command_spec::CommandSpec;
use almandine_resp::Args;

/// What stands in place of a secret, as in Redis.
const REDACTED: &[u8] = b"(redacted)";

/// The arguments of a call of the command that `spec` describes, secrets replaced.
pub fn shown<'a>(spec: &CommandSpec, args: Args<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
    let secret = spec.secret;
    args.iter().enumerate().map(move |(at, argument)| match secret {
        Some(is_secret) if is_secret(&|index| args.at(index), at) => REDACTED,
        _ => argument,
    })
}
