//! LCS: the longest common subsequence of two strings. The algorithm is in [`almandine_datatypes::string::lcs`].

use almandine_call::{Command, CommandError, Handler, Options, Outcome, ReadCall, errors};
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::string::lcs;
use almandine_keyspace::Kind;

pub(super) const LCS: Command = Command {
    spec: CommandSpec {
        name: "LCS",
        id: 24,
        since: "7.0.0",
        complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
        summary: "Finds the longest common substring.",
        group: Group::String,
        args: &[
            Arg::key("key1", Access::Read),
            Arg::key("key2", Access::Read),
            Arg::pure_token("len", "LEN").optional(),
            Arg::pure_token("idx", "IDX").optional(),
            Arg::integer("min-match-len").token("MINMATCHLEN").optional(),
            Arg::pure_token("withmatchlen", "WITHMATCHLEN").optional(),
        ],
        traits: Traits { readonly: true, ..Traits::NONE },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(longest_common_subsequence),
};

/// What LCS answers.
#[derive(Default)]
struct LcsOptions {
    len: bool,
    idx: bool,
    match_len_min: usize,
    with_match_len: bool,
}

fn lcs_options(call: &ReadCall<'_>) -> Result<LcsOptions, CommandError> {
    let mut lcs = LcsOptions::default();
    let mut options = Options::after(call.args, 3);
    while let Some(option) = options.next() {
        match option {
            o if o.is("IDX") => lcs.idx = true,
            o if o.is("LEN") => lcs.len = true,
            o if o.is("WITHMATCHLEN") => lcs.with_match_len = true,
            o if o.is("MINMATCHLEN") => lcs.match_len_min = usize::try_from(options.integer()?).unwrap_or(0),
            _ => return Err(CommandError::Syntax),
        }
    }
    if lcs.idx && lcs.len { Err(errors::string::LCS_LEN_AND_IDX) } else { Ok(lcs) }
}

fn longest_common_subsequence(call: &mut ReadCall<'_>) -> Outcome {
    let (first, second) = (operand(call, 1)?, operand(call, 2)?);
    let options = lcs_options(call)?;
    lcs::check(first.len(), second.len(), call.context.string_bytes_max() as u64).map_err(|_| errors::string::LCS_TOO_LARGE)?;
    if options.len {
        call.reply.unsigned(lcs::length(&first, &second) as u64);
    } else if options.idx {
        reply_runs(call, &options, &first, &second);
    } else {
        call.reply.bulk(&lcs::subsequence(&first, &second));
    }
    Ok(())
}

fn reply_runs(call: &mut ReadCall<'_>, options: &LcsOptions, first: &[u8], second: &[u8]) {
    let (runs, len) = lcs::runs(first, second, options.match_len_min);
    call.reply.map(2);
    call.reply.bulk(b"matches");
    call.reply.array(runs.len());
    for run in runs {
        call.reply.array(if options.with_match_len { 3 } else { 2 });
        for part in [&run.a, &run.b] {
            call.reply.array(2);
            call.reply.unsigned(part.start as u64);
            call.reply.unsigned(part.end as u64 - 1);
        }
        if options.with_match_len {
            call.reply.unsigned(run.a.len() as u64);
        }
    }
    call.reply.bulk(b"len");
    call.reply.unsigned(len as u64);
}

fn operand(call: &mut ReadCall<'_>, position: usize) -> Result<Vec<u8>, CommandError> {
    let key = call.key(position);
    let value = call.keys.read(key);
    let found = value.is_some();
    let operand = match value {
        Some(value) if value.kind() != Kind::String => Err(errors::string::LCS_NOT_STRINGS),
        value => Ok(value.map_or_else(Vec::new, |value| value.to_vec())),
    };
    call.looked_up(key, found);
    operand
}
