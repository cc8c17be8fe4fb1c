//! Ranks and ranges: by place, by score, by member.

use almandine_datatypes::sorted_set::{Edge, Placement, SortedSetObject, Update};
use almandine_testkit::random::Random;

use crate::model::{Model, any_score, owned};

#[test]
fn ranks_and_edges_are_those_of_the_order() {
    for seed in 0..15 {
        let random = &mut Random::new(seed);
        let kinds = 1 + seed as usize % 5;
        let count = [0, 1, 64, 65, 900, 5000][random.below(6)];
        let (mut set, mut model) = (SortedSetObject::new(Placement::new(seed)), Model::default());
        for _ in 0..count {
            let (member, score) = (random.below(100_000).to_string().into_bytes(), any_score(random, kinds));
            assert_eq!(set.set(&member, score).unwrap(), model.set(&member, score));
        }
        let all = model.sorted();
        for rank in (0..all.len()).step_by(1 + all.len() / 300) {
            let (member, score, _) = &all[rank];
            let (found, entry) = set.rank(member).unwrap().unwrap();
            assert_eq!((found, owned(entry)), (rank, all[rank].clone()));
            assert_eq!(owned(set.order().nth(rank).unwrap().unwrap()), all[rank]);
            assert!(set.order().iter_from(rank).take(150).map(|e| owned(e.unwrap())).eq(all[rank..].iter().take(150).cloned()));
            assert!(
                set.order().iter_back(rank).take(150).map(|e| owned(e.unwrap())).eq(all[..rank].iter().rev().take(150).cloned())
            );
            let below = |is_below: &dyn Fn(f64, &[u8]) -> bool| all.iter().filter(|(m, s, _)| is_below(*s, m)).count();
            let other = any_score(random, kinds);
            for score in [*score, other, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0] {
                assert_eq!(set.order().rank_of(&Edge::before_score(score)).unwrap(), below(&|s, _| s < score));
                assert_eq!(set.order().rank_of(&Edge::behind_score(score)).unwrap(), below(&|s, _| s <= score));
            }
            let absent = random.below(100_000).to_string().into_bytes();
            for member in [member, &absent, &Vec::new()] {
                let before = below(&|s, m| s < *score || (s == *score && m < &member[..]));
                let behind = below(&|s, m| s < *score || (s == *score && m <= &member[..]));
                assert_eq!(set.order().rank_of(&Edge::before_member(*score, member)).unwrap(), before);
                assert_eq!(set.order().rank_of(&Edge::behind_member(*score, member)).unwrap(), behind);
            }
        }
        assert!(set.order().nth(all.len()).unwrap().is_none() && set.order().iter_from(all.len()).next().is_none());
        assert!(set.order().iter_back(0).next().is_none());
    }
}

#[test]
fn equal_scores_order_by_bytes_also_where_members_begin_alike() {
    let mut set = SortedSetObject::new(Placement::new(1));
    let mut members: Vec<Vec<u8>> = Vec::new();
    for i in 0..3000 {
        let len = i % 40;
        members.push([vec![b'p'; len], i.to_string().into_bytes()].concat());
    }
    for member in &members {
        assert_eq!(set.set(member, 0.0).unwrap(), Update::Added);
    }
    set.check();
    members.sort();
    assert!(set.order().iter().map(|entry| entry.unwrap().member.to_vec()).eq(members));
}

#[test]
fn zeroes_are_equal_and_the_first_one_stays() {
    let mut set = SortedSetObject::new(Placement::new(1));
    assert_eq!(set.set(b"b", -0.0).unwrap(), Update::Added);
    assert_eq!(set.set(b"a", 0.0).unwrap(), Update::Added);
    assert_eq!(set.set(b"b", 0.0).unwrap(), Update::Same);
    let all: Vec<_> = set.order().iter().map(|entry| entry.unwrap()).map(|entry| (entry.member, entry.score.to_bits())).collect();
    assert_eq!(all, [(&b"a"[..], 0), (b"b", 1 << 63)]);
    set.check();
    assert_eq!(set.remove(b"b").unwrap().map(f64::to_bits), Some(1 << 63));
}
