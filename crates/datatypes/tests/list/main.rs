//! Lists against a naive one: packed ones and objects, random operations with snapshots held, images, damaged bytes. `sizes` and
//! `speed` measure.

#![expect(clippy::unwrap_used, reason = "all is in memory")]

mod objects;
mod packed;
mod sizes;
mod speed;

use almandine_testkit::random::Random;

/// Elements of all kinds: numbers, short and longer texts, at times one that has a chunk to itself.
fn any_element(random: &mut Random, kinds: usize) -> Vec<u8> {
    match random.below(kinds) {
        0 => vec![b'a' + random.below(4) as u8; random.below(3)],
        1 => (random.bits() as i64 >> random.below(64)).to_string().into_bytes(),
        2 => random.below(20).to_string().into_bytes(),
        3 => format!("element {}", random.below(50)).into_bytes(),
        4 => vec![b'm'; 50 + random.below(100)],
        5 if random.chance(10) => vec![b'n'; 1500 + random.below(1000)],
        6 if random.chance(3) => vec![b'l'; 5000 + random.below(3000)],
        _ => format!("{:08}", random.below(1000)).into_bytes(),
    }
}
