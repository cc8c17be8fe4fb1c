//! A value of a snapshot file or of a `DUMP` payload becomes that of a key. A file for each type of collections.

mod error;
mod hash;
mod list;
mod set;
mod sorted_set;

use almandine_config::Settings;
use almandine_datatypes::list::ListLimits;
use almandine_datatypes::set::SetLimits;
use almandine_datatypes::sorted_set::SortedSetLimits;
use almandine_keyspace::types::hash::HashLimits;
use almandine_keyspace::types::stream::Streams;
use almandine_keyspace::{Key, Put, Writer};
use almandine_rdb::value::AnyValue;

pub use error::PutError;

/// Sizes up to which collections are packed.
#[derive(Clone, Copy, Debug)]
pub struct ValueLimits {
    /// Of hashes.
    pub hash: HashLimits,
    /// Of the nodes of lists.
    pub list: ListLimits,
    /// Of sets.
    pub set: SetLimits,
    /// Of sorted sets.
    pub sorted_set: SortedSetLimits,
}

impl ValueLimits {
    /// Those that the settings state.
    #[inline]
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let values = &settings.values;
        Self {
            hash: HashLimits { entries: size(values.hash_entries_max), value: size(values.hash_value_bytes_max) },
            list: ListLimits::new(values.list_node_size),
            set: SetLimits {
                integers: size(values.set_integers_max),
                entries: size(values.set_entries_max),
                value: size(values.set_value_bytes_max),
            },
            sorted_set: SortedSetLimits { entries: size(values.zset_entries_max), value: size(values.zset_value_bytes_max) },
        }
    }
}

/// Makes a value that of a key, whatever it had. Elements past their time are left out; without any others the key goes, and the
/// result is false.
///
/// # Errors
/// When the value is malformed, or the store is full or has what the key had not at hand; then nothing has changed.
pub fn put(keys: &mut Writer<'_>, key: Key<'_>, value: AnyValue<'_>, put: Put, limits: &ValueLimits) -> Result<bool, PutError> {
    match value {
        AnyValue::String(value) => keys.upsert_owned(key, value, put)?,
        AnyValue::Hash(hash) => return hash::put(keys, key, &hash, put, limits.hash),
        AnyValue::List(list) => list::put(keys, key, &list, put, limits.list)?,
        AnyValue::Set(set) => set::put(keys, key, &set, put, limits.set)?,
        AnyValue::SortedSet(set) => return sorted_set::put(keys, key, &set, put, limits.sorted_set),
        AnyValue::Stream(stream) => {
            let mut new = keys.new_value::<Streams>(());
            new.take(*stream);
            keys.put_value(key, new, put)?;
        }
    }
    Ok(true)
}
