//! Packed sorted sets against a naive one, and against bytes that are none.

use almandine_datatypes::packed::{ELEMENTS_MAX, Full, PACKED_MAX_BYTES};
use almandine_datatypes::sorted_set::{PackedSortedSet, SortedSetEncoding, SortedSetLimits};
use almandine_testkit::random::Random;

use crate::model::{Model, Owned, any_score, owned, same};

fn assert_is(bytes: &[u8], model: &Model) {
    let set = PackedSortedSet::new(bytes);
    assert!(bytes.is_empty() || set.is_sound(), "{bytes:?}");
    assert_eq!((set.len(), set.next_due()), (model.0.len(), model.next_due()));
    let (all, expected): (Vec<Owned>, _) = (set.iter().map(owned).collect(), model.sorted());
    assert!(same(&all, &expected), "{all:?} {expected:?}");
    for (rank, entry) in expected.iter().enumerate() {
        assert_eq!((set.nth(rank).map(owned).as_ref(), set.find(&entry.0).map(owned).as_ref()), (Some(entry), Some(entry)));
    }
}

#[test]
fn packed_sorted_sets_do_as_the_model() {
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let (mut model, mut bytes) = (Model::default(), Vec::new());
        let pad = *random.pick(&[0, 3, 200, 900]);
        for _ in 0..400 {
            let member = [random.below(90).to_string().as_bytes(), &vec![b'x'; pad]].concat();
            let before = bytes.clone();
            match random.below(10) {
                0..6 => {
                    let score = any_score(random, 5);
                    match PackedSortedSet::set(&mut bytes, &member, score) {
                        Ok(update) => assert_eq!(update, model.set(&member, score)),
                        Err(Full) => {
                            assert_eq!(bytes, before);
                            assert!(model.0.len() == ELEMENTS_MAX || bytes.len() + member.len() + 16 > PACKED_MAX_BYTES);
                        }
                    }
                }
                6 => {
                    let due = random.chance(50).then(|| 1 + random.below(50) as u64);
                    match PackedSortedSet::set_due(&mut bytes, &member, due) {
                        Ok(has) => assert_eq!(has, model.0.get_mut(&member).map(|(_, old)| *old = due).is_some()),
                        Err(Full) => assert!(bytes == before && bytes.len() + 12 > PACKED_MAX_BYTES),
                    }
                }
                7 if random.chance(10) => {
                    let now = random.below(50) as u64;
                    let mut out = b"before".to_vec();
                    let gone = PackedSortedSet::new(&bytes).retain(|entry| entry.due.is_none_or(|due| due > now), &mut out);
                    let len = model.0.len();
                    model.0.retain(|_, (_, due)| due.is_none_or(|due| due > now));
                    assert_eq!(gone, len - model.0.len());
                    bytes = out.split_off(6);
                }
                _ => {
                    let gone = model.0.remove(&member).map(|(score, _)| score);
                    assert_eq!(PackedSortedSet::remove(&mut bytes, &member), gone);
                }
            }
            assert_is(&bytes, &model);
        }
        PackedSortedSet::set_encoding(&mut bytes, SortedSetEncoding::SkipList);
        assert_eq!(PackedSortedSet::new(&bytes).encoding(), SortedSetEncoding::SkipList);
        assert_is(&bytes, &model);
    }
}

#[test]
fn encodings_follow_the_thresholds() {
    use SortedSetEncoding::{ListPack, SkipList};
    let limits = SortedSetLimits { entries: 128, value: 64 };
    let after = |encoding: SortedSetEncoding, member: usize, len| encoding.after(&vec![b'x'; member], len, limits);
    assert_eq!(
        [after(ListPack, 64, 128), after(ListPack, 65, 1), after(ListPack, 1, 129), after(SkipList, 1, 1)],
        [ListPack, SkipList, SkipList, SkipList]
    );
    assert_eq!(
        [ListPack, SkipList].map(|encoding| (SortedSetEncoding::from_number(encoding as u8), encoding.name())),
        [(ListPack, "listpack"), (SkipList, "skiplist")]
    );
}

#[test]
fn sorted_set_bytes_are_pinned_and_few() {
    let mut bytes = Vec::new();
    for (member, score) in [(&b"b"[..], 300.0), (b"a", 0.5), (b"c", 0.0)] {
        PackedSortedSet::set(&mut bytes, member, score).unwrap();
    }
    assert_eq!(bytes, b"\x00\x03\x01\x00c\x01\x05a\x3f\xe0\0\0\0\x01\x02b\x2c\x01");
    let mut bytes = Vec::new();
    for i in 0..10 {
        PackedSortedSet::set(&mut bytes, format!("{i:08}").as_bytes(), f64::from(i * 5000)).unwrap();
    }
    // A record adds 8 bytes of header, 16 for a key of 14 bytes and 11 in the index.
    assert!(bytes.len().next_multiple_of(8) + 35 <= 170, "{}", bytes.len());
}

#[test]
fn any_bytes_are_read_without_panic() {
    for seed in 0..8000 {
        let random = &mut Random::new(seed);
        let mut bytes = Vec::new();
        for i in 0..random.below(8) {
            PackedSortedSet::set(&mut bytes, i.to_string().as_bytes(), any_score(random, 5)).unwrap();
            PackedSortedSet::set_due(&mut bytes, b"3", Some(70)).unwrap();
        }
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() + 1);
            let byte = *random.pick(&[0, 1, 2, 7, 9, 0x7B, 0x7F, 0x80, 0x81, 0xFC, 0xFE, 0xFF]);
            match random.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                _ => bytes.get_mut(at).into_iter().for_each(|old| *old = byte),
            }
        }
        let set = PackedSortedSet::new(&bytes);
        assert!(set.iter().all(|entry| !entry.score.is_nan()));
        let _ = (set.is_sound(), set.nth(2), set.find(b"1"), set.retain(|entry| entry.due.is_none(), &mut Vec::new()));
        for member in [&b"1"[..], b"3", b"9", b""] {
            let _ = PackedSortedSet::set(&mut bytes.clone(), member, 2.0);
            let _ = PackedSortedSet::set_due(&mut bytes.clone(), member, Some(1));
            let _ = PackedSortedSet::remove(&mut bytes.clone(), member);
        }
    }
}
