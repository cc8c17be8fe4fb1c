//! What sorted sets cost in memory, by the accounts that `memory` keeps.

use almandine_base::object::Object;
use almandine_datatypes::sorted_set::{Placement, SortedSetObject};
use almandine_testkit::random::Random;

/// Members of 13 bytes with scores that a function of their number gives.
fn filled(count: usize, score: &mut dyn FnMut(usize) -> f64) -> SortedSetObject {
    let mut set = SortedSetObject::new(Placement::new(1));
    for i in 0..count {
        set.set(format!("{i:013}").as_bytes(), score(i)).unwrap();
    }
    set
}

#[test]
fn members_take_few_bytes() {
    let random = &mut Random::new(5);
    for (count, name, most) in [
        (2000, "small integers", 42.0),
        (2000, "random integers", 42.0),
        (2000, "milliseconds", 46.0),
        (2000, "fractions", 47.0),
        (2000, "equal", 42.0),
        (100_000, "random integers", 42.0),
        (100_000, "fractions", 46.0),
    ] {
        let set = filled(count, &mut |i| match name {
            "small integers" => i as f64,
            "random integers" => random.below(1_000_000) as f64,
            "milliseconds" => 1_700_000_000_000.0 + random.below(1 << 30) as f64,
            "fractions" => random.bits() as f64 / 3e19,
            _ => 0.0,
        });
        let bytes = set.memory() as f64 / count as f64;
        println!("{count} x 13, {name}: {bytes:.2} bytes per member");
        assert!(bytes <= most, "{count}, {name}: {bytes}");
    }
}

#[test]
fn churn_costs_little() {
    let random = &mut Random::new(2);
    let count = 20_000;
    let mut set = filled(count, &mut |_| random.below(1_000_000) as f64);
    let fresh = set.memory() as f64;
    for i in 0..10 * count {
        let rank = random.below(set.len());
        assert!(set.remove_nth(rank, &mut |_| {}).unwrap());
        set.set(format!("{:013}", count + i).as_bytes(), random.below(1_000_000) as f64).unwrap();
    }
    println!("after churn: {:.3} times the bytes before", set.memory() as f64 / fresh);
    assert!(set.memory() as f64 <= 1.2 * fresh);
    for i in 0..5 * count {
        let member = format!("{:013}", 10 * count + random.below(count));
        set.set(member.as_bytes(), (random.below(1_000_000) + i) as f64).unwrap();
    }
    set.check();
    let by_itself = filled(set.len(), &mut |_| random.below(1_000_000) as f64).memory() as f64;
    println!("after new scores: {:.3} times", set.memory() as f64 / by_itself);
    assert!(set.memory() as f64 <= 1.2 * by_itself);
}
