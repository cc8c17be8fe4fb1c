//! Payloads of sorted sets. No form has a place for the expiry of a member, so that a member which has one loses it.

use almandine_call::CommandError;
use almandine_config::Settings;
use almandine_datatypes::rdb::sorted_set::{Form, SortedSet, Thresholds};
use almandine_datatypes::rdb::{self, footer};
use almandine_keyspace::types::sorted_set::{self, SortedSetEncoding};
use almandine_keyspace::{Key, Put, Refusal, Writer};

/// The payload of a sorted set.
pub(super) fn payload(set: &sorted_set::SortedSet<'_>) -> Result<Vec<u8>, Refusal> {
    let members = set.iter().map(|entry| entry.map(|entry| (entry.member, entry.score)));
    let members: Vec<(&[u8], f64)> = members.collect::<Result<_, _>>()?;
    // What OBJECT ENCODING names decides, as in Redis.
    let size = if set.encoding() == SortedSetEncoding::SkipList { 0 } else { usize::MAX };
    let thresholds = Thresholds { entries_max: size, value_bytes_max: size };
    let form = Form::choose(members.iter().copied(), thresholds);
    let mut payload = Vec::new();
    let form = rdb::sorted_set::write(form, members.iter().copied(), &mut payload);
    footer::seal(&mut payload, form.version());
    Ok(payload)
}

/// Makes a sorted set the value of a key.
pub(super) fn put(
    keys: &mut Writer<'_>,
    key: Key<'_>,
    set: &SortedSet<'_>,
    put: Put,
    settings: &Settings,
) -> Result<(), CommandError> {
    let mut new = keys.new_sorted_set(crate::sorted_set::limits(settings));
    for member in set.members() {
        let member = member.map_err(|_| CommandError::DumpMalformed)?;
        new.set(&member.name, member.score)?;
    }
    Ok(keys.put_sorted_set(key, new, put)?)
}
