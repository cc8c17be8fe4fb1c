//! A naive sorted set, and the comparison with ours.

use std::collections::BTreeMap;

use almandine_base::object::Object;
use almandine_datatypes::sorted_set::{Scored, SortedSetObject, Update};
use almandine_testkit::random::Random;

/// A member with score and expiry.
pub(crate) type Owned = (Vec<u8>, f64, Option<u64>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Model(pub(crate) BTreeMap<Vec<u8>, (f64, Option<u64>)>);

impl Model {
    pub(crate) fn set(&mut self, member: &[u8], score: f64) -> Update {
        match self.0.get_mut(member) {
            None => {
                self.0.insert(member.to_vec(), (score, None));
                Update::Added
            }
            Some((before, _)) if *before == score => Update::Same,
            Some((before, _)) => {
                *before = score;
                Update::Changed
            }
        }
    }

    /// All members in order.
    pub(crate) fn sorted(&self) -> Vec<Owned> {
        let mut all: Vec<Owned> = self.0.iter().map(|(member, (score, due))| (member.clone(), *score, *due)).collect();
        // Members are in the order of their bytes already.
        all.sort_by(|one, other| one.1.partial_cmp(&other.1).unwrap());
        all
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.0.values().filter_map(|(_, due)| *due).min()
    }
}

pub(crate) fn owned(entry: Scored) -> Owned {
    (entry.member.to_vec(), entry.score, entry.due)
}

/// Zeroes differ by their signs here.
pub(crate) fn same(one: &[Owned], other: &[Owned]) -> bool {
    one == other && one.iter().zip(other).all(|(one, other)| one.1.to_bits() == other.1.to_bits())
}

pub(crate) fn assert_equal(set: &SortedSetObject, model: &Model) {
    set.check();
    assert_eq!((set.len(), set.next_due()), (model.0.len(), model.next_due()));
    let (all, expected): (Vec<Owned>, _) = (set.order().iter().map(|entry| owned(entry.unwrap())).collect(), model.sorted());
    assert!(same(&all, &expected), "the members differ");
    assert!(set.order().iter_back(usize::MAX).map(|entry| owned(entry.unwrap())).eq(expected.into_iter().rev()));
}

/// Scores of which many are equal, or few.
pub(crate) fn any_score(random: &mut Random, kinds: usize) -> f64 {
    match random.below(kinds) {
        0 => *random.pick(&[0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY]),
        1 => random.below(20) as f64,
        2 => random.below(100_000) as f64 - 50_000.0,
        3 => 1_700_000_000_000.0 + random.below(1_000_000) as f64,
        _ => (random.bits() >> 11) as f64 / 1e9,
    }
}
