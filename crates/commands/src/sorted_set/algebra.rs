//! ZUNION, ZINTER, ZDIFF, with their STOREs, and ZINTERCARD: several sorted sets together, and sets, whose members have score 1.
//!
//! A union adds up all members of all sources. An intersection and a difference keep those members of the smallest, or the first, source that
//! they find in the others, or do not find there. Sources are added up from the smallest on, as in Redis: sums of floats depend on it.

use std::collections::HashMap;
use std::ops::Range;

use almandine_call::call::{KeyAccess, KeyCall};
use almandine_call::{CommandError, Options, Outcome, ReadCall, WriteCall, errors, number};
use almandine_datatypes::sorted_set::{Aggregate, Tally, weighted};
use almandine_keyspace::types::set::Set;
use almandine_keyspace::types::sorted_set::SortedSet;
use almandine_keyspace::{Key, Kind, Put, Reader, Refusal};
use almandine_resp::Args;

use super::access::{Shape, limits};

/// What is asked of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What is done with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Answer,
    Store,
    Count,
}

/// What the options say.
struct Request<'c> {
    args: Args<'c>,
    /// Where the sources are.
    keys: Range<usize>,
    /// Where the first weight is.
    weights: Option<usize>,
    aggregate: Aggregate,
    /// Whether scores do not matter: COUNT adds up weights alone.
    only_weights: bool,
    with_scores: bool,
    /// LIMIT of ZINTERCARD; 0 for none.
    limit: usize,
}

/// Answers the result.
pub(super) fn answer(call: &mut ReadCall<'_>, operation: Operation, command: &str) -> Outcome {
    let keys = source_keys(call, 1, command)?;
    let sources = sources(call, keys.clone(), |keys| keys)?;
    let request = Request::parse(call.args, keys, operation, Purpose::Answer)?;
    let mut tally = compute(&mut call.keys, operation, &sources, &request)?;
    tally.sort();
    let shape = Shape::of(&call.reply, request.with_scores);
    call.reply.array(shape.elements(tally.len()));
    for entry in tally.iter() {
        shape.write(&mut call.reply, &entry);
    }
    Ok(())
}

/// Stores the result, and answers how many members it has.
pub(super) fn store(call: &mut WriteCall<'_>, operation: Operation, command: &str) -> Outcome {
    let keys = source_keys(call, 2, command)?;
    let sources = sources(call, keys.clone(), |keys| keys)?;
    let request = Request::parse(call.args, keys, operation, Purpose::Store)?;
    let mut tally = compute(&mut call.keys, operation, &sources, &request)?;
    let (destination, limits) = (call.key(1), limits(call.context.settings()));
    if tally.is_empty() {
        call.keys.delete(destination);
    } else {
        tally.sort();
        let mut new = call.keys.new_sorted_set(limits);
        new.fill(tally.iter().map(Ok))?;
        call.keys.put_sorted_set(destination, new, Put::default())?;
    }
    call.reply.unsigned(tally.len() as u64);
    Ok(())
}

/// Answers how many members are in all sources.
pub(super) fn count(call: &mut ReadCall<'_>, command: &str) -> Outcome {
    let keys = source_keys(call, 1, command)?;
    let sources = sources(call, keys.clone(), |keys| keys)?;
    let request = Request::parse(call.args, keys, Operation::Intersection, Purpose::Count)?;
    let tally = compute(&mut call.keys, Operation::Intersection, &sources, &request)?;
    let count = if request.limit == 0 { tally.len() } else { tally.len().min(request.limit) };
    call.reply.unsigned(count as u64);
    Ok(())
}

