//! The HyperLogLog family: strings that estimate how many different elements were added. PFCOUNT is in [`count`], PFMERGE in
//! [`merge`], PFDEBUG and PFSELFTEST in [`debug`].

mod count;
mod debug;
mod merge;
mod scratch;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group};
use almandine_datatypes::hyperloglog::sparse::SparseEdit;
use almandine_datatypes::hyperloglog::{self, EMPTY, HEADER_BYTES, Hll, Observation, dense, sparse};
use almandine_handler::{Command, CommandError, Context, Handler, Outcome, Stop, WriteCall, errors};
use almandine_keyspace::{Kind, Occupied, Put, Slot, Vacant};
use almandine_resp::Args;
use std::ops::Range;

use crate::traits::ONE_VERB;
use crate::value::is_string;

/// The family.
pub const COMMANDS: &[&Command] = &[&PFADD, &count::PFCOUNT, &merge::PFMERGE, &debug::PFDEBUG, &debug::PFSELFTEST];

/// Longest string that OBJECT ENCODING may say to be `embstr`, or an integer.
const EMBEDDED_BYTES_MAX: usize = 44;

const PFADD: Command = Command {
    spec: CommandSpec {
        name: "PFADD",
        id: 560,
        since: "2.8.9",
        complexity: "O(1) to add every element.",
        summary: "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
        group: Group::HyperLogLog,
        args: &[Arg::key("key", Access::Insert), Arg::value("element").optional().multiple()],
        traits: ONE_VERB,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(pfadd),
};

fn pfadd(call: &mut WriteCall<'_>) -> Outcome {
    let (key, elements, bytes_max) = (call.key(1), call.args.slice_from(2), sparse_bytes_max(call.context));
    let changes = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => create(vacant, elements, bytes_max)?,
        Slot::Occupied(mut occupied) => match open(&occupied)? {
            Hll::Dense(_) => add_dense(&mut occupied, elements)?,
            Hll::Sparse(_) if elements.len() == 1 => edit_sparse(&mut occupied, elements, bytes_max)?,
            Hll::Sparse(opcodes) => match first_raised(opcodes, elements)? {
                Some(first) => add_sparse(&mut occupied, elements.slice_from(first), bytes_max)?,
                None => {
                    make_raw(&mut occupied)?;
                    0
                }
            },
        },
    };
    if changes > 1 {
        call.keys.count_changes(changes - 1);
    }
    if changes != 0 {
        call.event(Classes::STRING, "pfadd", key);
    }
    call.reply.integer((changes != 0).into());
    Ok(())
}

/// Makes the key; how many changes that counts as.
fn create(vacant: Vacant<'_>, elements: Args<'_>, bytes_max: usize) -> Result<i64, CommandError> {
    scratch::with(|scratch| {
        let (value, mut changes) = (scratch.copy(&EMPTY), 1);
        for element in elements.iter() {
            changes += i64::from(hyperloglog::add(value, Observation::of(element), bytes_max)?.is_some());
        }
        hyperloglog::invalidate(value);
        vacant.insert(Kind::String, value, Put::EDITED)?;
        Ok(changes)
    })
}

/// Raises registers where they are; how many were less.
fn add_dense(occupied: &mut Occupied<'_>, elements: Args<'_>) -> Result<i64, Stop> {
    let mut changes = 0;
    for element in elements.iter() {
        let Observation { index, count } = Observation::of(element);
        let Some(Hll::Dense(registers)) = Hll::open(occupied.value()) else { return Err(errors::hyperloglog::NOT_ONE.into()) };
        let Some((at, bytes)) = dense::raise(registers, index, count) else { continue };
        let at = HEADER_BYTES + at;
        if changes == 0 {
            write_changed(occupied, at, &bytes)?;
        } else {
            // Connections that watch have been told.
            occupied.write_derived(at, &bytes)?;
        }
        changes += 1;
    }
    Ok(changes)
}

