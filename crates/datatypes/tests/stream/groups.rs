//! Groups, consumers, and what is pending.

use almandine_base::object::Object;
use almandine_datatypes::stream::{NodeLimits, Pending, StreamId, StreamObject, UNOWNED};
use almandine_testkit::random::Random;

use crate::model::{Model, ModelGroup, any_id_above, append, assert_equal, owned};

const LIMITS: NodeLimits = NodeLimits { bytes: 0, entries: 10 };

/// Does something to a group of both.
fn change_group(random: &mut Random, stream: &mut StreamObject, model: &mut Model) {
    let names: Vec<Vec<u8>> = model.groups.keys().cloned().collect();
    let Some(name) = (!names.is_empty()).then(|| random.pick(&names).clone()) else { return };
    let (index, counters) = (stream.groups().find(&name).unwrap(), stream.counters().unwrap());
    let ids: Vec<StreamId> = model.entries().map(|(id, _)| *id).collect();
    let entries: Vec<_> = model.entries().map(|(id, pairs)| (*id, pairs.clone())).collect();
    let group = model.groups.get_mut(&name).unwrap();
    let consumer = format!("consumer {}", random.below(12)).into_bytes();
    let now = random.below(1000) as u64;
    match random.below(10) {
        0 => {
            let (number, is_new) = stream.groups_mut().change(index, |group| group.ensure_consumer(&consumer, now)).unwrap();
            assert_eq!(is_new, !group.consumers.contains_key(&consumer));
            stream.groups_mut().change(index, |group| group.touch(number, now, Some(now + 1))).unwrap();
            group.consumers.insert(consumer, (now, Some(now + 1)));
        }
        1 => {
            let mine = |owner: &Option<Vec<u8>>| owner.as_ref() == Some(&consumer);
            let expected = group.pending.values().filter(|(owner, ..)| mine(owner)).count() as u64;
            let is_there = group.consumers.remove(&consumer).is_some();
            assert_eq!(
                stream.groups_mut().change(index, |group| group.remove_consumer(&consumer)).unwrap().unwrap(),
                is_there.then_some(expected)
            );
            group.pending.retain(|_, (owner, ..)| !mine(owner));
        }
        2..5 => {
            let (number, _) = stream.groups_mut().change(index, |group| group.ensure_consumer(&consumer, now)).unwrap();
            group.consumers.entry(consumer.clone()).or_insert((now, None));
            let (acknowledged, count) = (random.chance(20), random.below(30));
            let mut told = Vec::new();
            let owner = (!acknowledged).then_some(number);
            let delivered = stream.deliver(index, owner, (count as u64, now), &mut |entry| told.push(owned(entry))).unwrap();
            let expected: Vec<_> = entries.into_iter().filter(|(id, _)| *id > group.last_id).take(count).collect();
            assert_eq!((delivered as usize, &told), (expected.len(), &expected));
            for (id, _) in expected {
                (group.last_id, group.read) = (id, counters.read_next(group.read, group.last_id, id));
                if !acknowledged {
                    group.pending.insert(id, (Some(consumer.clone()), now, 1));
                }
            }
        }
        5..8 if !group.pending.is_empty() => {
            let pending: Vec<StreamId> = group.pending.keys().copied().collect();
            let from = random.below(pending.len());
            for id in pending[from..].iter().take(random.below(40)) {
                assert_eq!(
                    stream.groups_mut().change(index, |group| group.acknowledge(*id)).unwrap().unwrap(),
                    group.pending.remove(id).is_some()
                );
                assert!(!stream.groups_mut().change(index, |group| group.acknowledge(*id)).unwrap().unwrap());
            }
        }
        8 if !ids.is_empty() => {
            let (id, owner) = (*random.pick(&ids), random.chance(50));
            let number = if owner {
                stream.groups_mut().change(index, |group| group.ensure_consumer(&consumer, now)).unwrap().0
            } else {
                UNOWNED
            };
            if owner {
                group.consumers.entry(consumer.clone()).or_insert((now, None));
            }
            stream
                .groups_mut()
                .change(index, |group| group.pend(Pending { id, time: now, count: 7, owner: number }))
                .unwrap()
                .unwrap();
            group.pending.insert(id, (owner.then_some(consumer), now, 7));
        }
        _ => {
            let id = ids.get(random.below(ids.len().max(1))).copied().unwrap_or(StreamId::MIN);
            stream.groups_mut().change(index, |group| group.set_read(id, None)).unwrap();
            (group.last_id, group.read) = (id, None);
        }
    }
}

