//! Payloads of sorted sets. Members that expire have a form of ours, which other servers refuse.

use almandine_config::Settings;
use almandine_handler::{Stop, errors};
use almandine_keyspace::types::sorted_set::{self, SortedSetEncoding, SortedSets};
use almandine_keyspace::{Key, Put, Refusal, Writer};
use almandine_rdb::value::sorted_set::{SortedSet, SortedSetForm, SortedSetThresholds};
use almandine_rdb::value::{self, footer};

/// The payload of a sorted set.
pub(super) fn payload(set: &sorted_set::SortedSet<'_>) -> Result<Vec<u8>, Refusal> {
    let mut payload = Vec::new();
    if set.next_due().is_some() {
        let members: Vec<_> = set.iter().collect::<Result<_, _>>()?;
        value::sorted_set::write_expiring(members.iter().map(|entry| (entry.member, entry.score, entry.due)), &mut payload);
        footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
        return Ok(payload);
    }
    let members = set.iter().map(|entry| entry.map(|entry| (entry.member, entry.score)));
    let members: Vec<(&[u8], f64)> = members.collect::<Result<_, _>>()?;
    // What OBJECT ENCODING names decides, as in Redis.
    let size = if set.encoding() == SortedSetEncoding::SkipList { 0 } else { usize::MAX };
    let thresholds = SortedSetThresholds { entries_max: size, value_bytes_max: size };
    let form = SortedSetForm::choose(members.iter().copied(), thresholds);
    let form = value::sorted_set::write(form, members.iter().copied(), &mut payload);
    footer::seal(&mut payload, form.version());
    Ok(payload)
}

/// Makes a sorted set the value of a key. The members past their time are left out; without any others the key goes.
pub(super) fn put(keys: &mut Writer<'_>, key: Key<'_>, set: &SortedSet<'_>, put: Put, settings: &Settings) -> Result<(), Stop> {
    let now = keys.now_ms().max(0).unsigned_abs();
    let mut new = keys.new_value::<SortedSets>(crate::sorted_set::limits(settings));
    for member in set.members() {
        let member = member.map_err(|_| errors::generic::DUMP_MALFORMED)?;
        if member.expiry_ms.is_none_or(|at_ms| at_ms > now) {
            new.set(&member.name, member.score)?;
            if member.expiry_ms.is_some() {
                new.set_due(&member.name, member.expiry_ms)?;
            }
        }
    }
    if new.is_empty() {
        keys.delete(key)?;
        return Ok(());
    }
    Ok(keys.put_value::<SortedSets>(key, new, put)?)
}
