//! Sorted sets.

use almandine_datatypes::sorted_set::SortedSetLimits;
use almandine_keyspace::types::sorted_set::SortedSets;
use almandine_keyspace::{Key, Put, Writer};
use almandine_rdb::value::sorted_set::SortedSet;

use super::error::PutError;

/// Makes a sorted set the value of a key. The members past their time are left out; without any others the key goes.
pub(super) fn put(
    keys: &mut Writer<'_>,
    key: Key<'_>,
    set: &SortedSet<'_>,
    put: Put,
    limits: SortedSetLimits,
) -> Result<bool, PutError> {
    let now = keys.now_ms().max(0).unsigned_abs();
    let mut new = keys.new_value::<SortedSets>(limits);
    for member in set.members() {
        let member = member.map_err(|_| PutError::Malformed)?;
        if member.expiry_ms.is_none_or(|at_ms| at_ms > now) {
            new.set(&member.name, member.score)?;
            if member.expiry_ms.is_some() {
                new.set_due(&member.name, member.expiry_ms)?;
            }
        }
    }
    if new.is_empty() {
        keys.delete(key)?;
        return Ok(false);
    }
    keys.put_value::<SortedSets>(key, new, put)?;
    Ok(true)
}
