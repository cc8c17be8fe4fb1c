//! Hashes against a map, in memory and on a device.

use super::{Hash, HashLimits};
use crate::types::hash::Hashes;
use crate::types::testing::{batch_at as batch, keyspace};
use crate::{Accessor, Body, Effect, Refusal};
use almandine_datatypes::packed::Due;
use almandine_store::Put;
use std::collections::BTreeMap;
use std::time::Duration;

const LIMITS: HashLimits = HashLimits { entries: 128, value: 64 };
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

fn fields(accessor: &mut Accessor, now_ms: i64, key: &[u8]) -> Option<Model> {
    batch(accessor, now_ms, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        reader.read_whole_as::<Hashes, _>(key, |hash| {
            let entries: Result<Model, Refusal> =
                hash.try_iter().map(|entry| entry.map(|e| (e.field.to_vec(), (e.value.to_vec(), e.due)))).collect();
            entries.inspect(|entries| assert!(entries.len() <= hash.len()))
        })
    })
}

fn set(accessor: &mut Accessor, now_ms: i64, key: &[u8], pairs: &[(Vec<u8>, Vec<u8>, Due)]) -> usize {
    batch(accessor, now_ms, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(key);
        let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
        let mut added = 0;
        for (field, value, due) in pairs {
            added += usize::from(hash.set(field, value, *due)?);
        }
        hash.commit().map(|()| added)
    })
}

/// Appends to the values of fields, all that have less than ten bytes then; the others are refused.
fn append(accessor: &mut Accessor, model: &mut Model, fields: &[Vec<u8>], text: &[u8]) {
    let names = || fields.iter().map(Vec::as_slice);
    let appended = batch(accessor, 1, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(b"h");
        let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
        hash.prefetch(names());
        let mut appended = Vec::new();
        for field in names() {
            let longer = |value: Option<&[u8]>| {
                let longer = [value.unwrap_or_default(), text].concat();
                if longer.len() < 10 { Ok(longer) } else { Err(Refusal::WrongKind) }
            };
            match hash.update(field, Due::Keep, longer) {
                Ok((is_new, value)) => appended.push((field.to_vec(), is_new, value)),
                Err(Refusal::WrongKind) => {}
                Err(other) => return Err(other),
            }
        }
        hash.commit().map(|()| appended)
    });
    for (field, is_new, value) in appended {
        assert_eq!(model.insert(field, (value, None)).is_none(), is_new);
    }
}

#[test]
fn fields_that_are_updated_read_and_visited_together_are_those_of_a_map() {
    for storage in [false, true] {
        let keyspace = keyspace(storage);
        let mut accessor = keyspace.accessor().expect("an accessor");
        let (mut model, mut random) = (Model::new(), Random(99));
        for round in 0..300 {
            let some: Vec<Vec<u8>> = (0..random.below(40)).map(|_| random.below(1 + round * 2).to_string().into_bytes()).collect();
            append(&mut accessor, &mut model, &some, &b"xyz"[..1 + random.below(3) as usize]);
            if storage && round % 50 == 49 {
                assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
            }
            let (got, visited) = batch(&mut accessor, 1, |accessor| {
                let (mut got, mut visited, mut reader) = (Vec::new(), Model::new(), accessor.reader(0));
                let key = reader.key(b"h");
                reader.read_as::<Hashes, _>(key, |hash| {
                    let names = some.iter().map(Vec::as_slice);
                    hash.get_each(names, |entry| got.push(entry.map(|entry| entry.value.to_vec())))?;
                    hash.visit(|entry| drop(visited.insert(entry.field.to_vec(), (entry.value.to_vec(), entry.due))))
                })?;
                Ok((got, visited))
            });
            assert!(
                got.iter().map(Option::as_ref).eq(some.iter().map(|name| model.get(name).map(|(value, _)| value)))
                    || model.is_empty()
            );
            assert_eq!(visited, model, "round {round}");
        }
        assert!(model.len() > 300, "{} fields", model.len());
    }
}

/// A small value that lay on the device is told whole, so that doing it again reads nothing there; all else by its edit.
#[test]
fn a_small_hash_from_the_device_is_told_whole() {
    let keyspace = keyspace(true);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let fields =
        |count: usize| (0..count).map(|at| (format!("f{at}").into_bytes(), vec![b'v'; 30], Due::Never)).collect::<Vec<_>>();
    set(&mut accessor, 0, b"small", &fields(20));
    set(&mut accessor, 0, b"large", &fields(60));
    keyspace.listeners().note_effects(true);
    for (cold, small) in [(false, "edit"), (true, "value"), (false, "edit")] {
        if cold {
            assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
        }
        for (key, expected) in [(&b"small"[..], small), (b"large", "edit")] {
            assert_eq!(told_of_set(&mut accessor, key), [expected], "cold: {cold}");
        }
    }
}

