//! Payloads of sorted sets. Members that expire have a form of ours, which other servers refuse.

use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::{self, SortedSetEncoding};
use almandine_rdb::value::sorted_set::{SortedSetForm, SortedSetThresholds};
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
