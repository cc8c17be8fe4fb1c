//! What the commands of the family have in common: the first key as a hash, to be read or to be changed.

use almandine_command_spec::{CommandSpec, Group};
use almandine_config::Settings;
use almandine_datatypes::packed::FieldEntry;
use almandine_handler::{Stop, WriteCall};
use almandine_keyspace::types::hash::{HashLimits, HashMut, Hashes};
use almandine_recovery::put::ValueLimits;
use almandine_resp::Reply;

/// What most specs of the family have in common.
pub(super) const HASH: CommandSpec = CommandSpec { since: "2.0.0", group: Group::Hash, ..CommandSpec::BLANK };

/// Answers the value of a field, or null.
pub(super) fn reply_value(reply: &mut Reply<'_>, entry: Option<FieldEntry<'_>>) {
    match entry {
        Some(entry) => reply.bulk(entry.value),
        None => reply.null(),
    }
}

/// How large a hash may be that OBJECT ENCODING names a listpack.
#[must_use]
pub(crate) fn limits(settings: &Settings) -> HashLimits {
    ValueLimits::of(settings).hash
}

/// The first key as a hash to be changed.
pub(super) fn change<'s>(call: &'s mut WriteCall<'_>) -> Result<HashMut<'s>, Stop> {
    let key = call.key(1);
    let limits = limits(call.context.settings());
    Ok(call.keys.write_as::<Hashes>(key, limits)?)
}
