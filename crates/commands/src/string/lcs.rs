//! LCS: the longest common subsequence of two strings, by dynamic programming.
//!
//! `table[i][j]` is the length of the longest common subsequence of the first `i` bytes of `a` and the first `j` bytes of `b`. Walking back
//! from the end yields the subsequence, and the ranges of matching bytes from last to first, which is the order of the reply.

use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_keyspace::Kind;

use crate::errors::CommandError;
use crate::options::Options;
use crate::{Command, Handler, Outcome, ReadCall};

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
    run: Handler::Read(lcs),
};

/// What LCS answers.
#[derive(Default)]
struct LcsOptions {
    len: bool,
    idx: bool,
    match_len_min: i64,
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
            o if o.is("MINMATCHLEN") => lcs.match_len_min = options.integer()?.max(0),
            _ => return Err(CommandError::Syntax),
        }
    }
    if lcs.idx && lcs.len { Err(CommandError::LcsLenAndIdx) } else { Ok(lcs) }
}

fn lcs(call: &mut ReadCall<'_>) -> Outcome {
    let (first, second) = (operand(call, 1)?, operand(call, 2)?);
    let options = lcs_options(call)?;
    let table = Table::fill(&first, &second, call.context.string_bytes_max())?;
    let len = table.at(first.len(), second.len()) as usize;
    if options.len {
        call.reply.unsigned(len as u64);
        return Ok(());
    }
    if !options.idx {
        let mut common = Vec::with_capacity(len);
        table.walk(&first, &second, |range| common.extend(first[range.a..range.a + range.len].iter().rev()));
        common.reverse();
        call.reply.bulk(&common);
        return Ok(());
    }
    let mut ranges = Vec::new();
    table.walk(&first, &second, |range| ranges.push(range));
    let match_len_min = usize::try_from(options.match_len_min).unwrap_or(usize::MAX);
    ranges.retain(|range| range.len >= match_len_min);
    call.reply.map(2);
    call.reply.bulk(b"matches");
    call.reply.array(ranges.len());
    for range in ranges {
        call.reply.array(if options.with_match_len { 3 } else { 2 });
        for start in [range.a, range.b] {
            call.reply.array(2);
            call.reply.unsigned(start as u64);
            call.reply.unsigned((start + range.len - 1) as u64);
        }
        if options.with_match_len {
            call.reply.unsigned(range.len as u64);
        }
    }
    call.reply.bulk(b"len");
    call.reply.unsigned(len as u64);
    Ok(())
}

fn operand(call: &mut ReadCall<'_>, position: usize) -> Result<Vec<u8>, CommandError> {
    let key = call.key(position);
    let value = call.keys.read(key);
    call.context.statistics().looked_up(value.is_some());
    match value {
        Some(value) if value.kind() != Kind::String => Err(CommandError::LcsNotStrings),
        value => Ok(value.map_or_else(Vec::new, |value| value.to_vec())),
    }
}

/// Bytes that both strings have, one after the other in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    a: usize,
    b: usize,
    len: usize,
}

struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn fill(a: &[u8], b: &[u8], bytes_max: usize) -> Result<Self, CommandError> {
        let width = b.len() + 1;
        let cells = width.checked_mul(a.len() + 1).ok_or(CommandError::LcsTooLong)?;
        if cells.checked_mul(size_of::<u32>()).is_none_or(|bytes| bytes > bytes_max) {
            return Err(CommandError::LcsTooLarge);
        }
        let mut lengths = vec![0_u32; cells];
        for (i, byte) in a.iter().enumerate() {
            let (above, row) = lengths[i * width..(i + 2) * width].split_at_mut(width);
            for (j, other) in b.iter().enumerate() {
                row[j + 1] = if byte == other { above[j] + 1 } else { above[j + 1].max(row[j]) };
            }
        }
        Ok(Self { lengths, width })
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * self.width + j]
    }

    /// Visits the matching ranges from last to first.
    fn walk(&self, a: &[u8], b: &[u8], mut visit: impl FnMut(Range)) {
        let (mut i, mut j) = (a.len(), b.len());
        let mut open: Option<Range> = None;
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                open = Some(Range { a: i, b: j, len: open.map_or(0, |range| range.len) + 1 });
                continue;
            }
            if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
            open.take().into_iter().for_each(&mut visit);
        }
        open.into_iter().for_each(&mut visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_redis_manual() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        let table = Table::fill(a, b, 1 << 20).unwrap();
        assert_eq!(table.at(a.len(), b.len()), 6);
        let mut ranges = Vec::new();
        table.walk(a, b, |range| ranges.push(range));
        assert_eq!(ranges, [Range { a: 4, b: 5, len: 4 }, Range { a: 2, b: 0, len: 2 }]);
    }

    #[test]
    fn strings_without_anything_in_common() {
        let table = Table::fill(b"abc", b"", 1 << 20).unwrap();
        assert_eq!(table.at(3, 0), 0);
        table.walk(b"abc", b"", |_| panic!("nothing matches"));
        assert!(Table::fill(&[0; 100], &[0; 100], 1000).is_err());
    }
}
