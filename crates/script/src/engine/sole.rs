//! Scripts that consist of one call: its arguments are put together from the request, and its reply is the script's. No machine
//! runs.
//!
//! A reply that a script would not return as it is (an error, an array) is the answer to the call of a run that follows: so there
//! is one way in which replies become values, and values replies.

use almandine_base::Output;
use almandine_lua::SoleArgument;
use almandine_resp::{Args, ArgsBuf, ProtocolVersion, number};

use super::commands::{Commands, Verdict};

/// Memory that the calls of a worker's scripts use one after the other.
#[derive(Debug, Default)]
pub(crate) struct CallMemory {
    pub(super) args: ArgsBuf,
    pub(super) number: Vec<u8>,
    pub(super) out: Output,
}

/// How far a script is that consists of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is not one, or runs in the machine.
    Machine,
    /// Its call is prepared.
    Prepared,
}

/// What became of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Its reply is that of the script, and is written.
    Written,
    /// Its reply is kept: it is not what the script returns.
    Kept,
    /// It has not run yet.
    Later,
    /// It has not run, and the script is to end.
    Never,
}

impl CallMemory {
    /// Puts the arguments of the call together; false when one is missing.
    pub(super) fn prepare(&mut self, sole: &[SoleArgument], [keys, args]: [&Args<'_>; 2]) -> bool {
        let Self { args: words, number: text, .. } = self;
        words.clear();
        for argument in sole {
            let word = match argument {
                SoleArgument::Text(bytes) => Some(&**bytes),
                SoleArgument::Number(value) => {
                    text.clear();
                    number::write_double(text, *value + 0.0);
                    Some(&text[..])
                }
                SoleArgument::Key(place) => keys.get(*place),
                SoleArgument::Argument(place) => args.get(*place),
            };
            let Some(word) = word else { return false };
            words.push(word);
        }
        true
    }

    /// Runs the call that is prepared.
    pub(super) fn answer(&mut self, commands: &mut dyn Commands, out: &mut Output) -> Answered {
        let (mark, at) = (out.mark(), out.bytes.len());
        while !commands.call(self.args.as_args(), ProtocolVersion::Resp2, out) {
            match commands.verdict() {
                Verdict::GoOn => {}
                Verdict::Suspend => return Answered::Later,
                Verdict::End => return Answered::Never,
            }
        }
        if is_returned_as_it_is(out.bytes.get(at)) {
            return Answered::Written;
        }
        self.out.clear();
        out.move_to(mark, &mut self.out);
        Answered::Kept
    }
}

/// What a script returns of a reply that begins so is what it has got, to the byte, in RESP2.
pub(super) fn is_returned_as_it_is(first: Option<&u8>) -> bool {
    matches!(first, Some(b'$' | b':' | b'+'))
}
