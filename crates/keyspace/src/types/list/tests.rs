//! Lists against a naive one, in memory and on a device.

use super::{End, ListLimits, ListMut};
use crate::types::list::Lists;
use crate::types::testing::{batch, keyspace};
use crate::{Accessor, Refusal};
use almandine_datatypes::list::ListEncoding;
use almandine_store::Put;
use std::collections::VecDeque;
use std::time::Duration;

type Model = VecDeque<Vec<u8>>;

fn limits() -> ListLimits {
    ListLimits::new(-2)
}

fn elements(accessor: &mut Accessor, key: &[u8]) -> Option<Model> {
    batch(accessor, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        reader.read_whole_as::<Lists, _>(key, |list| list.try_iter().map(|element| element.map(|e| e.to_vec())).collect())
    })
}

fn change<R>(accessor: &mut Accessor, key: &[u8], mut work: impl FnMut(&mut ListMut<'_>) -> Result<R, Refusal>) -> R {
    batch(accessor, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(key);
        let mut list = writer.write_as::<Lists>(key, limits())?;
        let result = work(&mut list)?;
        list.commit().map(|()| result)
    })
}

/// A small generator, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// One random change.
fn step(accessor: &mut Accessor, key: &[u8], model: &mut Model, size: usize, random: &mut Random) {
    let len = if random.below(300) == 0 { random.below(30_000) } else { random.below(20) };
    let element = [random.below(30).to_string().into_bytes(), vec![b'x'; len]].concat();
    let end = if random.below(2) == 0 { End::Left } else { End::Right };
    let at = random.below(model.len() + 1);
    let kind = random.below(if model.len() > size { 4 } else { 8 });
    match kind {
        0 => {
            let count = random.below(size / 3 + 2);
            let mut popped = Model::new();
            change(accessor, key, |list| {
                popped.clear();
                list.pop(end, count, |element| popped.push_back(element.to_vec()))
            });
            for element in popped {
                assert_eq!(Some(element), if end == End::Left { model.pop_front() } else { model.pop_back() });
            }
        }
        1 => {
            let wanted = model.get(at).unwrap_or(&element).clone();
            let removed = change(accessor, key, |list| list.remove(end, &wanted, 2));
            for _ in 0..removed {
                let place = if end == End::Left {
                    model.iter().position(|e| *e == wanted)
                } else {
                    model.iter().rposition(|e| *e == wanted)
                };
                model.remove(place.expect("it was there"));
            }
            assert!(removed == 2 || !model.contains(&wanted));
        }
        2 => {
            let (start, stop) = (random.below(3), model.len().saturating_sub(random.below(3)));
            batch(accessor, |accessor| {
                let mut writer = accessor.writer(0);
                let key = writer.key(key);
                let mut list = writer.write_as::<Lists>(key, limits())?;
                let trimmed = list.trim(start..stop)?;
                list.commit()?;
                writer.discard(trimmed);
                Ok(())
            });
            *model = model.drain(..).take(stop).skip(start.min(stop)).collect();
        }
        3 => {
            assert_eq!(change(accessor, key, |list| list.set(at, &element)), at < model.len());
            model.get_mut(at).into_iter().for_each(|old| *old = element.clone());
        }
        4 => {
            change(accessor, key, |list| list.insert(at, &element));
            model.insert(at, element);
        }
        _ => {
            let count = 1 + random.below(size / 4 + 1);
            change(accessor, key, |list| (0..count).try_for_each(|_| list.push(end, &element)));
            for _ in 0..count {
                if end == End::Left { model.push_front(element.clone()) } else { model.push_back(element.clone()) }
            }
        }
    }
    let found = batch(accessor, |accessor| {
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        let found = reader.read_as::<Lists, _>(key, |list| Ok((list.len(), list.nth(at)?.map(|element| element.to_vec()))))?;
        Ok(found)
    });
    assert_eq!(found, Some((model.len(), model.get(at).cloned())).filter(|_| !model.is_empty()));
}

