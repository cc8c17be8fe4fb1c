//! Entries: added, deleted, trimmed, and found in ranges.

use almandine_base::object::Object;
use almandine_datatypes::stream::{Keep, NodeLimits, StreamId, StreamObject, Trim};
use almandine_testkit::random::Random;

use crate::model::{Model, any_id_above, any_pairs, append, assert_equal, owned};

/// Nodes are full by their entries only, so that the model need not know listpacks.
fn limits(entries: usize) -> NodeLimits {
    NodeLimits { bytes: 0, entries }
}

fn any_id(random: &mut Random, model: &Model) -> StreamId {
    let all: Vec<StreamId> = model.entries().map(|(id, _)| *id).collect();
    match random.below(10) {
        0 => StreamId::MIN,
        1 => StreamId::MAX,
        2 => StreamId::new(random.below(100_000) as u64, random.below(3) as u64),
        _ if all.is_empty() => StreamId::MAX,
        3 => random.pick(&all).next().unwrap(),
        _ => *random.pick(&all),
    }
}

fn check_ranges(random: &mut Random, stream: &StreamObject, model: &Model) {
    let (start, end) = (any_id(random, model), any_id(random, model));
    let expected: Vec<_> =
        model.entries().filter(|(id, _)| (start..=end).contains(id)).map(|(id, pairs)| (*id, pairs.clone())).collect();
    let found = stream.entries().range(start, end).unwrap().map(|entry| owned(entry.unwrap()));
    assert!(found.eq(expected.iter().cloned()), "{start:?} to {end:?}");
    let found = stream.entries().backwards(start, end).unwrap().map(|entry| owned(entry.unwrap()));
    assert!(found.eq(expected.iter().rev().cloned()), "{start:?} to {end:?}, backwards");
    let found = stream.entries().get(start).unwrap().map(owned);
    assert_eq!(found, model.entries().find(|(id, _)| **id == start).map(|(id, pairs)| (*id, pairs.clone())));
}

fn any_trim(random: &mut Random, model: &Model) -> Trim {
    let len = model.len() as usize;
    let keep = match random.below(2) {
        0 => Keep::Newest((len.saturating_sub(random.below(40)) + random.below(2)) as u64),
        _ => Keep::From(any_id(random, model)),
    };
    let limit = random.chance(50).then(|| random.below(100) as u64);
    Trim { keep, approximate: random.chance(60), limit }
}

fn run(seed: u64, entries_max: usize, steps: usize) {
    // A node of more than a block's bytes forgets what was in a block that has gone.
    let bytes_max = if entries_max == 0 { 3000 } else { 30 };
    let mut random = Random::new(seed);
    let (mut stream, mut model) = (StreamObject::new(), Model::default());
    let mut snapshots: Vec<(Box<dyn Object>, Model)> = Vec::new();
    for step in 0..steps {
        match random.below(100) {
            0..70 => {
                let (id, pairs) = (any_id_above(&mut random, model.last_id), any_pairs(&mut random, bytes_max));
                append(&mut stream, id, &pairs, limits(entries_max));
                model.append(id, pairs, if entries_max == 0 { usize::MAX } else { entries_max });
            }
            70..90 => {
                let id = any_id(&mut random, &model);
                assert_eq!(stream.remove(id).unwrap(), model.remove(id), "{id:?}");
            }
            90..92 if entries_max > 0 => {
                let trim = any_trim(&mut random, &model);
                let count = stream.entries().trimmed(&trim).unwrap();
                stream.skip(count).unwrap();
                assert_eq!(count, model.trim(&trim), "{trim:?}");
            }
            92..97 => check_ranges(&mut random, &stream, &model),
            _ => snapshots.push((stream.snapshot(), model.clone())),
        }
        if step % 64 == 0 {
            assert_equal(&stream, &model);
        }
        if snapshots.len() > 3 {
            let (snapshot, model) = snapshots.remove(random.below(4));
            assert_equal((&*snapshot as &dyn std::any::Any).downcast_ref().unwrap(), &model);
        }
    }
    assert_equal(&stream, &model);
}

#[test]
fn as_a_naive_stream() {
    for seed in 0..6 {
        for entries_max in [1, 7, 100] {
            run(seed, entries_max, 1500);
        }
    }
}

/// A node without limit is several blocks, and counts as one.
#[test]
fn nodes_of_any_size() {
    run(7, 0, 3000);
}

#[test]
fn nodes_are_full_by_their_bytes() {
    let mut stream = StreamObject::new();
    for n in 1..=100 {
        append(&mut stream, StreamId::new(n, 0), &vec![(b"f".to_vec(), vec![b'v'; 100])], NodeLimits { bytes: 1000, entries: 100 });
    }
    // Of Redis 7.0: 8 of them in a listpack of at most 1000 bytes.
    assert_eq!(stream.entries().radix_tree().unwrap().0, 13);
    let count = stream.entries().trimmed(&Trim { keep: Keep::Newest(50), approximate: true, limit: None }).unwrap();
    assert_eq!(count, 48);
}
