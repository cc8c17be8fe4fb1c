//! A packed value on its way to a key whose record has no room for it, because the key is longer: it becomes an object of its type.

use std::sync::Arc;

use almandine_datatypes::hash::Placement;
use almandine_store::{HeapValue, Kind, SharedValue};

use super::collection::Collection;
use super::hash::Hashes;
use super::list::Lists;
use super::set::Sets;
use super::sorted_set::SortedSets;

/// The object with the elements of packed bytes; none for a string, which lies on the heap as the bytes that it is.
pub(crate) fn unpacked(kind: Kind, packed: &[u8], placement: Placement) -> Option<SharedValue> {
    match kind {
        Kind::Hash => Some(object::<Hashes>(packed, placement)),
        Kind::Set => Some(object::<Sets>(packed, placement)),
        Kind::SortedSet => Some(object::<SortedSets>(packed, placement)),
        Kind::List => Some(object::<Lists>(packed, placement)),
        _ => None,
    }
}

fn object<C: Collection>(packed: &[u8], placement: Placement) -> SharedValue {
    Arc::new(HeapValue::object(Box::new(C::unpack(C::packed(packed), placement))))
}

#[cfg(test)]
mod tests {
    use super::super::collection::Contents;
    use super::super::list::End;
    use super::super::testing::{batch, keyspace};
    use super::*;
    use crate::{Accessor, Refusal};
    use almandine_datatypes::packed::Due;
    use almandine_store::fits_inline;
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

    /// How many elements the collection of a frozen key has, and whether it is packed.
    fn form<C: Collection>(frozen: &crate::types::Frozen) -> Option<(usize, bool)> {
        let contents: Contents<'_, C> = frozen.collection::<C>().ok()??;
        Some((contents.elements(), matches!(contents, Contents::Packed(_))))
    }

    /// The same of a key, and when its first element expires.
    fn look(accessor: &mut Accessor, kind: Kind, name: &[u8]) -> (Option<(usize, bool)>, Option<u64>) {
        batch(accessor, |accessor| {
            let mut reader = accessor.reader(0);
            let key = reader.key(name);
            let frozen = reader.freeze(key);
            let due = match kind {
                Kind::Hash => reader.read_as::<Hashes, _>(key, |hash| Ok(hash.next_due()))?.flatten(),
                Kind::SortedSet => reader.read_as::<SortedSets, _>(key, |set| Ok(set.next_due()))?.flatten(),
                _ => None,
            };
            let form = match kind {
                Kind::Hash => form::<Hashes>(&frozen),
                Kind::Set => form::<Sets>(&frozen),
                Kind::SortedSet => form::<SortedSets>(&frozen),
                _ => form::<Lists>(&frozen),
            };
            Ok((form, due))
        })
    }

    /// COPY, and RENAME or MOVE, of values around the size that the record of a long key has no room for, in memory and back from a device.
    #[test]
    fn a_packed_value_that_a_long_key_has_no_room_for_becomes_an_object() {
        let long = [b'k'; 500];
        for kind in KINDS {
            let keyspace = keyspace(true);
            let mut accessor = keyspace.accessor().unwrap();
            let mut unpacked = 0;
            for bytes in (8..1400).step_by(8) {
                batch(&mut accessor, |accessor| fill(accessor, kind, b"short", bytes));
                let before = look(&mut accessor, kind, b"short");
                batch(&mut accessor, |accessor| {
                    let mut writer = accessor.writer(0);
                    writer.hold([(0, &b"short"[..]), (0, &long[..]), (0, &long[1..])].into_iter())?;
                    let value = writer.copy(0, b"short").ok_or(Refusal::WrongKind)?;
                    if !fits_inline(long.len(), value.bytes().len()) && before.0 == Some((ELEMENTS, true)) {
                        unpacked += 1;
                    }
                    writer.put(0, &long, value)?;
                    let value = writer.copy(0, b"short").ok_or(Refusal::WrongKind)?;
                    Ok(writer.transfer((0, b"short"), (0, &long[1..]), value)?)
                });
                for name in [&long[..], &long[1..]] {
                    let after = look(&mut accessor, kind, name);
                    assert_eq!(
                        (after.0.map(|form| form.0), after.1),
                        (Some(ELEMENTS), before.1),
                        "{kind:?} with an element of {bytes}"
                    );
                }
            }
            // A packed list is much smaller than a record.
            assert!(unpacked > 2 || kind == Kind::List, "{kind:?}: {unpacked} values of the size in question");
            batch(&mut accessor, |accessor| fill(accessor, kind, b"short", 250));
            assert!(keyspace.empty_memory(Duration::from_secs(60)));
            for name in [&long[..], &long[1..]] {
                assert_eq!(look(&mut accessor, kind, name).0.map(|form| form.0), Some(ELEMENTS), "{kind:?}, cold");
            }
        }
    }
}
