//! Images in parts, whole and damaged.

use almandine_base::object::{Damaged, ImageCursor, Object};
use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::{Due, HashEncoding};
use almandine_testkit::random::Random;

use crate::model::{Model, assert_equal};

fn filled(count: u32, random: &mut Random) -> (HashObject, Model) {
    let (mut hash, mut model) = (HashObject::new(Placement::new(11)), Model::default());
    for i in 0..count {
        let len = if random.chance(2) { 3000 } else { random.below(40) };
        let (field, value) = (i.to_string().into_bytes(), random.bytes(len));
        let due = if random.chance(20) { Due::At(1 + random.below(99) as u64) } else { Due::Keep };
        model.set(&field, &value, due);
        hash.set(&field, &value, due).unwrap();
    }
    (hash, model)
}

fn parts(hash: &HashObject, limit: usize) -> Vec<Vec<u8>> {
    let (mut parts, mut cursor) = (Vec::new(), Some(ImageCursor::default()));
    while let Some(at) = cursor {
        let mut part = b"before".to_vec();
        cursor = hash.write_part(at, limit, &mut part).unwrap();
        parts.push(part.split_off(6));
    }
    parts
}

#[test]
fn images_come_back() {
    let random = &mut Random::new(1);
    for (count, limit) in [(0, 100), (1, 1), (70, 1), (5000, 1), (5000, 10_000), (5000, usize::MAX)] {
        let (mut hash, model) = filled(count, random);
        hash.set_encoding(HashEncoding::ListPackEx);
        // The image is the snapshot's, whatever happens meanwhile.
        let snapshot = hash.clone();
        let all = parts(&snapshot, limit);
        for i in 0..count {
            hash.remove(i.to_string().as_bytes()).unwrap();
        }
        assert_eq!(all, parts(&snapshot, limit));
        // With the seed that it was written with, chunks are made at once; with another, and with hashes of few bits, fields come
        // one by one.
        for placement in [Placement::new(11), Placement::new(12), Placement::weak(11, 34)] {
            let mut read = HashObject::new(placement);
            for (i, part) in all.iter().enumerate() {
                assert_eq!(read.read_part(part), Ok(i + 1 == all.len()));
                read.check();
            }
            assert_equal(&read, &model);
            assert_eq!(read.encoding(), HashEncoding::ListPackEx);
            for i in 0..count {
                assert_eq!(read.set(i.to_string().as_bytes(), b"changed", Due::Keep), Ok(false));
            }
            read.check();
        }
        assert!(all.iter().all(|part| part.len() <= limit.saturating_add(100 * 1024)));
    }
}

#[test]
fn an_object_gives_its_snapshot_as_an_object() {
    let (mut hash, model) = filled(500, &mut Random::new(2));
    let snapshot = hash.snapshot();
    hash.set(b"another", b"value", Due::Keep).unwrap();
    let snapshot: Box<dyn std::any::Any> = snapshot;
    assert_equal(&snapshot.downcast::<HashObject>().expect("a snapshot has the type"), &model);
}

#[test]
fn damaged_parts_are_refused_and_change_nothing() {
    let random = &mut Random::new(3);
    let (hash, _) = filled(300, random);
    let all = parts(&hash, 2000);
    assert!(all.len() > 3);
    let mut read = HashObject::new(Placement::new(12));
    for (i, part) in all.iter().enumerate() {
        for _ in 0..200 {
            let mut damaged = part.clone();
            let at = random.below(part.len());
            match random.below(3) {
                0 => damaged[at] ^= 1 << random.below(8),
                1 => damaged.truncate(at),
                _ => damaged.insert(at, random.bits() as u8),
            }
            let len = read.len();
            assert_eq!((read.read_part(&damaged), read.len()), (Err(Damaged), len));
            let len = random.below(60);
            assert_eq!(read.read_part(&random.bytes(len)), Err(Damaged));
        }
        for other in all.iter().enumerate().filter(|(j, _)| *j != i) {
            assert_eq!(read.read_part(other.1), Err(Damaged), "parts come in order");
        }
        read.read_part(part).unwrap();
    }
    assert_eq!(read.len(), 300);
}
