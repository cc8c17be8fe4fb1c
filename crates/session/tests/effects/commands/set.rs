//! Sets, which are packed and objects by turns.

use almandine_testkit::random::Random;

/// A command on sets.
pub(super) fn command(random: &mut Random, string: &str) -> String {
    let set = |random: &mut Random| format!("s{}", random.below(4));
    let member = |random: &mut Random| {
        let bound = *random.pick(&[9, 90, 900]);
        let number = random.below(bound).to_string();
        if random.chance(30) { format!("m{number}") } else { number }
    };
    let (one, other, another) = (set(random), set(random), set(random));
    let most = *random.pick(&[4, 400]);
    let some = (0..1 + random.below(30)).map(|_| member(random)).collect::<Vec<_>>().join(" ");
    match random.below(16) {
        0..5 => format!("SADD {one} {some}"),
        5 => format!("SADD {one} {}{}", "z".repeat(1_500), random.below(12)),
        6 | 7 => format!("SREM {one} {some}"),
        8 => format!("SPOP {one}"),
        9 => format!("SPOP {one} {}", random.below(most)),
        10 | 11 => format!("SMOVE {one} {other} {}", member(random)),
        12 => format!("SUNIONSTORE {one} {other} {another}"),
        13 => format!("SDIFFSTORE {one} {other} {another}"),
        14 => format!("SINTERSTORE {} {other} {another}", if random.chance(10) { string } else { &one }),
        _ => format!("RENAME {one} {other}"),
    }
}
