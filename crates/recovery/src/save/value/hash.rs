//! Hashes.

use almandine_datatypes::packed::HashEncoding;
use almandine_keyspace::Refusal;
use almandine_keyspace::types::hash::Hash;
use almandine_rdb::value;
use almandine_rdb::value::hash::{HashEntry, HashForm, HashThresholds};

use super::Readers;

pub(super) fn write(hash: &Hash<'_>, readers: Readers, out: &mut Vec<u8>) -> Result<u16, Refusal> {
    let fields = hash.try_iter().map(|entry| entry.map(|entry| (entry.field, entry.value, entry.due.map(u64::cast_signed))));
    let fields: Vec<HashEntry<'_>> = fields.collect::<Result<_, _>>()?;
    // What OBJECT ENCODING names decides, as in Redis.
    let size = if hash.encoding() == HashEncoding::HashTable { 0 } else { usize::MAX };
    let thresholds = HashThresholds { entries_max: size, value_bytes_max: size };
    let form = HashForm::choose(fields.iter().copied(), thresholds, readers.dialect());
    Ok(value::hash::write(form, fields.iter().copied(), out).version())
}
