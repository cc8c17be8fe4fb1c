//! Hashes.

use almandine_datatypes::packed::entry::DUE_MAX;
use almandine_keyspace::types::hash::{HashLimits, Hashes};
use almandine_keyspace::{Key, Put, Writer};
use almandine_rdb::value::hash::Hash;

use super::error::PutError;

/// Makes a hash the value of a key. The fields past their time are left out; without any others the key goes.
pub(super) fn put(keys: &mut Writer<'_>, key: Key<'_>, hash: &Hash<'_>, put: Put, limits: HashLimits) -> Result<bool, PutError> {
    let now_ms = keys.now_ms();
    let mut new = keys.new_value::<Hashes>(limits);
    for field in hash.fields() {
        let field = field.map_err(|_| PutError::Malformed)?;
        if field.expiry_ms.is_none_or(|at_ms| at_ms > now_ms) {
            let due = field.expiry_ms.map(|at_ms| at_ms.cast_unsigned().min(DUE_MAX));
            new.set(&field.name, &field.value, due)?;
        }
    }
    if new.is_empty() {
        keys.delete(key)?;
        return Ok(false);
    }
    keys.put_value::<Hashes>(key, new, put)?;
    Ok(true)
}
