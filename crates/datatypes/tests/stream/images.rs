//! What is written in parts is read again.

use almandine_base::object::{Damaged, ImageCursor, Object};
use almandine_datatypes::stream::{ProducerLimits, StreamId, StreamObject};

use crate::groups::build;
use crate::model::assert_equal;

fn parts(stream: &StreamObject, limit: usize) -> Vec<Vec<u8>> {
    let (mut parts, mut cursor) = (Vec::new(), Some(ImageCursor::default()));
    while let Some(at) = cursor {
        let mut part = Vec::new();
        cursor = stream.write_part(at, limit, &mut part).unwrap();
        parts.push(part);
    }
    parts
}

fn read(parts: &[Vec<u8>]) -> StreamObject {
    let mut stream = StreamObject::new();
    for (index, part) in parts.iter().enumerate() {
        assert_eq!(stream.read_part(part), Ok(index + 1 == parts.len()));
    }
    stream
}

#[test]
fn images_come_back() {
    for seed in 0..4 {
        let (stream, model) = build(seed, 1500);
        for limit in [1, 300, 10_000, usize::MAX] {
            let mut again = read(&parts(&stream, limit));
            assert_equal(&again, &model);
            assert!(again.memory() <= stream.memory() + stream.memory() / 4, "{} after {}", again.memory(), stream.memory());
            while !again.drop_step(1) {}
        }
    }
    let empty = read(&parts(&StreamObject::new(), 100));
    assert!(empty.is_empty() && empty.last_id() == StreamId::MIN);
}

#[test]
fn producers_come_back() {
    let mut stream = StreamObject::new();
    stream.producers_mut().configure(ProducerLimits { seconds: 5, ids: 3 });
    for n in 0..5u64 {
        stream.producers_mut().put(b"p", n.to_string().as_bytes(), StreamId::new(n, 1), true);
        stream.producers_mut().put(&n.to_le_bytes(), b"", StreamId::new(n, 0), true);
    }
    stream.producers_mut().count_duplicate();
    let again = read(&parts(&stream, 20));
    let all = |stream: &StreamObject| -> Vec<_> {
        let producers = stream.producers().unwrap();
        let ids = producers.iter().map(|(name, ids)| (name.to_vec(), ids.map(|(iid, id)| (iid.to_vec(), id)).collect::<Vec<_>>()));
        ids.collect()
    };
    assert_eq!(all(&again), all(&stream));
    let producers = again.producers().unwrap();
    assert_eq!((producers.len(), producers.ids(), producers.added(), producers.duplicates()), (6, 8, 10, 1));
    assert_eq!(producers.get(b"p", b"1", 0), None);
    assert_eq!(producers.get(b"p", b"2", 5001), Some(StreamId::new(2, 1)));
    assert_eq!(producers.get(b"p", b"2", 5002), None);
    assert_eq!(producers.limits(), ProducerLimits { seconds: 5, ids: 3 });
    let mut again = again.clone();
    again.expire_producers(5003);
    assert_eq!(again.producers().unwrap().ids(), 2);
}

#[test]
fn damage_is_found() {
    let (stream, _) = build(9, 400);
    let parts = parts(&stream, 500);
    let mut again = StreamObject::new();
    assert_eq!(again.read_part(&parts[1]), Err(Damaged));
    for index in 0..parts[0].len() {
        let mut part = parts[0].clone();
        part[index] ^= 1;
        assert_eq!(again.read_part(&part), Err(Damaged), "{index}");
    }
    assert_eq!(again.read_part(&parts[0][..parts[0].len() - 1]), Err(Damaged));
    assert_eq!(again.read_part(&parts[0]), Ok(false));
}
