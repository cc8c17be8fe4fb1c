//! What the commands of the family have in common: the first key as a set, to be read or to be changed.

use std::ops::Range;

use almandine_command_spec::{CommandSpec, Group};
use almandine_config::Settings;
use almandine_handler::call::{KeyAccess, KeyCall};
use almandine_handler::{Stop, WriteCall};
use almandine_keyspace::types::Frozen;
use almandine_keyspace::types::set::{SetLimits, SetMut, Sets};
use almandine_recovery::put::ValueLimits;

/// What most specs of the family have in common.
pub(super) const SET: CommandSpec = CommandSpec { since: "1.0.0", group: Group::Set, ..CommandSpec::BLANK };

/// How large a set may be that OBJECT ENCODING names an intset or a listpack.
#[must_use]
pub(crate) fn limits(settings: &Settings) -> SetLimits {
    ValueLimits::of(settings).set
}

/// The first key as a set to be changed.
pub(super) fn change<'s>(call: &'s mut WriteCall<'_>) -> Result<SetMut<'s>, Stop> {
    let key = call.key(1);
    let limits = limits(call.context.settings());
    Ok(call.keys.write_as::<Sets>(key, limits)?)
}

/// The keys at some arguments as sets, all of one moment.
pub(super) fn freeze<'c, K: KeyAccess<'c>>(call: &mut KeyCall<'c, K>, at: Range<usize>) -> Result<Vec<Frozen>, Stop> {
    let mut sets = Vec::with_capacity(at.len());
    for position in at {
        let key = call.key(position);
        let frozen = call.keys.reader_mut().freeze(key)?;
        frozen.collection::<Sets>()?;
        sets.push(frozen);
    }
    Ok(sets)
}

/// Counts the look-ups of keys that were frozen, from an argument on.
pub(super) fn look_up<'c, K: KeyAccess<'c>>(call: &mut KeyCall<'c, K>, first: usize, sets: &[Frozen]) {
    for (position, set) in (first..).zip(sets) {
        let key = call.key(position);
        call.looked_up(key, matches!(set.collection::<Sets>(), Ok(Some(_))));
    }
}
