//! Large sets. What they share with hashes is tested with those; here is what sets do with it.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use almandine_base::object::{Damaged, ImageCursor, Kind, Object};
use almandine_datatypes::set::{PackedSet, Placement, SetEncoding, SetObject};
use almandine_testkit::random::Random;

type Model = BTreeSet<Vec<u8>>;

fn assert_equal(set: &SetObject, model: &Model) {
    set.check();
    let all: Model = set.iter().map(|member| member.unwrap().to_vec()).collect();
    assert_eq!((set.len(), set.elements()), (model.len(), model.len()));
    assert!(all == *model, "the members differ");
}

#[test]
fn sets_do_as_the_model() {
    for seed in 0..16 {
        let random = &mut Random::new(seed);
        let bits = [64, 64, 64, 8][seed as usize % 4];
        let members = *random.pick(&[100, 3000, 20_000]);
        let (mut set, mut model) = (SetObject::new(Placement::weak(seed, bits)), Model::new());
        let mut snapshots: Vec<(SetObject, Model)> = Vec::new();
        for growth in [90, 50, 20, 60] {
            for _ in 0..6000 {
                let number = random.below(members);
                let member = [number.to_string().as_bytes(), &vec![b'x'; if number.is_multiple_of(50) { 400 } else { 0 }]].concat();
                assert_eq!(set.contains(&member).unwrap(), model.contains(&member));
                if random.chance(growth) {
                    assert_eq!(set.add(&member).unwrap(), model.insert(member));
                } else {
                    assert_eq!(set.remove(&member).unwrap(), model.remove(&member));
                }
                if random.below(2000) == 0 {
                    snapshots.push((set.clone(), model.clone()));
                }
            }
            assert_equal(&set, &model);
        }
        for (mut set, model) in snapshots {
            assert_equal(&set, &model);
            while !set.drop_step(5) {}
            assert!(set.is_empty());
        }
    }
}

#[test]
fn adding_what_is_there_copies_nothing() {
    let mut set = SetObject::new(Placement::new(5));
    (0..1000u32).for_each(|i| assert!(set.add(&i.to_le_bytes()).unwrap()));
    let place = |set: &SetObject| set.nth(500).unwrap().unwrap().as_ptr();
    let (snapshot, before) = (set.clone(), place(&set));
    (0..1000u32).for_each(|i| assert!(!set.add(&i.to_le_bytes()).unwrap()));
    assert_eq!((place(&set), place(&snapshot)), (before, before));
}

#[test]
fn members_are_drawn_uniformly_and_popped() {
    let mut set = SetObject::new(Placement::new(9));
    (0..500u32).for_each(|i| assert!(set.add(&i.to_le_bytes()).unwrap()));
    let random = &mut Random::new(4);
    let mut times: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for _ in 0..400 {
        let mut popped = Model::new();
        let mut copy = set.clone();
        copy.pop(100, &mut || random.bits(), &mut |member| assert!(popped.insert(member.to_vec()))).unwrap();
        assert_eq!((copy.len(), popped.len()), (400, 100));
        assert!(popped.iter().all(|member| !copy.contains(member).unwrap()));
        set.sample(100, &mut || random.bits(), &mut |member| {
            popped.insert(member.to_vec());
        })
        .unwrap();
        popped.into_iter().for_each(|member| *times.entry(member).or_default() += 1);
        times.entry(set.nth(random.below(set.len())).unwrap().unwrap().to_vec()).and_modify(|times| *times += 1).or_default();
    }
    // Each is among 100 or 100 of 500 with a chance of 0.36.
    let worst = times.values().map(|times| times.abs_diff(145)).max();
    assert!(times.len() == 500 && worst < Some(60), "{worst:?}");
    set.pop(1000, &mut || random.bits(), &mut |_| {}).unwrap();
    assert!(set.is_empty() && set.nth(0).unwrap().is_none());
}

