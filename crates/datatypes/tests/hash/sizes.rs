//! What hashes cost in memory, by the accounts that `memory` keeps: each allocation with what the allocator rounds it to.

use almandine_base::object::Object;
use almandine_datatypes::hash::{HashObject, Placement};
use almandine_datatypes::packed::Due;
use almandine_testkit::random::Random;

fn filled(count: usize, value: usize) -> HashObject {
    let mut hash = HashObject::new(Placement::new(1));
    for i in 0..count {
        hash.set(format!("{i:011}").as_bytes(), &vec![b'v'; value], Due::Keep).unwrap();
    }
    hash
}

#[test]
fn fields_take_few_bytes() {
    for (count, most) in [(2000, 34.0), (200, 34.0), (100_000, 32.0)] {
        let bytes = filled(count, 10).memory() as f64 / count as f64;
        println!("{count} x (11 + 10): {bytes:.2} bytes per field");
        assert!(bytes <= most, "{count}: {bytes}");
    }
}

#[test]
fn churn_costs_little() {
    let random = &mut Random::new(2);
    let (count, mut next) = (20_000, 20_000);
    let mut hash = filled(count, 10);
    let fresh = hash.memory() as f64;
    let mut live: Vec<usize> = (0..count).collect();
    for _ in 0..10 * count {
        let at = random.below(count);
        assert!(hash.remove(format!("{:011}", live[at]).as_bytes()).unwrap());
        assert!(hash.set(format!("{next:011}").as_bytes(), b"0123456789", Due::Keep).unwrap());
        live[at] = next;
        next += 1;
    }
    hash.check();
    let churned = hash.memory() as f64;
    println!("after churn: {:.3} times the bytes before", churned / fresh);
    assert!(churned <= 1.2 * fresh);
    // Nine of ten go, and what remains takes no more than 1.2 times what it would take by itself.
    for i in live.drain(count / 10..) {
        assert!(hash.remove(format!("{i:011}").as_bytes()).unwrap());
    }
    let by_itself = filled(count / 10, 10).memory() as f64;
    println!("after shrinking: {:.3} times", hash.memory() as f64 / by_itself);
    assert!(hash.memory() as f64 <= 1.2 * by_itself);
}

#[test]
fn values_that_become_short_give_their_memory_back() {
    let mut hash = filled(2000, 700);
    hash.set(b"large", &[1; 300_000], Due::At(5)).unwrap();
    for i in 0..2000 {
        hash.set(format!("{i:011}").as_bytes(), b"0123456789", Due::Keep).unwrap();
    }
    hash.set(b"large", b"small", Due::Never).unwrap();
    hash.check();
    let by_itself = filled(2000, 10).memory() as f64;
    println!("after shrinking values: {:.3} times", hash.memory() as f64 / by_itself);
    assert!(hash.memory() as f64 <= 1.2 * by_itself);
}
