//! What the commands of the family have in common: the first key as a list, to be read or to be changed; ends and indexes as
//! arguments.

use almandine_command_spec::{CommandSpec, Group};
use almandine_config::Settings;
use almandine_handler::{CommandError, Stop, Word, WriteCall};
use almandine_keyspace::types::list::{End, ListLimits, ListMut, Lists};
use almandine_recovery::put::ValueLimits;

/// What most specs of the family have in common.
pub(super) const LIST: CommandSpec = CommandSpec { since: "1.0.0", group: Group::List, ..CommandSpec::BLANK };

/// How large a node of a list may be: `list-max-listpack-size`.
#[must_use]
pub(crate) fn limits(settings: &Settings) -> ListLimits {
    ValueLimits::of(settings).list
}

/// The first key as a list to be changed.
pub(super) fn change<'s>(call: &'s mut WriteCall<'_>) -> Result<ListMut<'s>, Stop> {
    let key = call.key(1);
    let limits = limits(call.context.settings());
    Ok(call.keys.write_as::<Lists>(key, limits)?)
}

/// The event of elements that are put to an end.
pub(super) fn pushed(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// The event of elements that are taken from an end.
pub(super) fn popped(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// LEFT or RIGHT.
pub(super) fn end(argument: &[u8]) -> Result<End, CommandError> {
    match Word(argument) {
        word if word.is("LEFT") => Ok(End::Left),
        word if word.is("RIGHT") => Ok(End::Right),
        _ => Err(CommandError::Syntax),
    }
}

/// The place that an index means, which counts from the end if it is negative. None: there is no such element.
pub(super) fn place(index: i64, len: usize) -> Option<usize> {
    let place = if index < 0 { (len as i64).checked_add(index)? } else { index };
    usize::try_from(place).ok().filter(|place| *place < len)
}

/// The places from one index to another, both included. Empty if there are none.
pub(super) fn range(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let from_start = |index: i64| if index < 0 { (len as i64).saturating_add(index) } else { index };
    let start = usize::try_from(from_start(start)).unwrap_or(0);
    let end = usize::try_from(from_start(stop).saturating_add(1)).unwrap_or(0).min(len);
    if start < end { start..end } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_count_from_either_end() {
        assert_eq!(
            [place(0, 3), place(2, 3), place(3, 3), place(-1, 3), place(-3, 3), place(-4, 3)],
            [Some(0), Some(2), None, Some(2), Some(0), None]
        );
        assert_eq!([place(i64::MIN, 3), place(i64::MAX, 3), place(0, 0)], [None; 3]);
    }

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        assert_eq!([range(0, -1, 5), range(1, 2, 5), range(-2, -1, 5), range(-9, 9, 5)], [0..5, 1..3, 3..5, 0..5]);
        assert_eq!([range(3, 2, 5), range(5, 9, 5), range(0, -6, 5), range(0, -1, 0)], [0..0, 0..0, 0..0, 0..0]);
        assert_eq!([range(i64::MIN, i64::MAX, 5), range(i64::MAX, i64::MIN, 5)], [0..5, 0..0]);
    }
}
