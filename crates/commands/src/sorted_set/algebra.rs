//! ZUNION, ZINTER, ZDIFF, with their STOREs, and ZINTERCARD: several sorted sets together, and sets, whose members have score 1.

use almandine_keyspace::types::set::Sets;
use almandine_keyspace::types::sorted_set::SortedSets;
use std::ops::Range;

use almandine_base::events::Classes;
use almandine_datatypes::sorted_set::Aggregate;
use almandine_handler::call::{KeyAccess, KeyCall};
use almandine_handler::{CommandError, Options, Outcome, ReadCall, Stop, Word, WriteCall, errors, number};
use almandine_keyspace::types::Frozen;
use almandine_keyspace::{Key, Kind, Put, Reader};

use super::access::{Shape, limits};
use super::combination::{Combination, Goal, Operation, Weights, answer as write_answer};
use crate::result::{self, Stored};

/// Answers the result.
pub(super) fn answer(call: &mut ReadCall<'_>, operation: Operation, command: &str) -> Outcome {
    let positions = source_keys(call, 1, command)?;
    let keys: Vec<Key<'_>> = positions.clone().map(|position| call.key(position)).collect();
    let (combination, request) = match call.computed::<Combination>()? {
        Some((combination, _)) => (*combination, Request::parse(call, positions, operation, Goal::Answer)?),
        None => {
            let sources = freeze(call, positions.clone(), |keys| keys)?;
            let request = Request::parse(call, positions, operation, Goal::Answer)?;
            let mut combination =
                Combination::new(operation, sources, request.weights.clone(), Goal::Answer, call.keys.new_tally());
            if combination.is_large() && call.may_compute(0) {
                return Err(call.compute(combination, 0));
            }
            combination.finish();
            (combination, request)
        }
    };
    looked_up(call, &keys, &combination);
    let shape = Shape::of(&call.reply, request.with_scores);
    write_answer(&mut call.reply, combination.into_tally()?, shape);
    Ok(())
}

/// Answers how many members are in all sources.
pub(super) fn count(call: &mut ReadCall<'_>, command: &str) -> Outcome {
    let positions = source_keys(call, 1, command)?;
    let operation = Operation::Intersection;
    let keys: Vec<Key<'_>> = positions.clone().map(|position| call.key(position)).collect();
    let combination = match call.computed::<Combination>()? {
        Some((combination, _)) => *combination,
        None => {
            let sources = freeze(call, positions.clone(), |keys| keys)?;
            let request = Request::parse(call, positions, operation, Goal::Count { limit: 0 })?;
            let goal = Goal::Count { limit: if request.limit == 0 { usize::MAX } else { request.limit } };
            let mut combination = Combination::new(operation, sources, Weights::default(), goal, call.keys.new_tally());
            if combination.is_large() && call.may_compute(0) {
                return Err(call.compute(combination, 0));
            }
            combination.finish();
            combination
        }
    };
    looked_up(call, &keys, &combination);
    call.reply.unsigned(combination.into_count()? as u64);
    Ok(())
}

/// Stores the result, and answers how many members it has.
pub(super) fn store(call: &mut WriteCall<'_>, operation: Operation, command: &str) -> Outcome {
    let positions = source_keys(call, 2, command)?;
    let keys: Vec<Key<'_>> = positions.clone().map(|position| call.key(position)).collect();
    let event = match operation {
        Operation::Union => "zunionstore",
        Operation::Intersection => "zinterstore",
        Operation::Difference => "zdiffstore",
    };
    store_with(call, &keys, event, |call| {
        let sources = freeze(call, positions.clone(), |keys| keys)?;
        let request = Request::parse(call, positions.clone(), operation, Goal::Store)?;
        Ok(Combination::new(operation, sources, request.weights, Goal::Store, call.keys.new_tally()))
    })
}

