//! Elements that are looked for: LPOS, and LINSERT and LREM, which change what they find.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, Word, WriteCall, errors, number};
use almandine_keyspace::types::list::{End, Lists};

use super::access::{LIST, change};
use crate::look::look_at_all;
use crate::traits::{CHANGE, SLOW_READ, SLOW_WRITE};

pub(super) const LINSERT: Command = Command {
    spec: CommandSpec {
        name: "LINSERT",
        id: 831,
        since: "2.2.0",
        complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that \
                     inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on \
                     the right end (tail) is O(N).",
        summary: "Inserts an element before or after another element in a list.",
        args: &[
            Arg::key("key", Access::Insert),
            Arg::one_of("where", &[Arg::pure_token("before", "BEFORE"), Arg::pure_token("after", "AFTER")]),
            Arg::value("pivot"),
            Arg::value("element"),
        ],
        traits: SLOW_WRITE,
        ..LIST
    },
    run: Handler::Write(linsert),
};

fn linsert(call: &mut WriteCall<'_>) -> Outcome {
    let behind = match Word(call.args.at(2)) {
        word if word.is("BEFORE") => 0,
        word if word.is("AFTER") => 1,
        _ => return Err(CommandError::Syntax.into()),
    };
    let (pivot, element) = (call.args.at(3), call.args.at(4));
    let mut list = change(call)?;
    let reply = match list.look().position(pivot)? {
        _ if !list.existed() => 0,
        None => -1,
        Some(place) => {
            list.reserve(element.len(), 1)?;
            list.insert(place + behind, element)?;
            list.len() as i64
        }
    };
    list.commit()?;
    if reply > 0 {
        let key = call.key(1);
        call.event(Classes::LIST, "linsert", key);
    }
    call.reply.integer(reply);
    Ok(())
}

pub(super) const LREM: Command = Command {
    spec: CommandSpec {
        name: "LREM",
        id: 832,
        complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
        summary: "Removes elements from a list. Deletes the list if the last element was removed.",
        args: &[Arg::key("key", Access::Delete), Arg::integer("count"), Arg::value("element")],
        traits: Traits { fast: false, ..CHANGE },
        ..LIST
    },
    run: Handler::Write(lrem),
};

fn lrem(call: &mut WriteCall<'_>) -> Outcome {
    let (count, element) = (number::integer(call.args.at(2))?, call.args.at(3));
    let end = if count < 0 { End::Right } else { End::Left };
    let limit = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let mut list = change(call)?;
    let removed = list.remove(end, element, limit)?;
    list.settle()?;
    let emptied = list.is_empty();
    list.commit()?;
    if removed > 0 {
        let key = call.key(1);
        call.taken(Classes::LIST, "lrem", key, emptied);
    }
    call.reply.unsigned(removed as u64);
    Ok(())
}

pub(super) const LPOS: Command = Command {
    spec: CommandSpec {
        name: "LPOS",
        id: 833,
        since: "6.0.6",
        complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near \
                     the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant \
                     time.",
        summary: "Returns the index of matching elements in a list.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::value("element"),
            Arg::integer("rank").token("RANK").optional(),
            Arg::integer("num-matches").token("COUNT").optional(),
            Arg::integer("len").token("MAXLEN").optional(),
        ],
        traits: SLOW_READ,
        ..LIST
    },
    run: Handler::Read(lpos),
};

/// The options of LPOS.
struct Search {
    end: End,
    /// Matches that are passed over.
    skipped: u64,
    /// None: one is answered, as a number.
    count: Option<usize>,
    /// Elements that are looked at.
    limit: usize,
}

impl Search {
    fn parse(mut options: Options<'_>) -> Result<Self, CommandError> {
        let mut search = Self { end: End::Left, skipped: 0, count: None, limit: usize::MAX };
        // Of none, all are meant.
        let number = |text: &[u8], error: CommandError| {
            let number = parse_i64(text).and_then(|number| usize::try_from(number).ok());
            number.map(|number| if number == 0 { usize::MAX } else { number }).ok_or(error)
        };
        while let Some(option) = options.next() {
            if option.is("RANK") && options.remaining() > 0 {
                let rank = number::integer(options.value()?)?;
                if rank == i64::MIN {
                    return Err(errors::list::RANK_TOO_LOW);
                }
                search.end = if rank < 0 { End::Right } else { End::Left };
                search.skipped = rank.unsigned_abs().checked_sub(1).ok_or(errors::list::RANK_ZERO)?;
            } else if option.is("COUNT") && options.remaining() > 0 {
                search.count = Some(number(options.value()?, errors::list::COUNT_NEGATIVE)?);
            } else if option.is("MAXLEN") && options.remaining() > 0 {
                search.limit = number(options.value()?, errors::list::MAX_LEN_NEGATIVE)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }
}

fn lpos(call: &mut ReadCall<'_>) -> Outcome {
    let (element, search) = (call.args.at(2), Search::parse(Options::after(call.args, 3))?);
    let found = look_at_all::<Lists, _>(call, 1, |list, reply| {
        let array = search.count.map(|_| reply.begin());
        let (mut skipped, mut found) = (search.skipped, 0);
        list.find(search.end, element, search.limit, &mut |place| {
            if skipped > 0 {
                skipped -= 1;
                return true;
            }
            reply.unsigned(place as u64);
            found += 1;
            found < search.count.unwrap_or(1)
        })?;
        match array {
            Some(array) => array.end_array(reply, found),
            None if found == 0 => reply.null(),
            None => {}
        }
        Ok(())
    })?;
    match (found, search.count) {
        (Some(()), _) => {}
        (None, Some(_)) => call.reply.array(0),
        (None, None) => call.reply.null(),
    }
    Ok(())
}
