//! ZPOPMIN, ZPOPMAX and ZMPOP: the lowest or the highest members, which go.

use std::ops::Range;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall, number};
use almandine_keyspace::types::sorted_set::{SortedSetMut, SortedSets};
use almandine_resp::{ProtocolVersion, Reply};

use super::access::{SORTED_SET, Shape, limits};
use super::range::write;
use crate::traits::CHANGE;

pub(super) const ZPOPMIN: Command = Command {
    spec: CommandSpec {
        name: "ZPOPMIN",
        id: 770,
        since: "5.0.0",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
        summary: "Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last \
                  member was popped.",
        args: &[Arg::key("key", Access::Take), Arg::integer("count").optional()],
        traits: CHANGE,
        ..SORTED_SET
    },
    run: Handler::Write(|call| pop_one_key(call, false)),
};

pub(super) const ZPOPMAX: Command = Command {
    spec: CommandSpec {
        name: "ZPOPMAX",
        id: 771,
        summary: "Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last \
                  member was popped.",
        ..ZPOPMIN.spec
    },
    run: Handler::Write(|call| pop_one_key(call, true)),
};

fn pop_one_key(call: &mut WriteCall<'_>, highest: bool) -> Outcome {
    if call.args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let natural = |text: &[u8]| number::integer(text).ok().and_then(|count| usize::try_from(count).ok());
    let count = call.args.get(2).map(|text| natural(text).ok_or(CommandError::NotPositive)).transpose()?;
    // One member without COUNT is never a pair.
    let is_flat = count.is_none() || call.reply.version() == ProtocolVersion::Resp2;
    let (key, limits) = (call.key(1), limits(call.context.settings()));
    let WriteCall { keys, reply, .. } = call;
    let mut set = keys.write_as::<SortedSets>(key, limits)?;
    let popped = pop(&mut set, count.unwrap_or(1), highest, if is_flat { Shape::Flat } else { Shape::Pairs }, reply)?;
    let emptied = set.is_empty();
    set.commit()?;
    if popped > 0 {
        call.taken(Classes::SORTED_SET, event(highest), key, emptied);
    }
    Ok(())
}

/// The event of members that are popped.
pub(super) fn event(highest: bool) -> &'static str {
    if highest { "zpopmax" } else { "zpopmin" }
}

/// Answers `count` members, and removes them. How many there were.
fn pop(set: &mut SortedSetMut<'_>, count: usize, highest: bool, shape: Shape, reply: &mut Reply<'_>) -> Result<usize, Stop> {
    let len = set.len();
    let count = count.min(len);
    let ranks = if highest { len - count..len } else { 0..count };
    write(&set.look(), ranks.clone(), highest, shape, reply)?;
    set.remove_range(ranks, &mut |_| ())?;
    Ok(count)
}

pub(super) const ZMPOP: Command = Command {
    spec: CommandSpec {
        name: "ZMPOP",
        id: 772,
        since: "7.0.0",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted \
                     set, and M being the number of elements popped.",
        summary: "Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the \
                  sorted set if the last member was popped.",
        args: &[
            Arg::key_count("numkeys"),
            Arg::key("key", Access::Take).multiple(),
            Arg::one_of("where", &[Arg::pure_token("min", "MIN"), Arg::pure_token("max", "MAX")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        traits: Traits { fast: false, ..CHANGE },
        ..SORTED_SET
    },
    run: Handler::Write(zmpop),
};

fn zmpop(call: &mut WriteCall<'_>) -> Outcome {
    let pops = Pops::parse(call, 1)?;
    if !pops.answer(call)? {
        call.reply.null_array();
    }
    Ok(())
}

/// The arguments of ZMPOP, from the number of keys on.
pub(super) struct Pops {
    /// The places of the keys.
    pub(super) keys: Range<usize>,
    highest: bool,
    count: usize,
}

impl Pops {
    /// Reads the arguments from `at` on.
    ///
    /// # Errors
    /// As Redis checks them.
    pub(super) fn parse(call: &WriteCall<'_>, at: usize) -> Result<Self, CommandError> {
        let positive =
            |text: &[u8]| number::integer(text).ok().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        let numkeys = positive(call.args.at(at)).ok_or(CommandError::KeyCountNotPositive)?;
        if numkeys > call.args.len() {
            return Err(CommandError::Syntax);
        }
        let keys = at + 1..at + 1 + numkeys;
        let mut options = Options::after(call.args, keys.end);
        let highest = match options.next() {
            Some(word) if word.is("MIN") => false,
            Some(word) if word.is("MAX") => true,
            _ => return Err(CommandError::Syntax),
        };
        let mut count = None;
        while let Some(option) = options.next() {
            if count.is_some() || !option.is("COUNT") || options.remaining() == 0 {
                return Err(CommandError::Syntax);
            }
            count = Some(positive(options.value()?).ok_or(CommandError::CountNotPositive)?);
        }
        Ok(Self { keys, highest, count: count.unwrap_or(1) })
    }

    /// Takes members out of the first key that is a sorted set, and answers its name and them. False: none is.
    ///
    /// # Errors
    /// When a key before it is of another type.
    pub(super) fn answer(&self, call: &mut WriteCall<'_>) -> Result<bool, Stop> {
        let limits = limits(call.context.settings());
        for at in call.candidates(self.keys.clone()) {
            let key = call.key(at);
            let WriteCall { keys, reply, args, .. } = call;
            let mut set = keys.write_as::<SortedSets>(key, limits)?;
            if set.existed() {
                reply.array(2);
                reply.bulk(args.at(at));
                pop(&mut set, self.count, self.highest, Shape::Pairs, reply)?;
                let emptied = set.is_empty();
                set.commit()?;
                call.taken(Classes::SORTED_SET, event(self.highest), key, emptied);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
