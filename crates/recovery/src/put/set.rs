//! Sets.

use almandine_datatypes::set::SetLimits;
use almandine_keyspace::{Key, Put, Writer};
use almandine_rdb::value::set::Set;

use super::error::PutError;

/// Makes a set the value of a key.
pub(super) fn put(keys: &mut Writer<'_>, key: Key<'_>, set: &Set<'_>, put: Put, limits: SetLimits) -> Result<(), PutError> {
    let mut new = keys.new_set(limits);
    for member in set.members() {
        new.add(&member.map_err(|_| PutError::Malformed)?)?;
    }
    Ok(keys.put_set(key, new, put)?)
}
