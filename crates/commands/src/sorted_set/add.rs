//! ZADD and ZINCRBY: members and their scores.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_datatypes::packed::Due;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall, errors, number};
use almandine_keyspace::types::sorted_set::{SortedSetMut, Update};

use super::access::{SORTED_SET, change};
use crate::traits::WRITE;

pub(super) const ZADD: Command = Command {
    spec: CommandSpec {
        name: "ZADD",
        id: 750,
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        summary: "Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::one_of("condition", &[Arg::pure_token("nx", "NX"), Arg::pure_token("xx", "XX")]).optional().since("3.0.2"),
            Arg::one_of("comparison", &[Arg::pure_token("gt", "GT"), Arg::pure_token("lt", "LT")]).optional().since("6.2.0"),
            Arg::pure_token("change", "CH").optional().since("3.0.2"),
            Arg::pure_token("increment", "INCR").optional().since("3.0.2"),
            Arg::block("data", &[Arg::double("score"), Arg::value("member")]).multiple(),
        ],
        traits: Traits { element_last: true, ..WRITE },
        history: &[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ],
        ..SORTED_SET
    },
    run: Handler::Write(zadd),
};

/// What the options of ZADD say.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changes: bool,
    increment: bool,
}

impl Conditions {
    /// Takes the words that are options.
    fn take(options: &mut Options<'_>) -> Self {
        let mut conditions = Self::default();
        while let Some(word) = options.peek().map(almandine_handler::Word) {
            match word {
                w if w.is("NX") => conditions.absent = true,
                w if w.is("XX") => conditions.present = true,
                w if w.is("GT") => conditions.greater = true,
                w if w.is("LT") => conditions.less = true,
                w if w.is("CH") => conditions.changes = true,
                w if w.is("INCR") => conditions.increment = true,
                _ => break,
            }
            options.next();
        }
        conditions
    }

    /// Whether they can hold together, for this number of members.
    fn check(self, members: usize) -> Result<(), CommandError> {
        match self {
            Self { absent: true, present: true, .. } => Err(errors::sorted_set::CONDITIONS),
            Self { absent: true, greater: true, .. }
            | Self { absent: true, less: true, .. }
            | Self { greater: true, less: true, .. } => Err(errors::sorted_set::COMPARISONS),
            Self { increment: true, .. } if members > 1 => Err(errors::sorted_set::INCREMENTS),
            _ => Ok(()),
        }
    }

    /// Whether every member is given its score, whatever it had.
    fn are_none(self) -> bool {
        !(self.absent || self.present || self.greater || self.less || self.increment)
    }

    /// The score that a member is to have. None: it is left as it is.
    fn score(self, before: Option<f64>, given: f64) -> Result<Option<f64>, CommandError> {
        let Some(before) = before else { return Ok(Some(given).filter(|_| !self.present)) };
        let score = if self.increment { before + given } else { given };
        if score.is_nan() {
            return Err(errors::sorted_set::SCORE_NOT_A_NUMBER);
        }
        let is_refused = self.absent || (self.less && score >= before) || (self.greater && score <= before);
        Ok(Some(score).filter(|_| !is_refused))
    }
}

fn zadd(call: &mut WriteCall<'_>) -> Outcome {
    let args = call.args;
    let mut options = Options::after(args, 2);
    let conditions = Conditions::take(&mut options);
    let pairs = args.slice_from(options.position());
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(CommandError::Syntax.into());
    }
    conditions.check(pairs.len() / 2)?;
    let first = number::double(pairs.at(0))?;
    for at in (2..pairs.len()).step_by(2) {
        number::double(pairs.at(at))?;
    }
    let mut set = change(call)?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    for at in (0..pairs.len()).step_by(2) {
        let score = if at == 0 { first } else { number::double(pairs.at(at))? };
        let update = add(&mut set, conditions, pairs.at(at + 1), score, Due::Never)?;
        added += u64::from(update.is_some_and(|(update, _)| update == Update::Added));
        changed += u64::from(update.is_some_and(|(update, _)| update == Update::Changed));
        last = update.map(|(_, score)| score);
    }
    let counts = set.counts_changes();
    set.commit()?;
    if counts {
        let key = call.key(1);
        call.event(Classes::SORTED_SET, if conditions.increment { "zincr" } else { "zadd" }, key);
    }
    match last {
        Some(score) if conditions.increment => call.reply.double(score),
        None if conditions.increment => call.reply.null(),
        _ => call.reply.unsigned(if conditions.changes { added + changed } else { added }),
    }
    Ok(())
}

/// Gives a member a score if the conditions hold, and says what that did and which one it has.
fn add(
    set: &mut SortedSetMut<'_>,
    conditions: Conditions,
    member: &[u8],
    given: f64,
    due: Due,
) -> Result<Option<(Update, f64)>, Stop> {
    let score = if conditions.are_none() {
        Some(given)
    } else {
        let before = set.look().score(member)?;
        conditions.score(before, given)?
    };
    Ok(score.map(|score| set.set(member, score, due).map(|update| (update, score))).transpose()?)
}

pub(super) const ZINCRBY: Command = Command {
    spec: CommandSpec {
        name: "ZINCRBY",
        id: 751,
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        summary: "Increments the score of a member in a sorted set.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::integer("increment"), Arg::value("member")],
        traits: Traits { element_last: true, ..WRITE },
        ..SORTED_SET
    },
    run: Handler::Write(zincrby),
};

fn zincrby(call: &mut WriteCall<'_>) -> Outcome {
    let (by, member) = (number::double(call.args.at(2))?, call.args.at(3));
    let mut set = change(call)?;
    let conditions = Conditions { increment: true, ..Conditions::default() };
    let update = add(&mut set, conditions, member, by, Due::Keep)?;
    let counts = set.counts_changes();
    set.commit()?;
    if counts {
        let key = call.key(1);
        call.event(Classes::SORTED_SET, "zincr", key);
    }
    call.reply.double(update.map_or(by, |(_, score)| score));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_decide_by_the_score_before() {
        let none = Conditions::default();
        let (nx, xx) = (Conditions { absent: true, ..none }, Conditions { present: true, ..none });
        let (gt, lt) = (Conditions { greater: true, ..none }, Conditions { less: true, ..none });
        assert_eq!([nx.score(None, 1.0), xx.score(None, 1.0), gt.score(None, 1.0)], [Ok(Some(1.0)), Ok(None), Ok(Some(1.0))]);
        assert_eq!([nx.score(Some(1.0), 2.0), xx.score(Some(1.0), 2.0)], [Ok(None), Ok(Some(2.0))]);
        for (new, greater, less) in [(1.0, None, None), (2.0, Some(2.0), None), (0.5, None, Some(0.5))] {
            assert_eq!([gt.score(Some(1.0), new), lt.score(Some(1.0), new)], [Ok(greater), Ok(less)]);
        }
        let incr = Conditions { increment: true, ..gt };
        assert_eq!(
            [incr.score(Some(1.0), 2.0), incr.score(Some(1.0), 0.0), incr.score(None, -2.0)],
            [Ok(Some(3.0)), Ok(None), Ok(Some(-2.0))]
        );
        assert_eq!(incr.score(Some(f64::INFINITY), f64::NEG_INFINITY), Err(errors::sorted_set::SCORE_NOT_A_NUMBER));
    }
}
