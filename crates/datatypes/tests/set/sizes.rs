//! What sets cost in memory, by the accounts that `memory` keeps.

use almandine_base::object::Object;
use almandine_datatypes::set::{Placement, SetObject};
use almandine_testkit::random::Random;

fn filled(count: usize) -> SetObject {
    let mut set = SetObject::new(Placement::new(1));
    (0..count).for_each(|i| assert!(set.add(format!("{i:011}").as_bytes()).unwrap()));
    set
}

#[test]
fn members_take_few_bytes() {
    for (count, most) in [(2000, 20.0), (200, 21.0), (100_000, 20.0)] {
        let bytes = filled(count).memory() as f64 / count as f64;
        println!("{count} x 11: {bytes:.2} bytes per member");
        assert!(bytes <= most, "{count}: {bytes}");
    }
}

#[test]
fn churn_costs_little() {
    let random = &mut Random::new(2);
    let count = 20_000;
    let mut set = filled(count);
    let fresh = set.memory() as f64;
    for i in 0..10 * count {
        set.pop(1, &mut || random.bits(), &mut |_| {}).unwrap();
        assert!(set.add(format!("{:011}", count + i).as_bytes()).unwrap());
    }
    set.check();
    println!("after churn: {:.3} times the bytes before", set.memory() as f64 / fresh);
    assert!(set.memory() as f64 <= 1.2 * fresh);
}