/// How the effects of setting a field are told.
fn told_of_set(accessor: &mut Accessor, key: &[u8]) -> Vec<&'static str> {
    let mut told = Vec::new();
    batch(accessor, 0, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(key);
        let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
        hash.set(b"f1", b"w", Due::Never)?;
        hash.commit()?;
        drop(writer);
        accessor.changes().drain_effects(|change| {
            told.push(match change.effect {
                Some(Effect::Set { value: Body::Bytes(_), .. }) => "value",
                Some(Effect::Edit { .. }) => "edit",
                other => panic!("{other:?}"),
            });
        });
        Ok(())
    });
    told
}

/// A small generator, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Random changes of hashes of all sizes are those of a map; with a device, all of it leaves memory now and then.
fn changes_are_those_of_a_map(cold: bool) {
    let keyspace = keyspace(cold);
    let mut accessor = keyspace.accessor().expect("an accessor");
    keyspace.store.settings().set_reclaiming(false);
    let mut random = Random(0x00DD_BA11 + u64::from(cold));
    let mut models: Vec<Model> = vec![Model::new(); 4];
    let sizes = [6, 60, 400, 3000];
    for round in 0..3000 {
        let which = random.below(4) as usize;
        let (key, model) = ([b'k', which as u8], &mut models[which]);
        let field = |random: &mut Random| format!("field:{}", random.below(sizes[which])).into_bytes();
        match random.below(12) {
            0..6 => {
                let pairs: Vec<_> = (0..=random.below(sizes[which] / 4 + 1))
                    .map(|_| {
                        let len = if random.below(200) == 0 { random.below(30_000) } else { random.below(40) };
                        (field(&mut random), vec![b'v'; len as usize], Due::Keep)
                    })
                    .collect();
                let mut added = 0;
                for (field, value, _) in &pairs {
                    let due = model.get(field).and_then(|(_, due)| *due);
                    added += usize::from(model.insert(field.clone(), (value.clone(), due)).is_none());
                }
                assert_eq!(set(&mut accessor, 0, &key, &pairs), added, "round {round}");
            }
            6..9 => {
                let field = field(&mut random);
                let removed = batch(&mut accessor, 0, |accessor| {
                    let mut writer = accessor.writer(0);
                    let key = writer.key(&key);
                    let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
                    let removed = hash.remove(&field)?;
                    hash.commit().map(|()| removed)
                });
                assert_eq!(removed, model.remove(&field).is_some());
            }
            9 => {
                let (field, due) = (field(&mut random), Some(1_000_000 + random.below(1000)).filter(|_| round % 3 != 0));
                let there = batch(&mut accessor, 0, |accessor| {
                    let mut writer = accessor.writer(0);
                    let key = writer.key(&key);
                    let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
                    let there = hash.set_due(&field, due)?;
                    hash.commit().map(|()| there)
                });
                assert_eq!(there, model.contains_key(&field));
                model.entry(field).and_modify(|(_, at)| *at = due);
            }
            10 if round % 7 == 0 => {
                batch(&mut accessor, 0, |accessor| {
                    let mut writer = accessor.writer(0);
                    let key = writer.key(&key);
                    Ok(writer.delete(key)?)
                });
                model.clear();
            }
            _ => {
                let field = field(&mut random);
                let found = batch(&mut accessor, 0, |accessor| {
                    let mut reader = accessor.reader(0);
                    let key = reader.key(&key);
                    let look = |hash: &Hash<'_>| Ok(hash.get(&field)?.map(|entry| (entry.value.to_vec(), entry.due)));
                    reader.read_as::<Hashes, _>(key, look).map(Option::flatten)
                });
                assert_eq!(found.as_ref(), model.get(&field), "round {round}");
            }
        }
        if round % 100 == 0 {
            if cold {
                assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
            }
            for (which, model) in models.iter().enumerate() {
                let found = fields(&mut accessor, 0, &[b'k', which as u8]);
                assert_eq!(found, Some(model.clone()).filter(|model| !model.is_empty()), "round {round}");
            }
        }
    }
    let keys = models.iter().filter(|model| !model.is_empty()).count() as u64;
    assert_eq!(keyspace.dbsize(0), keys);
    accessor.begin_batch(0);
    for which in 0..4u8 {
        let key = [b'k', which];
        let mut writer = accessor.writer(0);
        let key = writer.key(&key);
        assert!(writer.delete(key).is_ok());
    }
    accessor.end_batch();
}

