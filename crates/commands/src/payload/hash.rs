//! Payloads of hashes.

use almandine_config::Settings;
use almandine_datatypes::packed::HashEncoding;
use almandine_datatypes::packed::entry::DUE_MAX;
use almandine_handler::{Stop, errors};
use almandine_keyspace::types::hash;
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::{Key, Put, Refusal, Writer};
use almandine_rdb::value::hash::{Dialect, Hash, HashEntry, HashForm, HashThresholds};
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

/// Makes a hash the value of a key. The fields past their time are left out; without any others the key goes.
pub(super) fn put(keys: &mut Writer<'_>, key: Key<'_>, hash: &Hash<'_>, put: Put, settings: &Settings) -> Result<(), Stop> {
    let now_ms = keys.now_ms();
    let mut new = keys.new_value::<Hashes>(crate::hash::limits(settings));
    for field in hash.fields() {
        let field = field.map_err(|_| errors::generic::DUMP_MALFORMED)?;
        if field.expiry_ms.is_none_or(|at_ms| at_ms > now_ms) {
            let due = field.expiry_ms.map(|at_ms| at_ms.cast_unsigned().min(DUE_MAX));
            new.set(&field.name, &field.value, due)?;
        }
    }
    if new.is_empty() {
        keys.delete(key)?;
        return Ok(());
    }
    Ok(keys.put_value::<Hashes>(key, new, put)?)
}
