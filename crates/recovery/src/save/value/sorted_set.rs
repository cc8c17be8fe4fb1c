//! Sorted sets. Members that expire have a form of ours, which other servers refuse.

use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::{SortedSet, SortedSetEncoding};
use almandine_rdb::value::sorted_set::{SortedSetForm, SortedSetThresholds};
use almandine_rdb::value::{self, footer};

pub(super) fn write(set: &SortedSet<'_>, out: &mut Vec<u8>) -> Result<u16, Refusal> {
    if set.next_due().is_some() {
        let members: Vec<_> = set.iter().collect::<Result<_, _>>()?;
        value::sorted_set::write_expiring(members.iter().map(|entry| (entry.member, entry.score, entry.due)), out);
        return Ok(footer::VERSION_REDIS_7_0);
    }
    let members = set.iter().map(|entry| entry.map(|entry| (entry.member, entry.score)));
    let members: Vec<(&[u8], f64)> = members.collect::<Result<_, _>>()?;
    // What OBJECT ENCODING names decides, as in Redis.
    let size = if set.encoding() == SortedSetEncoding::SkipList { 0 } else { usize::MAX };
    let thresholds = SortedSetThresholds { entries_max: size, value_bytes_max: size };
    let form = SortedSetForm::choose(members.iter().copied(), thresholds);
    Ok(value::sorted_set::write(form, members.iter().copied(), out).version())
}