pub(crate) fn build(seed: u64, steps: usize) -> (StreamObject, Model) {
    let mut random = Random::new(seed);
    let (mut stream, mut model) = (StreamObject::new(), Model::default());
    let mut snapshots: Vec<(Box<dyn Object>, Model)> = Vec::new();
    for step in 0..steps {
        match random.below(20) {
            0..5 => {
                let id = any_id_above(&mut random, model.last_id);
                let pairs = vec![(b"f".to_vec(), step.to_string().into_bytes())];
                append(&mut stream, id, &pairs, LIMITS);
                model.append(id, pairs, LIMITS.entries);
            }
            5 => {
                let name = format!("group {}", random.below(6)).into_bytes();
                let is_new = !model.groups.contains_key(&name);
                assert_eq!(stream.groups_mut().create(&name, StreamId::MIN, Some(0)), is_new);
                model.groups.entry(name).or_insert(ModelGroup { read: Some(0), ..ModelGroup::default() });
            }
            6 if random.chance(10) => {
                let name = format!("group {}", random.below(6)).into_bytes();
                assert_eq!(stream.groups_mut().remove(&name), model.groups.remove(&name).is_some());
            }
            7 => {
                let first = model.entries().next().map(|(id, _)| *id);
                first.into_iter().for_each(|id| assert_eq!(stream.remove(id).unwrap(), model.remove(id)));
            }
            8 => snapshots.push((stream.snapshot(), model.clone())),
            _ => change_group(&mut random, &mut stream, &mut model),
        }
        if step % 50 == 0 {
            assert_equal(&stream, &model);
        }
        if snapshots.len() > 3 {
            let (snapshot, model) = snapshots.remove(random.below(4));
            assert_equal((&*snapshot as &dyn std::any::Any).downcast_ref().unwrap(), &model);
        }
    }
    assert_equal(&stream, &model);
    (stream, model)
}

#[test]
fn as_a_naive_one() {
    for seed in 0..8 {
        build(seed, 2000);
    }
}

#[test]
fn references() {
    let mut stream = StreamObject::new();
    let id = |ms| StreamId::new(ms, 0);
    (1..=3).for_each(|ms| append(&mut stream, id(ms), &vec![(b"f".to_vec(), b"v".to_vec())], LIMITS));
    assert!(!stream.groups().is_referenced(id(1)).unwrap());
    assert!(stream.groups_mut().create(b"one", StreamId::MIN, None) && stream.groups_mut().create(b"two", id(2), None));
    // No consumer of the first group has read it.
    assert!(stream.groups().is_referenced(id(1)).unwrap());
    let (consumer, _) = stream.groups_mut().change(0, |group| group.ensure_consumer(b"c", 0)).unwrap();
    stream.deliver(0, Some(consumer), (2, 0), &mut |_| ()).unwrap();
    assert!(stream.groups().is_referenced(id(1)).unwrap());
    assert!(stream.groups_mut().change(0, |group| group.acknowledge(id(1))).unwrap().unwrap());
    assert!(!stream.groups().is_referenced(id(1)).unwrap());
    stream.groups_mut().change(1, |group| group.pend(Pending { id: id(2), time: 0, count: 1, owner: UNOWNED })).unwrap().unwrap();
    let mut acknowledge = |group| stream.groups_mut().change(group, |group| group.acknowledge(id(2))).unwrap().unwrap();
    assert!(acknowledge(0) && acknowledge(1));
    assert!(!stream.groups().is_referenced(id(2)).unwrap());
}