/// Stores what is computed from some keys in the first one, and answers how many members it has. What is large is computed
/// beside others; if a source has changed meanwhile, anew.
pub(super) fn store_with<'c>(
    call: &mut WriteCall<'c>,
    keys: &[Key<'c>],
    event: &'static str,
    begin: impl Fn(&mut WriteCall<'c>) -> Result<Combination, Stop>,
) -> Outcome {
    let mut round = 0;
    let mut combination = None;
    if let Some((computed, computed_in)) = call.computed::<Combination>()? {
        let mut same = true;
        for (key, source) in keys.iter().zip(computed.sources()) {
            same = same && call.keys.is_still(*key, source)?;
        }
        combination = same.then_some(*computed);
        round = computed_in + 1;
    }
    let combination = match combination {
        Some(combination) => combination,
        None => {
            let mut combination = begin(call)?;
            if combination.is_large() && call.may_compute(round) {
                return Err(call.compute(combination, round));
            }
            combination.finish();
            combination
        }
    };
    looked_up(call, keys, &combination);
    let destination = call.key(1);
    let mut new = call.keys.new_value::<SortedSets>(limits(call.context.settings()));
    combination.store(&mut new)?;
    let stored = Stored { kind: Kind::SortedSet, class: Classes::SORTED_SET, event };
    result::store(call, destination, new.len(), stored, |keys| keys.put_value(destination, new, Put::default()))
}

fn looked_up<'c, K: KeyAccess<'c>>(call: &mut KeyCall<'c, K>, keys: &[Key<'c>], combination: &Combination) {
    keys.iter().zip(combination.found()).for_each(|(key, found)| call.looked_up(*key, found));
}

/// The arguments that are sources, as the one at `at` says how many.
fn source_keys<K>(call: &KeyCall<'_, K>, at: usize, command: &str) -> Result<Range<usize>, CommandError> {
    let count = number::integer(call.args.at(at))?;
    if count < 1 {
        return Err(errors::sorted_set::input_keys_missing(command));
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > call.args.len() - (at + 1) {
        return Err(CommandError::Syntax);
    }
    Ok(at + 1..at + 1 + count)
}

/// The sources as they are now.
///
/// # Errors
/// When one of them is of another type.
fn freeze<'c, K: KeyAccess<'c>>(
    call: &mut KeyCall<'c, K>,
    positions: Range<usize>,
    reader: impl for<'k> Fn(&'k mut K) -> &'k mut Reader<'c>,
) -> Result<Vec<Frozen>, Stop> {
    let mut sources = Vec::with_capacity(positions.len());
    for position in positions {
        let key = call.key(position);
        let source = reader(&mut call.keys).freeze(key)?;
        if source.collection::<Sets>().is_err() {
            source.collection::<SortedSets>()?;
        }
        sources.push(source);
    }
    Ok(sources)
}

/// What the options say.
#[derive(Default)]
struct Request {
    weights: Weights,
    with_scores: bool,
    /// LIMIT of ZINTERCARD; 0 for none.
    limit: usize,
}

impl Request {
    fn parse<K>(call: &KeyCall<'_, K>, positions: Range<usize>, operation: Operation, goal: Goal) -> Result<Self, CommandError> {
        let (count, mut options) = (positions.len(), Options::after(call.args, positions.end));
        let mut request = Self::default();
        let is_count = matches!(goal, Goal::Count { .. });
        let has_scores = operation != Operation::Difference && !is_count;
        while let Some(option) = options.next() {
            match option {
                o if has_scores && o.is("WEIGHTS") && options.remaining() >= count => {
                    request.weights.each.clear();
                    for _ in 0..count {
                        let weight = number::double(options.value()?).map_err(|_| errors::sorted_set::WEIGHT_NOT_FLOAT)?;
                        request.weights.each.push(weight);
                    }
                }
                o if has_scores && o.is("AGGREGATE") && options.remaining() >= 1 => {
                    let word = Word(options.value()?);
                    request.weights.alone = word.is("COUNT");
                    request.weights.aggregate = match word {
                        w if w.is("SUM") || w.is("COUNT") => Aggregate::Sum,
                        w if w.is("MIN") => Aggregate::Min,
                        w if w.is("MAX") => Aggregate::Max,
                        _ => return Err(CommandError::Syntax),
                    };
                }
                o if goal == Goal::Answer && o.is("WITHSCORES") => request.with_scores = true,
                o if is_count && o.is("LIMIT") && options.remaining() >= 1 => {
                    let limit = number::integer(options.value()?).map_err(|_| CommandError::LimitNegative)?;
                    request.limit = usize::try_from(limit).map_err(|_| CommandError::LimitNegative)?;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(request)
    }
}
