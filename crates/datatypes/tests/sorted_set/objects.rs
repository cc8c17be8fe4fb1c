//! Random streams of operations. INV-TREE-1 and INV-ZSET-1 are checked throughout, INV-TREE-2 by snapshots that are compared when
//! they end.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use almandine_base::object::{Damaged, ImageCursor, Kind, Object};
use almandine_datatypes::sorted_set::{
    Assembly, PackedSortedSet, Placement, Scored, SortedSetEncoding, SortedSetObject, Tally, Update,
};
use almandine_testkit::random::Random;

use crate::model::{Model, Owned, any_score, assert_equal, owned};

struct Run {
    random: Random,
    set: SortedSetObject,
    model: Model,
    members: usize,
    kinds: usize,
}

impl Run {
    fn new(seed: u64, placement: Placement) -> Self {
        let mut random = Random::new(seed);
        let members = *random.pick(&[60, 600, 6000]);
        let kinds = 1 + (seed as usize / 2) % 5;
        Self { random, set: SortedSetObject::new(placement), model: Model::default(), members, kinds }
    }

    fn member(&mut self) -> Vec<u8> {
        let number = self.random.below(self.members);
        let pad = match number % 97 {
            0 => 9000,
            1 => 130,
            _ => 0,
        };
        [number.to_string().as_bytes(), &vec![b'x'; pad]].concat()
    }

    /// One operation; of those that add and remove, `growth` of 100 add.
    fn step(&mut self, growth: usize) {
        let member = self.member();
        match self.random.below(100) {
            0..70 if self.random.chance(growth) => {
                let score = any_score(&mut self.random, self.kinds);
                assert_eq!(self.set.set(&member, score).unwrap(), self.model.set(&member, score));
            }
            0..60 => {
                let gone = self.model.0.remove(&member).map(|(score, _)| score);
                assert_eq!(self.set.remove(&member).unwrap(), gone);
            }
            60..70 => {
                let rank = self.random.below(self.model.0.len() + 1);
                let mut taken = None;
                let was = self.set.remove_nth(rank, &mut |entry| taken = Some(owned(entry))).unwrap();
                assert_eq!(was, rank < self.model.0.len());
                if let Some((member, score, due)) = taken {
                    assert_eq!(self.model.0.remove(&member), Some((score, due)));
                }
            }
            70..78 => {
                let due = self.random.chance(50).then(|| 1 + self.random.below(1000) as u64);
                let has = self.model.0.get_mut(&member).map(|(_, old)| *old = due).is_some();
                assert_eq!(self.set.set_due(&member, due).unwrap(), has);
            }
            78 if self.random.chance(10) => self.expire(),
            _ => {
                let found = self.set.find(&member).unwrap().map(|entry| (entry.score, entry.due));
                assert_eq!(found.as_ref(), self.model.0.get(&member));
            }
        }
    }

    fn expire(&mut self) {
        let (now, limit) = (self.random.below(600) as u64, self.random.below(200));
        let mut removed = Vec::new();
        let count = self.set.expire(now, limit, &mut |member| removed.push(member.to_vec())).unwrap();
        assert_eq!(count, removed.len());
        for member in removed {
            let (_, due) = self.model.0.remove(&member).expect("what expires was there");
            assert!(due.is_some_and(|due| due <= now));
        }
        let due = self.model.0.values().filter(|(_, due)| due.is_some_and(|due| due <= now)).count();
        assert!(count == limit || due == 0, "{due} are left");
    }
}

#[test]
fn sorted_sets_do_as_the_model() {
    for seed in 0..20 {
        let bits = [64, 64, 64, 40, 36, 64, 64, 64, 33, 64][seed as usize % 10];
        let mut run = Run::new(seed, Placement::weak(seed, bits.min(if seed == 8 { 6 } else { 64 })));
        let mut snapshots = Vec::new();
        for growth in [90, 50, 20, 70, 5] {
            for step in 0..3000 {
                run.step(growth);
                if step % 1000 == 0 {
                    run.set.check();
                    snapshots.push((run.set.clone(), run.model.clone()));
                }
            }
            assert_equal(&run.set, &run.model);
        }
        for (mut set, model) in snapshots {
            assert_equal(&set, &model);
            while !set.drop_step(3) {}
            assert!(set.is_empty() && set.memory() < 1500);
        }
    }
}

