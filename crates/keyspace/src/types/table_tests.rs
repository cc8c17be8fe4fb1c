//! Tests of packed values that become objects because a longer key leaves them no room.

use super::collection::Collection;
use super::hash::Hashes;
use super::list::{End, Lists};
use super::set::Sets;
use super::sorted_set::SortedSets;
use super::testing::{batch, keyspace};
use crate::access::value::OwnedBytes;
use crate::{Accessor, Refusal};
use almandine_datatypes::packed::Due;
use almandine_store::{Kind, fits_inline};
use std::time::Duration;

const KINDS: [Kind; 4] = [Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List];
const DUE: u64 = 1 << 42;
const ELEMENTS: usize = 60;

/// Fills a key with elements of 245 bytes, but for the last one, which has `bytes`. The first one of those that can expire does so.
fn fill(accessor: &mut Accessor, kind: Kind, name: &[u8], bytes: usize) -> Result<(), Refusal> {
    let count = ELEMENTS;
    let element = |number: usize| {
        let bytes = if number + 1 == count { bytes } else { 245 };
        format!("{number:0bytes$}").into_bytes()
    };
    let due = |number: usize| if number == 0 { Due::At(DUE) } else { Due::Keep };
    let mut writer = accessor.writer(0);
    let key = writer.key(name);
    match kind {
        Kind::Hash => {
            let mut hash = writer.write_as::<Hashes>(key, Hashes::UNLIMITED)?;
            (0..count).try_for_each(|number| hash.set(&element(number), b"v", due(number)).map(drop))?;
            hash.commit()
        }
        Kind::Set => {
            let mut set = writer.write_as::<Sets>(key, Sets::UNLIMITED)?;
            (0..count).try_for_each(|number| set.add(&element(number)).map(drop))?;
            set.commit()
        }
        Kind::SortedSet => {
            let mut set = writer.write_as::<SortedSets>(key, SortedSets::UNLIMITED)?;
            (0..count).try_for_each(|number| set.set(&element(number), number as f64, due(number)).map(drop))?;
            set.commit()
        }
        _ => {
            let mut list = writer.write_as::<Lists>(key, Lists::UNLIMITED)?;
            (0..count).try_for_each(|number| list.push(End::Right, &element(number)))?;
            list.commit()
        }
    }
}

/// How many elements the frozen value of a key has, read as its type, and when the first one expires.
fn look(accessor: &mut Accessor, kind: Kind, name: &[u8]) -> (Option<usize>, Option<u64>) {
    batch(accessor, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(name);
        let frozen = reader.freeze(key)?;
        Ok(match kind {
            Kind::Hash => {
                let due = reader.read_as::<Hashes, _>(key, |hash| Ok(hash.next_due()))?.flatten();
                (frozen.collection::<Hashes>()?.map(|hash| hash.len()), due)
            }
            Kind::SortedSet => {
                let due = reader.read_as::<SortedSets, _>(key, |set| Ok(set.next_due()))?.flatten();
                (frozen.collection::<SortedSets>()?.map(|set| set.len()), due)
            }
            Kind::Set => (frozen.collection::<Sets>()?.map(|set| set.len()), None),
            _ => (frozen.collection::<Lists>()?.map(|list| list.len()), None),
        })
    })
}

/// COPY, and RENAME or MOVE, of values around the size that the record of a long key has no room for, in memory and back from a
/// device.
#[test]
fn a_packed_value_that_a_long_key_has_no_room_for_becomes_an_object() {
    let long = [b'k'; 500];
    for kind in KINDS {
        let keyspace = keyspace(true);
        let mut accessor = keyspace.accessor().unwrap();
        let mut unpacked = Vec::new();
        for bytes in (8..1400).step_by(8) {
            batch(&mut accessor, |accessor| fill(accessor, kind, b"short", bytes));
            let before = look(&mut accessor, kind, b"short");
            let kept = format!("{bytes:0500}").into_bytes();
            let mut is_unpacked = false;
            batch(&mut accessor, |accessor| {
                let mut writer = accessor.writer(0);
                writer.plan().hold([(0, &b"short"[..]), (0, &long[..]), (0, &long[1..]), (0, &kept[..])].into_iter())?;
                let value = writer.copy(0, b"short")?.ok_or(Refusal::WrongKind)?;
                is_unpacked = matches!(&value.bytes, OwnedBytes::Inline(packed) if !fits_inline(long.len(), packed.len()));
                if is_unpacked {
                    let value = writer.copy(0, b"short")?.ok_or(Refusal::WrongKind)?;
                    writer.put(0, &kept, value)?;
                }
                writer.put(0, &long, value)?;
                let value = writer.copy(0, b"short")?.ok_or(Refusal::WrongKind)?;
                writer.transfer((0, b"short"), (0, &long[1..]), value)
            });
            for name in [&long[..], &long[1..]] {
                let after = look(&mut accessor, kind, name);
                assert_eq!(after, (Some(ELEMENTS), before.1), "{kind:?} with an element of {bytes}");
            }
            if is_unpacked {
                unpacked.push((kept, before.1));
            }
        }
        // A packed list is much smaller than a record.
        assert!(unpacked.len() > 2 || kind == Kind::List, "{kind:?}: {} values of the size in question", unpacked.len());
        assert!(keyspace.empty_memory(Duration::from_secs(60)));
        for (name, due) in unpacked {
            assert_eq!(look(&mut accessor, kind, &name), (Some(ELEMENTS), due), "{kind:?}, cold");
        }
    }
}
