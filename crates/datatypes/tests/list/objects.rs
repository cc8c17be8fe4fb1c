//! Large lists against a naive one, with snapshots held.

use std::any::Any;
use std::collections::VecDeque;

use almandine_base::object::{Damaged, ImageCursor, Kind, Object};
use almandine_datatypes::list::{End, ListEncoding, ListLimits, ListObject, PackedList};
use almandine_datatypes::packed::listpack::text_size;
use almandine_testkit::random::Random;

use super::any_element;

type Model = VecDeque<Vec<u8>>;

fn assert_equal(list: &ListObject, model: &Model) {
    list.check();
    assert_eq!((list.len(), list.elements()), (model.len(), model.len()));
    assert!(list.iter().map(|element| element.unwrap().to_vec()).eq(model.iter().cloned()), "the elements differ");
}

/// One random operation on both.
fn step(list: &mut ListObject, model: &mut Model, random: &mut Random, (kinds, growth): (usize, usize)) {
    let element = any_element(random, kinds);
    let end = *random.pick(&[End::Left, End::Right]);
    let at = random.below(model.len() + 1);
    match random.below(100) {
        0..70 if random.chance(growth) => {
            list.push(end, &element);
            if end == End::Left { model.push_front(element) } else { model.push_back(element) }
        }
        0..70 => {
            let expected = if end == End::Left { model.front() } else { model.back() };
            let at = if end == End::Left { 0 } else { list.len().wrapping_sub(1) };
            assert_eq!(list.nth(at).unwrap().as_deref(), expected.map(Vec::as_slice));
            let expected = if end == End::Left { model.pop_front() } else { model.pop_back() };
            assert_eq!(list.pop(end, <[u8]>::to_vec).unwrap(), expected);
        }
        70..80 => assert_eq!(list.nth(at).unwrap().as_deref(), model.get(at).map(Vec::as_slice)),
        80..85 => {
            assert_eq!(list.set(at, &element).unwrap(), at < model.len());
            model.get_mut(at).into_iter().for_each(|old| *old = element.clone());
        }
        85..90 => {
            list.insert(at, &element).unwrap();
            model.insert(at, element);
        }
        90..94 => {
            let wanted = model.get(at).unwrap_or(&element).clone();
            let (limit, most) = (random.below(model.len() + 10), 1 + random.below(4));
            let mut found = Vec::new();
            list.find(end, &wanted, limit, &mut |place| {
                found.push(place);
                found.len() < most
            })
            .unwrap();
            let places = (0..model.len()).filter(|i| model[*i] == wanted);
            let expected: Vec<usize> = match end {
                End::Left => places.filter(|i| *i < limit).take(most).collect(),
                End::Right => places.rev().filter(|i| model.len() - i <= limit).take(most).collect(),
            };
            assert_eq!(found, expected);
        }
        94 => {
            let wanted = model.get(at).unwrap_or(&element).clone();
            let limit = *random.pick(&[1, 2, 10, usize::MAX]);
            let mut places: Vec<usize> = (0..model.len()).filter(|i| model[*i] == wanted).collect();
            if end == End::Right {
                places.reverse();
            }
            places.truncate(limit);
            places.sort_unstable();
            assert_eq!(list.remove_equal(end, &wanted, limit).unwrap(), places.len());
            places.into_iter().rev().for_each(|place| drop(model.remove(place)));
        }
        95 => {
            let iter = list.iter_from(at).take(50).map(|element| element.unwrap().to_vec());
            assert!(iter.eq(model.iter().skip(at).take(50).cloned()));
            let mut visited = Vec::new();
            list.visit(at, 300, |element| visited.push(element.to_vec())).unwrap();
            assert!(visited.iter().eq(model.iter().skip(at).take(300)));
        }
        96 if random.chance(20) => {
            let (start, end) = (random.below(model.len() / 4 + 1), model.len() - random.below(model.len() / 4 + 1));
            let mut dropped = 0;
            let before = list.len();
            list.trim(start..end, &mut |mut gone| {
                dropped += gone.len();
                while !gone.drop_step(3) {}
            })
            .unwrap();
            *model = model.drain(..).take(end).skip(start).collect();
            assert!(dropped <= before - list.len());
        }
        _ => {
            let limits = ListLimits::new(-1);
            let bytes = listpack_bytes(model);
            assert_eq!(list.exceeds(limits, 10, 1).unwrap(), bytes + 10 > 4096);
        }
    }
}

/// The bytes of a listpack with these elements: a header of six, the elements, the end.
fn listpack_bytes(model: &Model) -> usize {
    7 + model.iter().map(|element| text_size(element)).sum::<usize>()
}