#[test]
fn a_write_after_a_snapshot_copies_one_path() {
    let mut set = SortedSetObject::new(Placement::new(5));
    (0..50_000u32).for_each(|i| _ = set.set(&i.to_le_bytes(), f64::from(i)).unwrap());
    let place = |set: &SortedSetObject, i: u32| set.find(&i.to_le_bytes()).unwrap().unwrap().member.as_ptr();
    let snapshot = set.clone();
    let before: Vec<_> = (0..50_000).map(|i| place(&set, i)).collect();
    set.set(&777u32.to_le_bytes(), 777.5).unwrap();
    let moved = (0..50_000).filter(|i| place(&set, *i) != before[*i as usize]).count();
    assert!((1..=64).contains(&moved), "{moved} members have moved");
    assert!((0..50_000).all(|i| place(&snapshot, i) == before[i as usize]), "INV-TREE-2: nothing of a snapshot moves");
}

#[test]
fn a_scan_sees_what_stays_whatever_its_score_becomes() {
    for seed in 0..20 {
        let random = &mut Random::new(seed);
        let kinds = 1 + seed as usize % 5;
        let mut set = SortedSetObject::new(Placement::new(seed));
        (0..3000u32).for_each(|i| _ = set.set(&i.to_le_bytes(), any_score(random, kinds)).unwrap());
        let (mut seen, mut cursor, mut next, mut calls) = (BTreeSet::new(), 0, 5000u32, 0);
        loop {
            cursor = set.scan(cursor, 1 + random.below(100), &mut |entry| _ = seen.insert(entry.member.to_vec())).unwrap();
            calls += 1;
            if cursor == 0 {
                break;
            }
            for _ in 0..200 {
                let member = (random.below(3000) as u32).to_le_bytes();
                set.set(&member, any_score(random, kinds)).unwrap();
            }
            // It grows for a while only, or the scan would never end.
            for _ in 0..if next < 9000 { 400 } else { 0 } {
                next += 1;
                set.set(&next.to_le_bytes(), any_score(random, kinds)).unwrap();
            }
        }
        assert!((0..3000u32).all(|i| seen.contains(&i.to_le_bytes()[..])), "seed {seed}");
        assert!(calls > 10, "{calls}");
        assert_eq!(set.scan(u64::MAX, 1, &mut |_| {}).unwrap(), 0, "any number is a cursor");
    }
}

#[test]
fn members_are_drawn_uniformly() {
    let mut set = SortedSetObject::new(Placement::new(9));
    (0..500u32).for_each(|i| _ = set.set(&i.to_le_bytes(), f64::from(i % 7)).unwrap());
    let random = &mut Random::new(4);
    for count in [50, 200, 600] {
        let mut times: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for _ in 0..400 {
            let mut sample = BTreeSet::new();
            set.order().sample(count, &mut || random.bits(), &mut |entry| assert!(sample.insert(entry.member.to_vec()))).unwrap();
            assert_eq!(sample.len(), count.min(500));
            sample.into_iter().for_each(|member| *times.entry(member).or_default() += 1);
        }
        let mean = 400 * count.min(500) / 500;
        let worst = times.values().map(|times| times.abs_diff(mean)).max();
        assert!(times.len() == 500 && worst < Some(60), "{worst:?} from {mean}");
    }
}

fn parts(set: &SortedSetObject, limit: usize) -> Vec<Vec<u8>> {
    let (mut parts, mut cursor) = (Vec::new(), Some(ImageCursor::default()));
    while let Some(at) = cursor {
        let mut part = b"before".to_vec();
        cursor = set.write_part(at, limit, &mut part).unwrap();
        parts.push(part.split_off(6));
    }
    parts
}

