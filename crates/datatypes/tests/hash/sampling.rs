//! Random fields: different ones, each as likely as any other.

use std::collections::BTreeMap;

use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::Due;
use almandine_testkit::random::Random;

#[test]
fn samples_are_distinct_and_uniform() {
    let mut hash = HashObject::new(Placement::new(9));
    assert_eq!(hash.nth(0).unwrap(), None);
    for i in 0..1000u32 {
        // Half of the fields have values that leave room for few in a chunk.
        hash.set(&i.to_le_bytes(), &vec![0; if i % 2 == 0 { 2 } else { 600 }], Due::Keep).unwrap();
    }
    let mut random = Random::new(1);
    for count in [0, 1, 7, 100, 249, 250, 600, 999, 1000, 2000] {
        let mut times: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let rounds = 40_000 / (count + 40);
        for _ in 0..rounds {
            let mut sample = Vec::new();
            hash.sample(count, &mut || random.bits(), &mut |entry| sample.push(entry.field.to_vec())).unwrap();
            let len = sample.len();
            sample.sort();
            sample.dedup();
            assert_eq!((sample.len(), len), (count.min(1000), count.min(1000)));
            sample.into_iter().for_each(|field| *times.entry(field).or_default() += 1);
        }
        if count >= 100 {
            let mean = (rounds * count.min(1000)) as f64 / 1000.0;
            let worst = times.values().map(|times| (*times as f64 - mean).abs()).fold(0.0, f64::max);
            assert!(times.len() == 1000 && worst < 6.0 * mean.sqrt() + 1.0, "{count}: {worst} from {mean}");
        }
    }
}

#[test]
fn ranks_are_the_order_of_iteration() {
    for count in [0, 1, 65, 3000, 20_000u32] {
        let mut hash = HashObject::new(Placement::new(9));
        for i in 0..count {
            hash.set(&i.to_le_bytes(), b"v", Due::Keep).unwrap();
        }
        let all: Vec<_> = hash.iter().map(|entry| entry.unwrap()).collect();
        for rank in (0..all.len()).step_by(1 + all.len() / 200) {
            assert_eq!(hash.nth(rank).unwrap(), Some(all[rank]));
            assert!(hash.iter_from(rank).map(Result::unwrap).take(200).eq(all[rank..].iter().copied().take(200)));
        }
        assert_eq!(hash.nth(all.len()).unwrap(), None);
        assert!(hash.iter_from(all.len()).next().is_none() && hash.iter_from(usize::MAX).next().is_none());
    }
}
