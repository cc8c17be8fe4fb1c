//! The keys of one call, one after the other, without allocation.

use crate::keys::{Access, Begin, Find, KeySpec};
use crate::spec::NextKey;

/// An iterator over the keys of a call: argument index and access.
#[derive(Debug)]
pub struct Positions<'s, F> {
    specs: &'s [KeySpec],
    computed: Option<NextKey>,
    count: usize,
    arg: F,
    /// The run of keys that is being given out: next argument, arguments left up to the end of the run, step, access.
    run: Run,
    after: usize,
    invalid: bool,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    next: usize,
    end: usize,
    step: usize,
    access: Access,
}

impl<'s, 'a, F: Fn(usize) -> &'a [u8]> Positions<'s, F> {
    pub(crate) fn new(specs: &'s [KeySpec], computed: Option<NextKey>, count: usize, arg: F) -> Self {
        let run = Run { next: 0, end: 0, step: 1, access: Access::Read };
        Self { specs, computed, count, arg, run, after: 0, invalid: false }
    }

    /// Whether the arguments contradict the specs, such as a key count beyond the end. Known when the iterator is exhausted.
    pub fn is_invalid(&self) -> bool {
        self.invalid
    }

    /// The run of keys of `spec`; `None` when its keyword is absent or the arguments contradict it.
    fn locate(&mut self, spec: &KeySpec) -> Option<Run> {
        let begin = match spec.begin {
            Begin::Index(index) => usize::try_from(index).ok()?,
            Begin::Keyword { word, from } => self.find_keyword(word, from)? + 1,
            Begin::Unknown => return None,
        };
        let (first, last, step) = match spec.find {
            Find::Range { last, step, limit } => {
                let last = if last >= 0 {
                    begin as i64 + i64::from(last)
                } else if limit > 1 {
                    begin as i64 + (self.count as i64 - begin as i64) / i64::from(limit) + i64::from(last)
                } else {
                    self.count as i64 + i64::from(last)
                };
                (begin, last, step)
            }
            Find::KeyNum { count, first, step } => {
                let at = begin + usize::try_from(count).ok()?;
                let keys = if at < self.count { integer((self.arg)(at)) } else { None };
                let Some(keys) = keys.filter(|keys| *keys >= 0) else {
                    self.invalid = true;
                    return None;
                };
                if keys == 0 {
                    return None;
                }
                let first = begin + usize::try_from(first).ok()?;
                (first, (keys - 1).checked_mul(i64::from(step))?.checked_add(first as i64)?, step)
            }
            Find::Unknown => return None,
        };
        if first >= self.count || last < first as i64 || last >= self.count as i64 {
            self.invalid = true;
            return None;
        }
        Some(Run { next: first, end: last as usize + 1, step: usize::try_from(step).ok()?.max(1), access: spec.access })
    }

    fn find_keyword(&self, word: &str, from: i16) -> Option<usize> {
        let matches = |i: &usize| (self.arg)(*i).eq_ignore_ascii_case(word.as_bytes());
        match usize::try_from(from) {
            Ok(from) => (from..self.count).find(matches),
            Err(_) => (1..=self.count.saturating_sub(usize::from(from.unsigned_abs()))).rev().find(matches),
        }
    }
}

impl<'a, F: Fn(usize) -> &'a [u8]> Iterator for Positions<'_, F> {
    type Item = (usize, Access);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(next) = self.computed {
            let found = next(self.count, &self.arg, self.after)?;
            debug_assert!(found.0 > self.after && found.0 < self.count);
            self.after = found.0;
            return Some(found);
        }
        while self.run.next >= self.run.end {
            let (spec, rest) = self.specs.split_first()?;
            self.specs = rest;
            if let Some(run) = self.locate(spec) {
                self.run = run;
            }
        }
        let index = self.run.next;
        self.run.next += self.run.step;
        Some((index, self.run.access))
    }
}

fn integer(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::{Access, Begin, CommandSpec, Find, KeySpec, Keys};

    fn positions(spec: &CommandSpec, line: &str) -> (Vec<usize>, bool) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let shape = spec.shape();
        let mut keys = shape.keys(args.len(), |i| args[i]);
        let found = keys.by_ref().map(|(i, _)| i).collect();
        (found, keys.is_invalid())
    }

    #[test]
    fn counted_keys_follow_their_count() {
        const SPEC: CommandSpec =
            CommandSpec { keys: Keys::Specs(&[KeySpec::counted(2, 2, Access::Overwrite)]), ..CommandSpec::BLANK };
        assert_eq!(positions(&SPEC, "m x 2 a 1 b 2 EX 5"), (vec![3, 5], false));
        assert_eq!(positions(&SPEC, "m x 0 a"), (vec![], false));
        for bad in ["m x -1 a", "m x 9 a", "m x foo a", "m x 9223372036854775807 a", "m x"] {
            assert_eq!(positions(&SPEC, bad), (vec![], !bad.contains("775807")), "{bad}");
        }
    }

    #[test]
    fn keyword_finds_keys_from_either_end() {
        const LIMITED: Find = Find::Range { last: -1, step: 1, limit: 2 };
        const XREAD: KeySpec = KeySpec::new(Begin::Keyword { word: "STREAMS", from: 1 }, LIMITED, Access::Read);
        const SPEC: CommandSpec = CommandSpec { keys: Keys::Specs(&[XREAD]), ..CommandSpec::BLANK };
        assert_eq!(positions(&SPEC, "xread COUNT 2 streams a b 0 0"), (vec![4, 5], false));
        assert_eq!(positions(&SPEC, "xread COUNT 2"), (vec![], false));
        const ALL: Find = Find::Range { last: -1, step: 1, limit: 0 };
        const MIGRATE: KeySpec = KeySpec::new(Begin::Keyword { word: "KEYS", from: -2 }, ALL, Access::Take);
        const SPEC_2: CommandSpec = CommandSpec { keys: Keys::Specs(&[MIGRATE]), ..CommandSpec::BLANK };
        assert_eq!(positions(&SPEC_2, "migrate h p keys 0 10 KEYS a b"), (vec![7, 8], false));
    }
}