#[test]
fn images_come_back() {
    let random = &mut Random::new(1);
    for (count, limit) in [(0, 100), (1, 1), (70, 1), (3000, 1), (3000, 10_000), (3000, usize::MAX)] {
        let (mut set, mut model) = (SortedSetObject::new(Placement::new(1)), Model::default());
        for i in 0..count {
            let (member, score, due) = (i.to_string().into_bytes(), any_score(random, 5), random.chance(10).then_some(9 + i));
            model.set(&member, score);
            set.set(&member, score).unwrap();
            set.set_due(&member, due).unwrap();
            model.0.get_mut(&member).unwrap().1 = due;
        }
        set.set_encoding(SortedSetEncoding::ListPack);
        let snapshot: Box<dyn Any> = set.snapshot();
        let snapshot = snapshot.downcast::<SortedSetObject>().unwrap();
        for _ in 0..count {
            set.remove_nth(0, &mut |_| {}).unwrap();
        }
        let all = parts(&snapshot, limit);
        let mut read = SortedSetObject::new(Placement::new(2));
        for (i, part) in all.iter().enumerate() {
            let (at, len) = (random.below(part.len()), read.len());
            let mut damaged = part.clone();
            damaged[at] ^= 1 << random.below(8);
            assert_eq!((read.read_part(&damaged), read.len()), (Err(Damaged), len));
            assert_eq!(read.read_part(part), Ok(i + 1 == all.len()));
        }
        assert_equal(&read, &model);
        assert_eq!((read.encoding(), read.kind()), (SortedSetEncoding::ListPack, Kind::SortedSet));
    }
}

#[test]
fn packed_sorted_sets_become_objects_and_packed_again() {
    let (mut bytes, mut model) = (Vec::new(), Model::default());
    for i in 0..60u32 {
        let (member, score) = (i.to_le_bytes(), f64::from(i % 9) / 2.0);
        PackedSortedSet::set(&mut bytes, &member, score).unwrap();
        model.set(&member, score);
    }
    assert_eq!(PackedSortedSet::set_due(&mut bytes, &7u32.to_le_bytes(), Some(99)), Ok(true));
    model.0.get_mut(&7u32.to_le_bytes()[..]).unwrap().1 = Some(99);
    PackedSortedSet::set_encoding(&mut bytes, SortedSetEncoding::SkipList);
    let mut object = SortedSetObject::from_packed(&PackedSortedSet::new(&bytes), Placement::new(3));
    assert_equal(&object, &model);
    let mut again = b"before".to_vec();
    assert!(!object.pack(&mut again).unwrap());
    while object.len() > 32 {
        assert!(object.remove_nth(5, &mut |entry| assert!(PackedSortedSet::remove(&mut bytes, entry.member).is_some())).unwrap());
    }
    assert!(object.pack(&mut again).unwrap());
    assert_eq!(again[6..], bytes[..]);
    object.set(&[b'x'; 20_000], 5.0).unwrap();
    assert!(!object.pack(&mut Vec::new()).unwrap());
    let all: Vec<Owned> = object.order().iter().map(|entry| owned(entry.unwrap())).collect();
    assert_eq!(all.len(), 33);
}

/// What is made at once of members in order, or in steps of a tally, is what single writes make.
#[test]
fn what_is_made_at_once_is_what_single_writes_make() {
    for (seed, count) in [(1, 1), (2, 48), (3, 49), (4, 700), (5, 9000)] {
        let random = &mut Random::new(seed);
        let placement = if seed == 4 { Placement::weak(seed, 5) } else { Placement::new(seed) };
        let (mut model, mut tally) = (Model::default(), Tally::new(placement));
        for _ in 0..count {
            let mut member = random.below(100_000).to_string().into_bytes();
            if random.chance(1) {
                member.resize(7_000, b'x');
            }
            let score = any_score(random, 1 + seed as usize % 5);
            if model.set(&member, score) == Update::Added {
                tally.push(&member, score);
            }
        }
        model.0.iter().for_each(|(member, (score, _))| tally.push(&[&member[..], b"+"].concat(), *score));
        let all = model.sorted();
        let scored = |(member, score, due): &'static Owned| Scored { member, score: *score, due: *due };
        let leaked: &'static [Owned] = Box::leak(all.into_boxed_slice());
        let mut object = SortedSetObject::from_ascending(leaked.iter().map(scored), placement);
        assert_equal(&object, &model);
        for n in 0..2000 {
            let (member, score) = (random.below(100_000).to_string().into_bytes(), random.below(50) as f64);
            if n % 2 == 0 {
                assert_eq!(object.set(&member, score).unwrap(), model.set(&member, score));
            } else {
                assert_eq!(object.remove(&member).unwrap(), model.0.remove(&member).map(|(score, _)| score));
            }
        }
        assert_equal(&object, &model);
        let (mut assembly, len) = (Assembly::new(&tally), tally.len());
        while !assembly.step(&mut tally, 100) {}
        let (object, longest) = assembly.finish();
        object.check();
        assert_eq!((object.len(), object.order().iter().map(|entry| entry.unwrap().member.len()).max()), (len, Some(longest)));
    }
}
