//! LCS: the longest common subsequence of two strings. The algorithm is in [`almandine_datatypes::string::lcs`].

use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::string::lcs::{self, Comparison, Goal};
use almandine_handler::computation::Computation;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, errors};
use almandine_keyspace::types::Frozen;

/// Squares of 64 × 64 cells that a step fills: some ten microseconds.
const STEP: usize = 128;
/// Squares from which on it is done beside the commands of others: about a millisecond, two strings of 8 KiB.
const LARGE: usize = 16_384;

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

/// A comparison of strings as they were at one time.
struct Compared {
    operands: [Frozen; 2],
    comparison: Comparison,
}

impl Compared {
    fn operands(&self) -> [&[u8]; 2] {
        operands(&self.operands)
    }

    fn is_large(&self) -> bool {
        let [first, second] = self.operands();
        self.comparison.squares_of(first, second) > LARGE
    }
}

impl Computation for Compared {
    fn step(&mut self) -> bool {
        let [first, second] = operands(&self.operands);
        self.comparison.advance(first, second, STEP)
    }

    fn memory(&self) -> usize {
        self.comparison.memory()
    }
}

fn operands(operands: &[Frozen; 2]) -> [&[u8]; 2] {
    operands.each_ref().map(|operand| operand.string().ok().flatten().unwrap_or_default())
}

fn longest_common_subsequence(call: &mut ReadCall<'_>) -> Outcome {
    let compared = match call.computed::<Compared>()? {
        Some((compared, _)) => *compared,
        None => {
            let (first, second) = (call.key(1), call.key(2));
            let operands = [call.keys.freeze(first)?, call.keys.freeze(second)?];
            let begun = begin(call, operands);
            match begun {
                // It is looked up again for the result.
                Ok(compared) if compared.is_large() && call.may_compute(0) => return Err(call.compute(compared, 0)),
                Ok(mut compared) => {
                    while !compared.step() {}
                    compared
                }
                Err((operands, error)) => {
                    look_up(call, &operands);
                    return Err(error.into());
                }
            }
        }
    };
    look_up(call, &compared.operands);
    let options = lcs_options(call)?;
    if options.len {
        call.reply.unsigned(compared.comparison.length() as u64);
    } else if options.idx {
        reply_runs(call, &options, compared.comparison);
    } else {
        let [first, _] = compared.operands();
        call.reply.bulk(&compared.comparison.subsequence(first));
    }
    Ok(())
}

/// The comparison that is asked for, or why there is none.
fn begin(call: &ReadCall<'_>, frozen: [Frozen; 2]) -> Result<Compared, ([Frozen; 2], CommandError)> {
    if frozen.iter().any(|operand| operand.string().is_err()) {
        return Err((frozen, errors::string::LCS_NOT_STRINGS));
    }
    let options = match lcs_options(call) {
        Ok(options) => options,
        Err(error) => return Err((frozen, error)),
    };
    let [first, second] = operands(&frozen);
    if lcs::check(first.len(), second.len(), call.context.string_bytes_max() as u64).is_err() {
        return Err((frozen, errors::string::LCS_TOO_LARGE));
    }
    let comparison = Comparison::new(first, second, if options.len { Goal::Length } else { Goal::Runs });
    Ok(Compared { operands: frozen, comparison })
}

fn look_up(call: &mut ReadCall<'_>, operands: &[Frozen; 2]) {
    for (position, operand) in (1..).zip(operands) {
        let key = call.key(position);
        call.looked_up(key, !matches!(operand.string(), Ok(None)));
    }
}

fn reply_runs(call: &mut ReadCall<'_>, options: &LcsOptions, comparison: Comparison) {
    let len = comparison.length();
    let runs = comparison.into_runs(options.match_len_min);
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