/// The arguments that are sources, as the one at `at` says how many.
fn source_keys<K>(call: &KeyCall<'_, K>, at: usize, command: &str) -> Result<Range<usize>, CommandError> {
    let count = number::integer(call.args.at(at))?;
    if count < 1 {
        return Err(errors::input_keys_missing(command));
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > call.args.len() - (at + 1) {
        return Err(CommandError::Syntax);
    }
    Ok(at + 1..at + 1 + count)
}

impl<'c> Request<'c> {
    fn parse(args: Args<'c>, keys: Range<usize>, operation: Operation, purpose: Purpose) -> Result<Self, CommandError> {
        let (count, mut options) = (keys.len(), Options::after(args, keys.end));
        let mut request =
            Self { args, keys, weights: None, aggregate: Aggregate::Sum, only_weights: false, with_scores: false, limit: 0 };
        let has_scores = operation != Operation::Difference && purpose != Purpose::Count;
        while let Some(option) = options.next() {
            match option {
                o if has_scores && o.is("WEIGHTS") && options.remaining() >= count => {
                    request.weights = Some(Options::position(&options));
                    for _ in 0..count {
                        number::double(options.value()?).map_err(|_| CommandError::WeightNotFloat)?;
                    }
                }
                o if has_scores && o.is("AGGREGATE") && options.remaining() >= 1 => {
                    let word = almandine_call::Word(options.value()?);
                    request.only_weights = word.is("COUNT");
                    request.aggregate = match word {
                        w if w.is("SUM") || w.is("COUNT") => Aggregate::Sum,
                        w if w.is("MIN") => Aggregate::Min,
                        w if w.is("MAX") => Aggregate::Max,
                        _ => return Err(CommandError::Syntax),
                    };
                }
                o if purpose == Purpose::Answer && o.is("WITHSCORES") => request.with_scores = true,
                o if purpose == Purpose::Count && o.is("LIMIT") && options.remaining() >= 1 => {
                    let limit = number::integer(options.value()?).map_err(|_| CommandError::LimitNegative)?;
                    request.limit = usize::try_from(limit).map_err(|_| CommandError::LimitNegative)?;
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(request)
    }

    /// The weight of the source at an argument.
    fn weight(&self, position: usize) -> f64 {
        // It was read when it was parsed.
        self.weights.map_or(1.0, |first| number::double(self.args.at(first + position - self.keys.start)).unwrap_or(1.0))
    }

    /// What a member with this score counts in a source of this weight.
    fn value(&self, weight: f64, score: f64) -> f64 {
        if self.only_weights { weight } else { weighted(weight, score) }
    }
}

/// A source as the command names it.
struct Source<'c> {
    key: Key<'c>,
    position: usize,
    /// None: there is no such key.
    len: Option<usize>,
}

/// The sources in order, with their sizes.
///
/// # Errors
/// When one of them is of another type.
fn sources<'c, K: KeyAccess<'c>>(
    call: &mut KeyCall<'c, K>,
    positions: Range<usize>,
    reader: impl for<'k> Fn(&'k mut K) -> &'k mut Reader<'c>,
) -> Result<Vec<Source<'c>>, CommandError> {
    let mut sources = Vec::with_capacity(positions.len());
    for position in positions {
        let key = call.key(position);
        let len = with_members(reader(&mut call.keys), key, |members| Ok(members.len()))?;
        call.looked_up(len.is_some());
        sources.push(Source { key, position, len });
    }
    Ok(sources)
}

/// The members of a source: scored, or each with score 1.
enum Members<'m, 's> {
    Scored(&'m SortedSet<'s>),
    Plain(&'m Set<'s>),
}

/// Shows a source to `look`. None: there is no such key.
fn with_members<R>(
    keys: &mut Reader<'_>,
    key: Key<'_>,
    look: impl FnOnce(Members<'_, '_>) -> Result<R, Refusal>,
) -> Result<Option<R>, Refusal> {
    match keys.metadata(key).map(|metadata| metadata.kind) {
        Some(Kind::Set) => keys.read_whole_set(key, |set| look(Members::Plain(set))),
        // Of another type it is refused there.
        _ => keys.read_whole_sorted_set(key, |set| look(Members::Scored(set))),
    }
}

impl Members<'_, '_> {
    fn len(&self) -> usize {
        match self {
            Self::Scored(set) => set.len(),
            Self::Plain(set) => set.len(),
        }
    }

    /// Visits each member with its score.
    fn visit(&self, mut visit: impl FnMut(&[u8], f64)) -> Result<(), Refusal> {
        match self {
            Self::Scored(set) => set.iter().try_for_each(|entry| entry.map(|entry| visit(entry.member, entry.score))),
            Self::Plain(set) => set.try_iter().try_for_each(|member| member.map(|member| visit(&member, 1.0))),
        }
    }

    /// The score of a member, if there is one.
    fn score(&self, member: &[u8]) -> Result<Option<f64>, Refusal> {
        match self {
            Self::Scored(set) => set.score(member),
            Self::Plain(set) => Ok(set.contains(member)?.then_some(1.0)),
        }
    }

    /// Keeps of a tally those members that `keep` keeps, which is told the score that they have here, if they are here.
    fn filter(&self, tally: &mut Tally, mut keep: impl FnMut(Option<f64>, &mut f64) -> bool) -> Result<(), Refusal> {
        if self.len() > FEW || tally.len() <= FEW / 8 {
            return tally.retain(|member, score| Ok(keep(self.score(member)?, score)));
        }
        // A few members are not gone through for each of many.
        let mut few: HashMap<Vec<u8>, f64> = HashMap::with_capacity(self.len());
        self.visit(|member, score| {
            few.insert(member.to_vec(), score);
        })?;
        tally.retain(|member, score| Ok(keep(few.get(member).copied(), score)))
    }
}

/// Members that may be gone through to find one.
const FEW: usize = 64;

/// The members of the result with their scores, in no order.
fn compute(keys: &mut Reader<'_>, operation: Operation, sources: &[Source<'_>], request: &Request<'_>) -> Result<Tally, Refusal> {
    let mut order: Vec<&Source<'_>> = sources.iter().collect();
    if operation != Operation::Difference {
        order.sort_by_key(|source| source.len.unwrap_or(0));
    }
    let mut tally = keys.new_tally();
    let Some((first, others)) = order.split_first() else { return Ok(tally) };
    let weight = request.weight(first.position);
    with_members(keys, first.key, |members| {
        members.visit(|member, score| match operation {
            Operation::Union => tally.add(member, request.value(weight, score), request.aggregate),
            _ => tally.push(member, request.value(weight, score)),
        })
    })?;
    for source in others {
        if operation != Operation::Union && tally.is_empty() {
            break;
        }
        let weight = request.weight(source.position);
        let found = with_members(keys, source.key, |members| match operation {
            Operation::Union => members.visit(|member, score| tally.add(member, request.value(weight, score), request.aggregate)),
            Operation::Intersection => members.filter(&mut tally, |here, score| {
                here.inspect(|here| *score = request.aggregate.of(*score, request.value(weight, *here))).is_some()
            }),
            Operation::Difference => members.filter(&mut tally, |here, _| here.is_none()),
        })?;
        if operation == Operation::Intersection && found.is_none() {
            return Ok(keys.new_tally());
        }
    }
    Ok(tally)
}
