//! Elements on their way to another list: LMOVE, RPOPLPUSH and LMOVEM.
//!
//! They are put to their destination before they are taken from their source, so that a full store loses nothing.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall};
use almandine_keyspace::Writer;
use almandine_keyspace::types::list::{End, ListLimits, Lists};
use almandine_keyspace::{Key, Refusal};

use super::access::{LIST, end, limits, popped, pushed};
use crate::traits::SLOW_WRITE;

pub(super) const SOURCE: Arg = Arg::key("source", Access::Take);
pub(super) const DESTINATION: Arg = Arg::key("destination", Access::Insert);
const ENDS: &[Arg] = &[Arg::pure_token("left", "LEFT"), Arg::pure_token("right", "RIGHT")];
pub(super) const FROM: Arg = Arg::one_of("wherefrom", ENDS);
pub(super) const TO: Arg = Arg::one_of("whereto", ENDS);

pub(super) const LMOVE: Command = Command {
    spec: CommandSpec {
        name: "LMOVE",
        id: 834,
        since: "6.2.0",
        summary: "Returns an element after popping it from one list and pushing it to another. Deletes the list if the last \
                  element was moved.",
        args: &[SOURCE, DESTINATION, FROM, TO],
        traits: SLOW_WRITE,
        ..LIST
    },
    run: Handler::Write(|call| {
        let ends = Ends { from: end(call.args.at(3))?, to: end(call.args.at(4))? };
        move_one(call, ends)
    }),
};

pub(super) const RPOPLPUSH: Command = Command {
    spec: CommandSpec {
        name: "RPOPLPUSH",
        id: 835,
        since: "1.2.0",
        summary: "Returns the last element of a list after removing and pushing it to another list. Deletes the list if the \
                  last element was popped.",
        args: &[SOURCE, DESTINATION],
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`LMOVE` with the `RIGHT` and `LEFT` arguments" }),
        ..LMOVE.spec
    },
    run: Handler::Write(|call| move_one(call, Ends { from: End::Right, to: End::Left })),
};

/// How many elements, and how.
pub(super) const HOW_MANY: Arg = Arg::block(
    "how-many",
    &[
        Arg::one_of("selector", &[Arg::integer("count").token("COUNT"), Arg::integer("exactly").token("EXACTLY")]),
        Arg::one_of("ordering", &[Arg::pure_token("obo", "OBO"), Arg::pure_token("bulk", "BULK")]),
    ],
)
.optional();

/// Moves one element and answers it, or null.
fn move_one(call: &mut WriteCall<'_>, ends: Ends) -> Outcome {
    match transfer(call, ends, &HowMany::ONE)? {
        Some(moved) => moved.iter().for_each(|element| call.reply.bulk(element)),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) const LMOVEM: Command = Command {
    spec: CommandSpec {
        name: "LMOVEM",
        id: 837,
        since: "8.10.0",
        complexity: "O(N) where N is the number of elements moved.",
        summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Deletes the source \
                  list if it becomes empty.",
        args: &[SOURCE, DESTINATION, FROM, TO, HOW_MANY],
        ..LMOVE.spec
    },
    run: Handler::Write(lmovem),
};

fn lmovem(call: &mut WriteCall<'_>) -> Outcome {
    let ends = Ends { from: end(call.args.at(3))?, to: end(call.args.at(4))? };
    let how_many = HowMany::parse(Options::after(call.args, 5))?;
    match transfer(call, ends, &how_many)? {
        None => call.reply.null_array(),
        Some(moved) => {
            call.reply.array(moved.len());
            moved.iter().for_each(|element| call.reply.bulk(element));
        }
    }
    Ok(())
}

/// From which end to which.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// Of the source.
    pub(super) from: End,
    /// Of the destination.
    pub(super) to: End,
}

/// How many elements are moved, and how.
pub(super) struct HowMany {
    count: usize,
    /// All of them, or none.
    exactly: bool,
    /// In their order, not one after the other.
    in_bulk: bool,
}

impl HowMany {
    /// One element.
    pub(super) const ONE: Self = Self { count: 1, exactly: false, in_bulk: false };