#[test]
fn changes_are_those_of_a_map_in_memory() {
    changes_are_those_of_a_map(false);
}

#[test]
fn changes_are_those_of_a_map_on_a_device() {
    changes_are_those_of_a_map(true);
}

/// Fields of packed hashes and of objects that are past their time are absent for readers, and go without a touch, with the key
/// behind the last one.
#[test]
fn fields_past_their_time_go_without_a_touch() {
    for (cold, count) in [(false, 5u64), (false, 1000), (true, 5), (true, 1000)] {
        let keyspace = keyspace(cold);
        keyspace.store.settings().set_reclaiming(false);
        let mut accessor = keyspace.accessor().expect("an accessor");
        let pairs: Vec<_> = (0..count)
            .map(|n| (n.to_string().into_bytes(), b"value".to_vec(), if n % 2 == 0 { Due::At(5000) } else { Due::At(9000 + n) }))
            .collect();
        assert_eq!(set(&mut accessor, 0, b"h", &pairs), pairs.len());
        if cold {
            assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
        }
        let left = fields(&mut accessor, 6000, b"h").expect("a hash");
        assert_eq!(left.len() as u64, count / 2, "{cold} {count}");
        assert!(left.values().all(|(_, due)| due.is_some_and(|due| due >= 9000)));
        keyspace.store.settings().set_reclaiming(true);
        // The clock of the background is the one of the machine, for which all of it was long ago.
        let gone = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            keyspace.dbsize(0) == 0
        });
        assert!(gone, "{cold} {count}");
        assert_eq!(fields(&mut accessor, 0, b"h"), None);
    }
}

#[test]
fn a_hash_copied_and_changed_is_another_one() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let pairs: Vec<_> = (0..1000u32).map(|n| (n.to_string().into_bytes(), b"value".to_vec(), Due::Keep)).collect();
    set(&mut accessor, 0, b"h", &pairs);
    accessor.begin_batch(0);
    {
        let mut writer = accessor.writer(0);
        let value = writer.copy(0, b"h").expect("in memory").expect("a value");
        writer.put(0, b"copy", value).expect("room");
    }
    accessor.end_batch();
    set(&mut accessor, 0, b"copy", &[(b"7".to_vec(), b"other".to_vec(), Due::Keep)]);
    let (one, other) = (fields(&mut accessor, 0, b"h"), fields(&mut accessor, 0, b"copy"));
    assert_eq!(one.expect("a hash")[&b"7"[..]].0, b"value");
    assert_eq!(other.expect("a hash")[&b"7"[..]].0, b"other");
}

#[test]
fn another_type_is_refused() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    accessor.begin_batch(0);
    let mut writer = accessor.writer(0);
    let key = writer.key(b"s");
    writer.upsert(key, b"string", Put::default()).expect("room");
    assert_eq!(writer.read_as::<Hashes, _>(key, |_| Ok(())), Err(Refusal::WrongKind));
    assert!(writer.write_as::<Hashes>(key, LIMITS).is_err_and(|refusal| refusal == Refusal::WrongKind));
    drop(writer);
    accessor.end_batch();
}

#[test]
fn a_snapshot_of_a_large_hash_is_read_in_pieces_while_it_changes() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let pairs: Vec<_> = (0..20_000u32).map(|n| (n.to_string().into_bytes(), vec![b'v'; 10], Due::Keep)).collect();
    set(&mut accessor, 0, b"h", &pairs);
    set(&mut accessor, 0, b"small", &pairs[..100]);
    let mut snapshot = |key: &[u8]| {
        accessor.begin_batch(0);
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        let snapshot = reader.snapshot_as::<Hashes>(key).expect("in memory");
        drop(reader);
        accessor.end_batch();
        snapshot
    };
    assert!(snapshot(b"small").is_none() && snapshot(b"none").is_none());
    let snapshot = snapshot(b"h").expect("a large hash");
    let (mut next, mut seen) = (Some(0), Model::new());
    while let Some(from) = next {
        let mut left = 77;
        next = snapshot
            .visit_from(from, |entry| {
                seen.insert(entry.field.to_vec(), (entry.value.to_vec(), entry.due));
                left -= 1;
                left > 0
            })
            .expect("all of it is in memory");
        let field = seen.len().to_string().into_bytes();
        set(&mut accessor, 0, b"h", &[(field, b"changed".to_vec(), Due::Keep)]);
    }
    assert_eq!((seen.len(), snapshot.len()), (20_000, 20_000));
    assert!(seen.values().all(|(value, _)| value == &[b'v'; 10]));
}
