//! Ranges as arguments: by index, by score or by the bytes of members, either way, with LIMIT.

use std::ops::Range;

use almandine_datatypes::string::range;
use almandine_handler::{CommandError, Options, errors, number};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::{LexRange, ScoreRange, SortedSet};
use almandine_resp::Args;

/// By what a range is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Index,
    Score,
    Lex,
}

/// What a command says of its range by its name, and what it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Where its two limits begin.
    pub(super) at: usize,
    /// None: BYSCORE and BYLEX say it.
    pub(super) by: Option<By>,
    /// None: REV says it.
    pub(super) backwards: Option<bool>,
    /// Whether it takes WITHSCORES.
    pub(super) takes_scores: bool,
}

/// A range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'c> {
    limits: Limits<'c>,
    pub(super) backwards: bool,
    pub(super) with_scores: bool,
    offset: i64,
    /// All, if it is negative.
    count: i64,
}

#[derive(Clone, Copy, Debug)]
enum Limits<'c> {
    Index(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'c>),
}

impl<'c> Query<'c> {
    /// Reads the limits and the options behind them.
    ///
    /// # Errors
    /// As Redis, in its order: unknown options, options that contradict each other, limits that are none.
    pub(super) fn parse(args: Args<'c>, form: Form) -> Result<Self, CommandError> {
        let (mut by, mut backwards, mut with_scores) = (form.by, form.backwards, false);
        let (mut offset, mut count) = (0, -1);
        let mut options = Options::after(args, form.at + 2);
        while let Some(option) = options.next() {
            match option {
                o if form.takes_scores && o.is("WITHSCORES") => with_scores = true,
                o if o.is("LIMIT") && options.remaining() >= 2 => (offset, count) = (options.integer()?, options.integer()?),
                o if backwards.is_none() && o.is("REV") => backwards = Some(true),
                o if by.is_none() && o.is("BYLEX") => by = Some(By::Lex),
                o if by.is_none() && o.is("BYSCORE") => by = Some(By::Score),
                _ => return Err(CommandError::Syntax),
            }
        }
        let (by, backwards) = (by.unwrap_or(By::Index), backwards.unwrap_or(false));
        if count != -1 && by == By::Index {
            return Err(errors::sorted_set::LIMIT_OF_INDEXES);
        }
        if with_scores && by == By::Lex {
            return Err(errors::sorted_set::SCORES_OF_LEX);
        }
        let (first, second) = (args.at(form.at), args.at(form.at + 1));
        let (min, max) = if backwards { (second, first) } else { (first, second) };
        let limits = match by {
            By::Index => Limits::Index(number::integer(first)?, number::integer(second)?),
            By::Score => Limits::Score(ScoreRange::parse(min, max).ok_or(errors::sorted_set::SCORE_RANGE)?),
            By::Lex => Limits::Lex(LexRange::parse(min, max).ok_or(errors::sorted_set::LEX_RANGE)?),
        };
        Ok(Self { limits, backwards, with_scores, offset, count })
    }

    /// The ranks of the members in the range.
    pub(super) fn ranks(&self, set: &SortedSet<'_>) -> Result<Range<usize>, Refusal> {
        let all = match &self.limits {
            Limits::Index(start, stop) => {
                let ranks = indices(*start, *stop, set.len());
                return Ok(if self.backwards { set.len() - ranks.end..set.len() - ranks.start } else { ranks });
            }
            Limits::Score(range) => set.by_score(range)?,
            Limits::Lex(range) => set.by_lex(range, self.backwards)?,
        };
        let Ok(offset) = usize::try_from(self.offset) else { return Ok(all.start..all.start) };
        let offset = offset.min(all.len());
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(all.len() - offset);
        Ok(if self.backwards { all.end - offset - count..all.end - offset } else { all.start + offset..all.start + offset + count })
    }
}

/// The ranks from one index to another, both included, that count from the end if they are negative.
pub(super) fn indices(start: i64, stop: i64, len: usize) -> Range<usize> {
    range::list(start, stop, len as u64).map_or(0..0, |ranks| ranks.start as usize..ranks.end as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use almandine_resp::ArgsBuf;

    const ZRANGE: Form = Form { at: 2, by: None, backwards: None, takes_scores: true };

    fn parsed(line: &str, form: Form) -> Result<String, CommandError> {
        let mut args = ArgsBuf::new();
        line.split(' ').for_each(|word| args.push(word.as_bytes()));
        let Query { backwards, with_scores, offset, count, limits } = Query::parse(args.as_args(), form)?;
        let by = match limits {
            Limits::Index(..) => "index",
            Limits::Score(_) => "score",
            Limits::Lex(_) => "lex",
        };
        Ok(format!("{by} {backwards} {with_scores} {offset} {count}"))
    }

    #[test]
    fn options_are_read_in_any_order() {
        let is = |text: &str| Ok(text.to_owned());
        assert_eq!(parsed("Z k 0 -1", ZRANGE), is("index false false 0 -1"));
        assert_eq!(parsed("Z k (1 2 rev limit 1 2 byscore withscores", ZRANGE), is("score true true 1 2"));
        assert_eq!(parsed("Z k [a + BYLEX LIMIT 0 -5", ZRANGE), is("lex false false 0 -5"));
        assert_eq!(parsed("Z k + - REV BYLEX", ZRANGE), is("lex true false 0 -1"));
        // Redis takes this one for no LIMIT at all.
        assert_eq!(parsed("Z k 0 1 LIMIT 3 -1", ZRANGE), is("index false false 3 -1"));
    }

    #[test]
    fn errors_come_in_the_order_of_redis() {
        let by_score = Form { by: Some(By::Score), backwards: Some(true), ..ZRANGE };
        for (line, form, error) in [
            ("Z k x y what", ZRANGE, CommandError::Syntax),
            ("Z k x y LIMIT 1", ZRANGE, CommandError::Syntax),
            ("Z k x y LIMIT a 1", ZRANGE, CommandError::NotInteger),
            ("Z k x y LIMIT 1 1", ZRANGE, errors::sorted_set::LIMIT_OF_INDEXES),
            ("Z k x y BYLEX WITHSCORES", ZRANGE, errors::sorted_set::SCORES_OF_LEX),
            ("Z k x y", ZRANGE, CommandError::NotInteger),
            ("Z k x y BYSCORE", ZRANGE, errors::sorted_set::SCORE_RANGE),
            ("Z k x y BYLEX", ZRANGE, errors::sorted_set::LEX_RANGE),
            ("Z k 1 2 REV", by_score, CommandError::Syntax),
            ("Z k 1 2 BYSCORE", by_score, CommandError::Syntax),
            ("Z k 1 2 WITHSCORES", Form { takes_scores: false, ..by_score }, CommandError::Syntax),
        ] {
            assert_eq!(parsed(line, form).unwrap_err(), error, "{line}");
        }
    }
}