    /// Reads `COUNT count | EXACTLY count` and `OBO | BULK`, if there is anything.
    ///
    /// # Errors
    /// When it is malformed.
    pub(super) fn parse(mut options: Options<'_>) -> Result<Self, CommandError> {
        let Some(selector) = options.next() else { return Ok(Self::ONE) };
        let exactly = match selector {
            word if word.is("COUNT") => false,
            word if word.is("EXACTLY") => true,
            _ => return Err(CommandError::Syntax),
        };
        let count = options.value()?;
        let in_bulk = match options.next() {
            Some(word) if word.is("OBO") => false,
            Some(word) if word.is("BULK") => true,
            _ => return Err(CommandError::Syntax),
        };
        if options.remaining() > 0 {
            return Err(CommandError::Syntax);
        }
        let count = parse_i64(count).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        Ok(Self { count: count.ok_or(CommandError::CountNotPositive)?, exactly, in_bulk })
    }

    /// Whether elements that were popped in this order come to lie in the opposite one.
    fn reverses(&self, ends: Ends) -> bool {
        if self.in_bulk { ends.from == End::Right } else { ends.to == End::Left }
    }
}

/// Moves elements between the lists at the two first keys. Gives them as they lie in the destination. None: there are none, or
/// too few.
///
/// # Errors
/// When a key is of another type, or the store is full; then nothing has changed.
pub(super) fn transfer(call: &mut WriteCall<'_>, ends: Ends, how_many: &HowMany) -> Result<Option<Vec<Vec<u8>>>, Stop> {
    let limits = limits(call.context.settings());
    let (source, destination) = (call.key(1), call.key(2));
    let is_rotation = call.args.at(1) == call.args.at(2);
    let keys = &mut call.keys;
    let mut list = keys.write_as::<Lists>(source, limits)?;
    let len = list.len();
    if !list.existed() {
        return Ok(None);
    }
    let count = how_many.count.min(len);
    if how_many.exactly && count < how_many.count {
        return Ok(None);
    }
    let from = if ends.from == End::Left { 0 } else { len - count };
    let elements = list.look().try_iter_from(from).take(count).map(|element| element.map(|element| element.to_vec()));
    let mut moved = elements.collect::<Result<Vec<_>, _>>()?;
    if ends.from == End::Right {
        moved.reverse();
    }
    if how_many.reverses(ends) {
        moved.reverse();
    }
    if is_rotation {
        list.pop(ends.from, count, |_| ())?;
        push_all(&mut list, ends.to, &moved)?;
        list.commit()?;
        keys.count_changes(-(count as i64));
        call.event(Classes::LIST, pushed(ends.to), destination);
        call.event(Classes::LIST, popped(ends.from), source);
        return Ok(Some(moved));
    }
    drop(list);
    put(keys, (destination, limits), ends.to, &moved)?;
    if let Err(refusal) = take(keys, (source, limits), ends.from, count) {
        // They have just been put there, so this finds room.
        take(keys, (destination, limits), ends.to, count)?;
        return Err(refusal.into());
    }
    // Together it is one change of each element.
    keys.count_changes(-(count as i64));
    call.event(Classes::LIST, pushed(ends.to), destination);
    call.taken(Classes::LIST, popped(ends.from), source, count == len);
    Ok(Some(moved))
}

fn put(keys: &mut Writer<'_>, (key, limits): (Key<'_>, ListLimits), end: End, moved: &[Vec<u8>]) -> Result<(), Refusal> {
    let mut list = keys.write_as::<Lists>(key, limits)?;
    list.reserve(moved.iter().map(Vec::len).sum(), moved.len())?;
    push_all(&mut list, end, moved)?;
    list.commit()
}

/// Puts elements to an end, so that they lie in this order.
fn push_all(list: &mut almandine_keyspace::types::list::ListMut<'_>, end: End, moved: &[Vec<u8>]) -> Result<(), Refusal> {
    match end {
        End::Left => moved.iter().rev().try_for_each(|element| list.push(end, element)),
        End::Right => moved.iter().try_for_each(|element| list.push(end, element)),
    }
}

fn take(keys: &mut Writer<'_>, (key, limits): (Key<'_>, ListLimits), end: End, count: usize) -> Result<(), Refusal> {
    let mut list = keys.write_as::<Lists>(key, limits)?;
    list.pop(end, count, |_| ())?;
    list.settle()?;
    list.commit()
}
