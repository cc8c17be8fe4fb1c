//! Sorted sets.

use almandine_testkit::random::Random;

/// A command on sorted sets: one in four with members that make objects of them.
pub(super) fn command(random: &mut Random, unique: &str, ttl: &str) -> String {
    let key = |random: &mut Random| format!("z{}", random.below(4));
    let member = |random: &mut Random| {
        let number = random.below(60);
        if random.chance(25) { format!("m{number}{}", "y".repeat(1_500)) } else { format!("m{number}") }
    };
    let (one, other, name) = (key(random), key(random), member(random));
    let (score, low) = (random.between(-20, 20), random.between(-20, 20));
    match random.below(24) {
        0 => format!("ZREM {one} {name} {}", member(random)),
        1 => format!("ZINCRBY {one} {score} {name}"),
        2 => format!("ZADD {one} GT CH {score} {name} {low} {}", member(random)),
        3 => format!("ZPEXPIRE {one} {ttl} MEMBERS 2 {name} {}", member(random)),
        4 => format!("ZPEXPIRE {one} 100000 MEMBERS 1 {name}"),
        5 => format!("ZPERSIST {one} MEMBERS 2 {name} {}", member(random)),
        6 => format!("ZPOPMIN {one} {}", random.below(3)),
        7 => format!("ZPOPMAX {one} {}", random.below(3)),
        8 => format!("ZMPOP 2 {one} {other} MAX"),
        9 => format!("ZREMRANGEBYSCORE {one} {low} {}", low + 1),
        10 => format!("ZREMRANGEBYRANK {one} 3 {}", 3 + random.below(4)),
        11 if random.chance(30) => format!("ZUNIONSTORE {one} 2 {one} {other}"),
        12 if random.chance(30) => format!("ZINTERSTORE {one} 2 {one} {other} AGGREGATE MIN"),
        13 if random.chance(30) => format!("ZDIFFSTORE {one} 2 {one} {other}"),
        14 if random.chance(30) => format!("ZRANGESTORE {one} {other} 0 {}", random.below(90)),
        15 if random.chance(20) => format!("DEL {one}"),
        16 => format!("COPY {one} {other} REPLACE"),
        17 => format!("MULTI\nSET t0 {unique}\nZADD {one} {score} {name}\nZREM {one} {}\nSET t1 {unique}\nEXEC", member(random)),
        _ => format!("ZADD {one} {score} {name} {low} {}", member(random)),
    }
}
