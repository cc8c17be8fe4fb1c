//! Elements taken from an end.

use std::ops::Range;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, KeySpec, Keys, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall, errors};
use almandine_keyspace::types::list::{End, ListLimits, Lists};
use almandine_keyspace::{Key, Writer};
use almandine_resp::Reply;

use super::access::{LIST, change, end, limits, popped};
use crate::traits::CHANGE;

const POP: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of elements returned",
    args: &[Arg::key("key", Access::Take), Arg::integer("count").optional().since("6.2.0")],
    traits: CHANGE,
    history: &[("6.2.0", "Added the `count` argument.")],
    ..LIST
};

pub(super) const LPOP: Command = Command {
    spec: CommandSpec {
        name: "LPOP",
        id: 824,
        summary: "Returns the first elements in a list after removing it. Deletes the list if the last element was popped.",
        ..POP
    },
    run: Handler::Write(|call| pop(call, End::Left, "lpop")),
};

pub(super) const RPOP: Command = Command {
    spec: CommandSpec {
        name: "RPOP",
        id: 825,
        summary: "Returns and removes the last elements of a list. Deletes the list if the last element was popped.",
        ..POP
    },
    run: Handler::Write(|call| pop(call, End::Right, "rpop")),
};

fn pop(call: &mut WriteCall<'_>, end: End, command: &str) -> Outcome {
    match call.args.get(2) {
        None => pop_one(call, end),
        Some(_) if call.args.len() > 3 => Err(errors::wrong_arity(command).into()),
        Some(count) => pop_many(call, end, count),
    }
}

fn pop_one(call: &mut WriteCall<'_>, end: End) -> Outcome {
    let (key, limits) = (call.key(1), limits(call.context.settings()));
    let WriteCall { keys, reply, .. } = call;
    let mut list = keys.write_as::<Lists>(key, limits)?;
    if !list.existed() {
        reply.null();
        return Ok(());
    }
    list.pop(end, 1, |element| reply.bulk(element))?;
    list.settle()?;
    let emptied = list.is_empty();
    list.commit()?;
    call.taken(Classes::LIST, popped(end), key, emptied);
    Ok(())
}

fn pop_many(call: &mut WriteCall<'_>, end: End, count: &[u8]) -> Outcome {
    let count = parse_i64(count).and_then(|count| usize::try_from(count).ok()).ok_or(CommandError::NotPositive)?;
    let existed = change(call)?.existed();
    if !existed {
        call.reply.null_array();
        return Ok(());
    }
    let (key, limits) = (call.key(1), limits(call.context.settings()));
    let emptied = take(&mut call.keys, &mut call.reply, (key, limits), (end, count))?;
    if count > 0 {
        call.taken(Classes::LIST, popped(end), key, emptied);
    }
    Ok(())
}

/// Takes at most `count` elements off a list that is there, and answers them. Whether none is left.
fn take(
    keys: &mut Writer<'_>,
    reply: &mut Reply<'_>,
    (key, limits): (Key<'_>, ListLimits),
    (end, count): (End, usize),
) -> Result<bool, Stop> {
    let mut list = keys.write_as::<Lists>(key, limits)?;
    reply.array(count.min(list.len()));
    list.pop(end, count, |element| reply.bulk(element))?;
    list.settle()?;
    let emptied = list.is_empty();
    list.commit()?;
    Ok(emptied)
}

pub(super) const LMPOP: Command = Command {
    spec: CommandSpec {
        name: "LMPOP",
        id: 836,
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        summary: "Returns multiple elements from a list after removing them. Deletes the list if the last element was popped.",
        args: &[
            Arg::key_count("numkeys"),
            Arg::key("key", Access::Take).multiple(),
            Arg::one_of("where", &[Arg::pure_token("left", "LEFT"), Arg::pure_token("right", "RIGHT")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        keys: Keys::Specs(&[KeySpec::counted(1, 1, Access::Take)]),
        traits: Traits { fast: false, ..CHANGE },
        ..LIST
    },
    run: Handler::Write(lmpop),
};

fn lmpop(call: &mut WriteCall<'_>) -> Outcome {
    let pops = Pops::parse(call, 1)?;
    if !pops.answer(call)? {
        call.reply.null_array();
    }
    Ok(())
}

/// The arguments of LMPOP, from the number of keys on.
pub(super) struct Pops {
    /// The index of the first key's argument.
    first: usize,
    keys: usize,
    end: End,
    count: usize,
}

impl Pops {
    /// Reads the arguments from `at` on.
    ///
    /// # Errors
    /// As Redis checks them: the number of keys, the end, the options.
    pub(super) fn parse(call: &WriteCall<'_>, at: usize) -> Result<Self, CommandError> {
        let positive = |text: &[u8]| parse_i64(text).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let keys = positive(call.args.at(at)).ok_or(CommandError::KeyCountNotPositive)?;
        let first = at + 1;
        let mut options = Options::after(call.args, first.checked_add(keys).ok_or(CommandError::Syntax)?);
        let end = end(options.value()?)?;
        let mut count = None;
        while let Some(option) = options.next() {
            if !option.is("COUNT") || count.is_some() || options.remaining() == 0 {
                return Err(CommandError::Syntax);
            }
            count = Some(positive(options.value()?).ok_or(CommandError::CountNotPositive)?);
        }
        Ok(Self { first, keys, end, count: count.unwrap_or(1) })
    }

    /// The places of the keys.
    pub(super) fn keys(&self) -> Range<usize> {
        self.first..self.first + self.keys
    }

    /// Takes elements off the first key that is a list, and answers its name and them. False: none is.
    ///
    /// # Errors
    /// When a key before it is of another type.
    pub(super) fn answer(&self, call: &mut WriteCall<'_>) -> Result<bool, Stop> {
        let limits = limits(call.context.settings());
        for at in call.candidates(self.keys()) {
            let key = call.key(at);
            if call.keys.write_as::<Lists>(key, limits)?.existed() {
                call.reply.array(2);
                call.reply.bulk(call.args.at(at));
                let emptied = take(&mut call.keys, &mut call.reply, (key, limits), (self.end, self.count))?;
                call.taken(Classes::LIST, popped(self.end), key, emptied);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
