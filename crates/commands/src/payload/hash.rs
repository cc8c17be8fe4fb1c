//! Payloads of hashes.

use almandine_datatypes::packed::HashEncoding;
use almandine_keyspace::Refusal;
use almandine_keyspace::types::hash;
use almandine_rdb::value::hash::{Dialect, HashEntry, HashForm, HashThresholds};
use almandine_rdb::value::{self, footer};

/// The payload of a hash.
pub(super) fn payload(hash: &hash::Hash<'_>) -> Result<Vec<u8>, Refusal> {
    let fields = hash.try_iter().map(|entry| entry.map(|entry| (entry.field, entry.value, entry.due.map(u64::cast_signed))));
    let fields: Vec<HashEntry<'_>> = fields.collect::<Result<_, _>>()?;
    // What OBJECT ENCODING names decides, as in Redis.
    let size = if hash.encoding() == HashEncoding::HashTable { 0 } else { usize::MAX };
    let thresholds = HashThresholds { entries_max: size, value_bytes_max: size };
    let form = HashForm::choose(fields.iter().copied(), thresholds, Dialect::Redis);
    let mut payload = Vec::new();
    let form = value::hash::write(form, fields.iter().copied(), &mut payload);
    footer::seal(&mut payload, form.version());
    Ok(payload)
}