/// Random changes of lists of all sizes are those of a naive one; with a device, all of it leaves memory now and then.
fn changes_are_those_of_the_model(cold: bool) {
    let keyspace = keyspace(cold);
    let mut accessor = keyspace.accessor().expect("an accessor");
    keyspace.store.settings().set_reclaiming(false);
    let mut random = Random(0x00DD_BA11 + u64::from(cold));
    let mut models: Vec<Model> = vec![Model::new(); 4];
    for round in 0..2000 {
        let which = random.below(4);
        step(&mut accessor, &[b'k', which as u8], &mut models[which], [6, 60, 400, 3000][which], &mut random);
        if round % 100 == 0 {
            assert!(!cold || keyspace.store.empty_memory(Duration::from_secs(20)));
            for (which, model) in models.iter().enumerate() {
                let found = elements(&mut accessor, &[b'k', which as u8]);
                assert_eq!(found, Some(model.clone()).filter(|model| !model.is_empty()), "round {round}");
            }
        }
    }
    assert_eq!(keyspace.dbsize(0), models.iter().filter(|model| !model.is_empty()).count() as u64);
}

#[test]
fn changes_are_those_of_the_model_in_memory() {
    changes_are_those_of_the_model(false);
}

#[test]
fn changes_are_those_of_the_model_on_a_device() {
    changes_are_those_of_the_model(true);
}

#[test]
fn encodings_follow_the_size_with_a_margin() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let encoding = |accessor: &mut Accessor| change(accessor, b"k", |list| Ok(list.look().encoding()));
    let push = |accessor: &mut Accessor, element: &[u8], count: usize| {
        change(accessor, b"k", |list| {
            list.reserve(element.len() * count, count)?;
            (0..count).try_for_each(|_| list.push(End::Right, element))
        });
    };
    // A listpack of 99 elements of 80 bytes takes 99 * 83 + 7 = 8224 bytes.
    push(&mut accessor, &[b'e'; 80], 98);
    assert_eq!(encoding(&mut accessor), ListEncoding::ListPack);
    push(&mut accessor, &[b'e'; 80], 1);
    assert_eq!(encoding(&mut accessor), ListEncoding::QuickList);
    for (left, expected) in [(50, ListEncoding::QuickList), (49, ListEncoding::ListPack)] {
        change(&mut accessor, b"k", |list| {
            list.pop(End::Left, list.len() - left, |_| ())?;
            list.settle()
        });
        assert_eq!(encoding(&mut accessor), expected, "{left}");
    }
    push(&mut accessor, &[b'l'; 9000], 1);
    assert_eq!(encoding(&mut accessor), ListEncoding::QuickList);
}

#[test]
fn another_type_is_refused() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    accessor.begin_batch(0);
    let mut writer = accessor.writer(0);
    let key = writer.key(b"s");
    writer.upsert(key, b"string", Put::default()).expect("room");
    assert_eq!(writer.read_as::<Lists, _>(key, |_| Ok(())), Err(Refusal::WrongKind));
    assert!(writer.write_as::<Lists>(key, limits()).is_err_and(|refusal| refusal == Refusal::WrongKind));
    drop(writer);
    accessor.end_batch();
}

#[test]
fn a_snapshot_of_a_large_list_is_read_in_pieces_while_it_changes() {
    let keyspace = keyspace(false);
    let mut accessor = keyspace.accessor().expect("an accessor");
    let push = |accessor: &mut Accessor, key: &[u8], count: usize| {
        change(accessor, key, |list| (0..count).try_for_each(|n| list.push(End::Right, format!("element {n}").as_bytes())));
    };
    push(&mut accessor, b"l", 40_000);
    push(&mut accessor, b"small", 100);
    let mut snapshot = |key: &[u8]| {
        accessor.begin_batch(0);
        let mut reader = accessor.reader(0);
        let key = reader.key(key);
        let snapshot = reader.snapshot_as::<Lists>(key).expect("in memory");
        drop(reader);
        accessor.end_batch();
        snapshot
    };
    assert!(snapshot(b"small").is_none() && snapshot(b"none").is_none());
    let snapshot = snapshot(b"l").expect("a large list");
    let (mut next, mut seen) = (Some(0), Vec::new());
    while let Some(from) = next {
        let mut left = 777;
        next = snapshot
            .visit_from(from, |element| {
                seen.push(element.to_vec());
                left -= 1;
                left > 0
            })
            .expect("all of it is in memory");
        change(&mut accessor, b"l", |list| list.pop(End::Left, 100, |_| ()));
    }
    assert_eq!((seen.len(), snapshot.len()), (40_000, 40_000));
    assert!(seen.iter().enumerate().all(|(n, element)| *element == format!("element {n}").into_bytes()));
}
