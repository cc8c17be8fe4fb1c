//! What a scan promises: a field that is there throughout is seen.

use std::collections::BTreeMap;

use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::Due;
use almandine_testkit::random::Random;

fn scan(hash: &HashObject, cursor: u64, count: usize, seen: &mut BTreeMap<Vec<u8>, usize>) -> u64 {
    hash.scan(cursor, count, &mut |entry| *seen.entry(entry.field.to_vec()).or_default() += 1).unwrap()
}

#[test]
fn a_scan_of_a_hash_that_rests_sees_each_field_once() {
    for (fields, count) in [(0, 10), (1, 10), (65, 1), (1000, 10), (1000, 1), (20_000, 300)] {
        let mut hash = HashObject::new(Placement::new(fields as u64));
        for i in 0..fields {
            hash.set(format!("{i}").as_bytes(), b"v", Due::Keep).unwrap();
        }
        let (mut seen, mut cursor, mut calls) = (BTreeMap::new(), 0, 0);
        loop {
            cursor = scan(&hash, cursor, count, &mut seen);
            calls += 1;
            if cursor == 0 {
                break;
            }
        }
        assert!(seen.len() == fields && seen.values().all(|times| *times == 1));
        assert!(calls >= fields / (count + 64));
        assert_eq!(scan(&hash, u64::MAX, 1, &mut seen), 0, "any number is a cursor");
    }
}

#[test]
fn a_scan_of_a_hash_that_changes_sees_what_stays() {
    for seed in 0..60 {
        let random = &mut Random::new(seed);
        let mut hash = HashObject::new(Placement::weak(seed, if seed % 5 == 0 { 12 } else { 64 }));
        let stay = random.below(500);
        let field = |i: usize| format!("stays {i}").into_bytes();
        for i in 0..stay {
            hash.set(&field(i), b"v", Due::Keep).unwrap();
        }
        let (mut others, mut next) = (Vec::new(), 0u64);
        let (mut seen, mut cursor) = (BTreeMap::new(), 0);
        loop {
            // Between calls the hash grows a lot or loses nearly all that may go.
            if random.chance(50) {
                for _ in 0..random.below(4000) {
                    next += 1;
                    let name = next.to_le_bytes().to_vec();
                    hash.set(&name, b"some other value", Due::Keep).unwrap();
                    others.push(name);
                }
            } else {
                let at = random.below(others.len() + 1);
                for name in others.split_off(at) {
                    assert!(hash.remove(&name).unwrap());
                }
            }
            // Sometimes it is packed and made anew in between.
            let mut bytes = Vec::new();
            if hash.pack(&mut bytes).unwrap() {
                let packed = almandine_datatypes::hash::PackedHash::new(&bytes);
                hash = HashObject::from_packed(&packed, Placement::weak(seed, if seed % 5 == 0 { 12 } else { 64 }));
            }
            cursor = scan(&hash, cursor, 1 + random.below(200), &mut seen);
            if cursor == 0 {
                break;
            }
        }
        assert!((0..stay).all(|i| seen.contains_key(&field(i))), "seed {seed}");
    }
}
