//! Lists, which are packed and objects by turns.

use almandine_testkit::random::Random;

/// A command on lists: one in five with elements that make objects of them.
pub(super) fn command(random: &mut Random, unique: &str) -> String {
    let list = |random: &mut Random| format!("l{}", random.below(4));
    let element = |random: &mut Random| match random.below(10) {
        0 | 1 => format!("e{}{}", random.below(9), "y".repeat(1_500)),
        2..5 => random.below(40).to_string(),
        _ => format!("e{}", random.below(12)),
    };
    let end = |random: &mut Random| *random.pick(&["LEFT", "RIGHT"]);
    let (one, other) = (list(random), list(random));
    let some = (0..1 + random.below(9)).map(|_| element(random)).collect::<Vec<_>>().join(" ");
    let index = random.between(-12, 12);
    match random.below(26) {
        0..3 => format!("LPUSH {one} {some}"),
        3..7 => format!("RPUSH {one} {some} {unique}"),
        7 => format!("LPUSHX {one} {some}"),
        8 => format!("RPUSHX {one} {some}"),
        9 => format!("LPOP {one}"),
        10 => format!("RPOP {one}"),
        11 => format!("LPOP {one} {}", random.below(12)),
        12 => format!("RPOP {one} {}", random.below(12)),
        13 | 14 => format!("LMOVE {one} {other} {} {}", end(random), end(random)),
        15 => format!("RPOPLPUSH {one} {other}"),
        16 => format!("LMPOP 2 {one} {other} {} COUNT {}", end(random), 1 + random.below(6)),
        17 => format!("LSET {one} {index} {}", element(random)),
        18 => format!("LINSERT {one} {} {} {unique}", *random.pick(&["BEFORE", "AFTER"]), element(random)),
        19 | 20 => format!("LREM {one} {} {}", random.between(-2, 2), element(random)),
        21 => format!("LTRIM {one} {} {}", random.below(4), random.between(-4, 60)),
        22 => format!("LTRIM {one} 0 25"),
        23 => format!("COPY {one} {other} REPLACE"),
        24 if random.chance(30) => format!("SORT {one} ALPHA STORE {other}"),
        _ => format!("MULTI\nSET t0 {unique}\nRPUSH {one} {unique}\nLPOP {other}\nSET t1 {unique}\nEXEC"),
    }
}