#[test]
fn a_scan_sees_what_stays() {
    for seed in 0..20 {
        let random = &mut Random::new(seed);
        let mut set = SetObject::new(Placement::new(seed));
        (0..400u32).for_each(|i| assert!(set.add(&i.to_le_bytes()).unwrap()));
        let (mut seen, mut cursor, mut next) = (Model::new(), 0, 1000u32);
        loop {
            cursor = set
                .scan(cursor, 1 + random.below(100), &mut |member| {
                    seen.insert(member.to_vec());
                })
                .unwrap();
            if cursor == 0 {
                break;
            }
            // It grows for a while only, or the scan would never end.
            for _ in 0..if next < 20_000 { random.below(2000) } else { 0 } {
                next += 1;
                set.add(&next.to_le_bytes()).unwrap();
            }
        }
        assert!((0..400u32).all(|i| seen.contains(&i.to_le_bytes()[..])));
    }
}

#[test]
fn images_come_back_and_are_told_from_others() {
    let mut set = SetObject::new(Placement::new(1));
    let model: Model = (0..5000u32).map(|i| i.to_string().into_bytes()).collect();
    model.iter().for_each(|member| assert!(set.add(member).unwrap()));
    set.set_encoding(SetEncoding::ListPack);
    let snapshot: Box<dyn Any> = set.snapshot();
    let snapshot = snapshot.downcast::<SetObject>().unwrap();
    set.pop(4000, &mut || 77, &mut |_| {}).unwrap();
    let (mut parts, mut cursor) = (Vec::new(), Some(ImageCursor::default()));
    while let Some(at) = cursor {
        let mut part = b"before".to_vec();
        cursor = snapshot.write_part(at, 3000, &mut part).unwrap();
        parts.push(part.split_off(6));
    }
    assert!(parts.len() > 5);
    let mut read = SetObject::new(Placement::new(2));
    let mut hash = almandine_datatypes::hash::HashObject::new(Placement::new(2));
    for (i, part) in parts.iter().enumerate() {
        for at in 0..part.len().min(200) {
            let mut damaged = part.clone();
            damaged[at] ^= 4;
            assert_eq!(read.read_part(&damaged), Err(Damaged));
        }
        assert_eq!(hash.read_part(part), Err(Damaged), "a set is no hash");
        assert_eq!(read.read_part(part), Ok(i + 1 == parts.len()));
    }
    assert_equal(&read, &model);
    assert_eq!((read.encoding(), read.kind(), read.next_due()), (SetEncoding::ListPack, Kind::Set, None));
}

#[test]
fn packed_sets_become_objects_and_packed_again() {
    for texts in [false, true] {
        let mut bytes = Vec::new();
        let mut model: Model = (0..50).map(|i: i32| (i * i - 40).to_string().into_bytes()).collect();
        if texts {
            model.insert(b"text".to_vec());
        }
        model.iter().for_each(|member| assert_eq!(PackedSet::add(&mut bytes, member), Ok(true)));
        PackedSet::set_encoding(&mut bytes, SetEncoding::HashTable);
        let mut object = SetObject::from_packed(&PackedSet::new(&bytes), Placement::new(3));
        assert_equal(&object, &model);
        let mut again = b"before".to_vec();
        assert!(!object.pack(&mut again).unwrap());
        object.pop(20, &mut || 5, &mut |member| assert!(model.remove(member))).unwrap();
        assert!(object.pack(&mut again).unwrap());
        let again = again.split_off(6);
        let packed = PackedSet::new(&again);
        assert!(packed.is_sound(&again) && packed.encoding() == SetEncoding::HashTable);
        assert_eq!(packed.iter().map(|member| member.to_vec()).collect::<Model>(), model);
        (0..100u32).for_each(|i| assert!(object.add(&i.to_le_bytes()).unwrap()));
        assert!(!object.pack(&mut Vec::new()).unwrap());
    }
}
