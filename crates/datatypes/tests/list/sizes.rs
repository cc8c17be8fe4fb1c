//! What lists cost in memory, by the accounts that `memory` keeps.

use almandine_base::object::Object;
use almandine_datatypes::list::{End, ListObject};
use almandine_testkit::random::Random;

fn filled(count: usize, len: usize, end: End) -> ListObject {
    let mut list = ListObject::new();
    (0..count).for_each(|i| list.push(end, format!("{i:0len$}").as_bytes()));
    list
}

#[test]
fn elements_take_few_bytes() {
    for (count, len, most) in [(10_000, 8, 11.0), (1000, 8, 12.0), (100, 8, 15.0), (10_000, 100, 112.0), (10_000, 600, 660.0)] {
        for end in [End::Left, End::Right] {
            let bytes = filled(count, len, end).memory() as f64 / count as f64;
            println!("{count} x {len}, {end:?}: {bytes:.2} bytes per element");
            assert!(bytes <= most, "{count}: {bytes}");
        }
    }
}

#[test]
fn churn_costs_little() {
    let random = &mut Random::new(2);
    let count = 10_000;
    let mut list = filled(count, 8, End::Left);
    let fresh = list.memory() as f64;
    for i in 0..10 * count {
        list.push(End::Left, format!("{i:08}").as_bytes());
        assert!(list.pop(End::Right, |_| ()).unwrap().is_some());
    }
    println!("after a queue's churn: {:.3} times the bytes before", list.memory() as f64 / fresh);
    assert!(list.memory() as f64 <= 1.2 * fresh);
    let mut gone = 0;
    for i in 0..count {
        let pivot = list.nth(random.below(list.len())).unwrap().unwrap().to_vec();
        list.insert(random.below(list.len()), format!("{i:08}").as_bytes()).unwrap();
        gone += list.remove_equal(End::Left, &pivot, 1).unwrap();
    }
    list.check();
    println!("after another in the middle: {:.3}", list.memory() as f64 / fresh);
    assert!(gone == count && list.memory() as f64 <= 1.5 * fresh);
}