/// The number of the first element that raises a register.
fn first_raised(opcodes: &[u8], elements: Args<'_>) -> Result<Option<usize>, CommandError> {
    for (number, element) in elements.iter().enumerate() {
        if sparse::would_raise(opcodes, Observation::of(element))? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Raises a register where it is, without a copy of the value; how many were less.
fn edit_sparse(occupied: &mut Occupied<'_>, elements: Args<'_>, bytes_max: usize) -> Result<i64, Stop> {
    let edit = scratch::with(|scratch| {
        let (len, written) = (occupied.value().len(), scratch.empty());
        let edit = sparse::raised(occupied.value(), Observation::of(elements.at(0)), bytes_max, written)?;
        match edit {
            SparseEdit::Patch(at) => write_changed(occupied, at, written)?,
            SparseEdit::Tail(at) if at + written.len() > len => {
                let (cache, byte) = hyperloglog::invalidated(occupied.value());
                let parts = [(cache, &[byte][..]), (at, &written[..])];
                occupied.write_parts(at + written.len(), len, parts.into_iter())?;
            }
            SparseEdit::Tail(at) => {
                let mut value = [&occupied.value()[..at], &written[..]].concat();
                hyperloglog::invalidate(&mut value);
                occupied.replace(Kind::String, &value, Put { edited: true, ..occupied.put() })?;
            }
            SparseEdit::Unchanged | SparseEdit::TooLarge => {}
        }
        Ok::<_, Stop>(edit)
    })?;
    match edit {
        SparseEdit::Patch(_) | SparseEdit::Tail(_) => Ok(1),
        SparseEdit::Unchanged => make_raw(occupied).map(|()| 0),
        SparseEdit::TooLarge => add_sparse(occupied, elements, bytes_max),
    }
}

/// Raises registers in a copy and writes back what is another there; how many were less.
fn add_sparse(occupied: &mut Occupied<'_>, elements: Args<'_>, bytes_max: usize) -> Result<i64, Stop> {
    scratch::with(|scratch| {
        let before = occupied.value().len();
        let value = scratch.copy(occupied.value());
        let (mut changed, mut changes): (Option<Range<usize>>, _) = (None, 0);
        for element in elements.iter() {
            let Some(Range { start, end }) = hyperloglog::add(value, Observation::of(element), bytes_max)? else { continue };
            changes += 1;
            changed = Some(changed.map_or(start..end, |range| range.start.min(start)..range.end.max(end)));
        }
        let Range { start, end } = changed.unwrap_or_default();
        if start >= HEADER_BYTES && value.len() == before {
            write_changed(occupied, start, &value[start..end.min(before)])?;
            return Ok(changes);
        }
        hyperloglog::invalidate(value);
        if start < HEADER_BYTES || value.len() < before {
            occupied.replace(Kind::String, value, Put { edited: true, ..occupied.put() })?;
        } else {
            let (at, byte) = hyperloglog::invalidated(value);
            let parts = [(at, &[byte][..]), (start, &value[start..])];
            occupied.write_parts(value.len(), before, parts.into_iter())?;
        }
        Ok(changes)
    })
}

/// Overwrites bytes behind the header, which make the cached cardinality invalid.
fn write_changed(occupied: &mut Occupied<'_>, at: usize, bytes: &[u8]) -> Outcome {
    let value = occupied.value();
    let (cache, byte) = hyperloglog::invalidated(value);
    let len = value.len();
    Ok(occupied.write_parts(len, len, [(cache, &[byte][..]), (at, bytes)].into_iter())?)
}

/// What the string of a key holds.
fn open<'o>(occupied: &'o Occupied<'_>) -> Result<Hll<'o>, Stop> {
    is_string(occupied.kind())?;
    Hll::open(occupied.value()).ok_or(errors::hyperloglog::NOT_ONE.into())
}

/// As in Redis, a string that was looked at as a HyperLogLog is no embedded one any more.
fn make_raw(occupied: &mut Occupied<'_>) -> Outcome {
    if occupied.value().len() <= EMBEDDED_BYTES_MAX {
        occupied.mark_edited()?;
    }
    Ok(())
}

/// `hll-sparse-max-bytes`
fn sparse_bytes_max(context: &Context) -> usize {
    usize::try_from(context.settings().values.hll_sparse_bytes_max).unwrap_or(usize::MAX)
}