/// Each check of a list holds INV-LIST-1, too.
#[test]
fn lists_do_as_the_model() {
    for seed in 0..24 {
        let random = &mut Random::new(seed);
        let kinds = [2, 3, 5, 9][seed as usize % 4];
        let (mut list, mut model) = (ListObject::new(), Model::new());
        let mut snapshots: Vec<(ListObject, Model)> = Vec::new();
        for growth in [95, 50, 10, 60, 30] {
            for _ in 0..1500 {
                step(&mut list, &mut model, random, (kinds, growth));
                if random.below(400) == 0 {
                    snapshots.push((list.clone(), model.clone()));
                }
            }
            assert_equal(&list, &model);
        }
        for (mut list, model) in snapshots {
            assert_equal(&list, &model);
            while !list.drop_step(5) {}
            assert!(list.is_empty());
        }
    }
}

#[test]
fn many_elements_are_found_trimmed_and_removed() {
    let mut list = ListObject::new();
    let mut model: Model = (0..300_000u32).map(|i| (i % 1000).to_string().into_bytes()).collect();
    model.iter().for_each(|element| list.push(End::Right, element));
    let snapshot = list.clone();
    for (start, end) in [(0, 299_000), (5000, 299_000), (3, 200_000), (150_000, 194_997), (7, 8)] {
        let len = model.len();
        let mut dropped = Vec::new();
        list.trim(start..end, &mut |gone| dropped.push(gone)).unwrap();
        model = model.into_iter().take(end).skip(start).collect();
        assert_equal(&list, &model);
        let apart: usize = dropped.iter().map(ListObject::len).sum();
        assert!(apart + 1000 > len - model.len(), "what is dropped is dropped in one");
        dropped.iter().for_each(|gone| assert!(gone.memory() > 0));
    }
    let mut list = snapshot;
    let mut found = Vec::new();
    list.find(End::Right, b"500", usize::MAX, &mut |place| {
        found.push(place);
        true
    })
    .unwrap();
    assert!(found.len() == 300 && found.iter().rev().enumerate().all(|(i, place)| *place == 1000 * i + 500));
    assert_eq!(list.remove_equal(End::Left, b"500", 100).unwrap(), 100);
    assert_eq!(list.remove_equal(End::Right, b"500", 1000).unwrap(), 200);
    list.check();
    assert_eq!((list.len(), list.remove_equal(End::Right, b"500", 1000).unwrap()), (299_700, 0));
    list.trim(0..0, &mut drop).unwrap();
    assert_equal(&list, &Model::new());
}

#[test]
fn images_come_back_and_are_told_from_others() {
    let (mut list, mut model) = (ListObject::new(), Model::new());
    let random = &mut Random::new(3);
    for _ in 0..4000 {
        let element = any_element(random, 9);
        list.push(End::Left, &element);
        model.push_front(element);
    }
    list.set_encoding(ListEncoding::ListPack);
    let snapshot: Box<dyn Any> = list.snapshot();
    let snapshot = snapshot.downcast::<ListObject>().unwrap();
    list.trim(0..10, &mut drop).unwrap();
    let (mut parts, mut cursor) = (Vec::new(), Some(ImageCursor::default()));
    while let Some(at) = cursor {
        let mut part = b"before".to_vec();
        cursor = snapshot.write_part(at, 3000, &mut part).unwrap();
        parts.push(part.split_off(6));
    }
    assert!(parts.len() > 5);
    let mut read = ListObject::new();
    let mut set = almandine_datatypes::set::SetObject::new(almandine_datatypes::set::Placement::new(2));
    for (i, part) in parts.iter().enumerate() {
        for at in 0..part.len().min(100) {
            let mut damaged = part.clone();
            damaged[at] ^= 4;
            assert_eq!(read.read_part(&damaged), Err(Damaged));
        }
        assert_eq!(set.read_part(part), Err(Damaged), "a list is no set");
        assert_eq!(read.read_part(part), Ok(i + 1 == parts.len()));
    }
    assert_equal(&read, &model);
    assert_eq!((read.encoding(), read.kind(), read.next_due()), (ListEncoding::ListPack, Kind::List, None));
}

#[test]
fn packed_lists_become_objects_and_packed_again() {
    let (mut bytes, mut model) = (Vec::new(), Model::new());
    for i in 0..60 {
        let element = if i % 2 == 0 { i.to_string() } else { format!("element {i}") };
        PackedList::push(&mut bytes, End::Right, element.as_bytes()).unwrap();
        model.push_back(element.into_bytes());
    }
    PackedList::set_encoding(&mut bytes, ListEncoding::QuickList);
    let mut object = ListObject::from_packed(&PackedList::new(&bytes));
    assert_equal(&object, &model);
    assert!(!object.pack(&mut Vec::new()).unwrap());
    for _ in 0..30 {
        assert_eq!(object.pop(End::Left, <[u8]>::to_vec).unwrap(), model.pop_front());
    }
    let mut again = b"before".to_vec();
    assert!(object.pack(&mut again).unwrap());
    let again = again.split_off(6);
    let packed = PackedList::new(&again);
    assert!(packed.is_sound(&again) && packed.encoding() == ListEncoding::QuickList);
    assert!(packed.iter().map(|element| element.to_vec()).eq(model.iter().cloned()));
    (0..100).for_each(|_| object.push(End::Left, b"x"));
    assert!(!object.pack(&mut Vec::new()).unwrap());
}
