//! The operation log as the rings have it.

use std::collections::BTreeMap;

use almandine_oplog::{RingId, RingOptions, RingSource, UnitHead, UnitSource, entry::entries, epoch_of};

/// One unit of work.
pub(crate) struct Unit {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Small rings, in which the larger units have no room.
pub(crate) fn options() -> RingOptions {
    RingOptions { directory: None, bytes: 64 << 10, log: 1, run: 1, boot: 1, first_epoch: 1 }
}

/// The units of a closed cut behind all that has been done, in one order: INV-ORDER-1.
pub(crate) fn cut(source: &mut RingSource) -> Vec<Unit> {
    source.raise_epoch();
    let through = source.closed_epoch();
    let mut units: Vec<(u64, RingId, Vec<u8>)> = Vec::new();
    source.units(through, &mut |ring: RingId, mut bytes: &[u8]| {
        let mut last = 0;
        while let Some((head, unit, rest)) = UnitHead::split(bytes) {
            assert!(head.number > last && epoch_of(head.number) <= through, "numbers ascend in a ring, and are of the cut");
            assert_eq!(entries(unit).count(), head.entries as usize);
            units.push((head.number, ring, unit.to_vec()));
            (last, bytes) = (head.number, rest);
        }
        assert!(bytes.is_empty());
    });
    source.release(through);
    units.sort_by_key(|&(number, ring, _)| (number, ring));
    let mut last: BTreeMap<(u64, Vec<u8>), u64> = BTreeMap::new();
    for (number, ring, unit) in &units {
        for entry in entries(unit) {
            let entry = entry.expect("an entry");
            let unit = *number << 8 | u64::from(ring.0);
            let before = last.insert((entry.contents, entry.key.to_vec()), unit);
            assert!(
                entry.key.is_empty() || before.is_none_or(|before| before == unit || before >> 8 < *number),
                "two units on {} have one number",
                String::from_utf8_lossy(entry.key)
            );
        }
    }
    units.into_iter().map(|(number, _, bytes)| Unit { number, bytes }).collect()
}
