//! Lists.

use almandine_datatypes::list::ListLimits;
use almandine_keyspace::types::list::Lists;
use almandine_keyspace::{Key, Put, Writer};
use almandine_rdb::value::list::List;

use super::error::PutError;

/// Makes a list the value of a key.
pub(super) fn put(keys: &mut Writer<'_>, key: Key<'_>, list: &List<'_>, put: Put, limits: ListLimits) -> Result<(), PutError> {
    let mut new = keys.new_value::<Lists>(limits);
    for element in list.elements() {
        new.push(&element.map_err(|_| PutError::Malformed)?)?;
    }
    Ok(keys.put_value::<Lists>(key, new, put)?)
}
