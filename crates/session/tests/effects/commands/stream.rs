//! Streams.

use almandine_testkit::random::Random;

/// A command on streams.
pub(super) fn command(random: &mut Random, unique: &str, number: &str) -> String {
    let stream = |random: &mut Random| format!("x{}", random.below(3));
    let entry = |random: &mut Random| format!("{}-{}", random.below(40), random.below(2));
    let consumer = |random: &mut Random| format!("g{} c{}", random.below(2), random.below(3));
    match random.below(22) {
        0..4 => format!("XADD {} * f {unique} g {number}", stream(random)),
        4 => format!("XADD {} MAXLEN {} * f {unique}", stream(random), random.below(30)),
        5 => format!("XADD {} MAXLEN ~ 3 {} g {number}", stream(random), entry(random)),
        6 => format!("XADD {} IDMP p{} {number} * f {unique}", stream(random), random.below(3)),
        7 => format!("XDEL {} {} {}", stream(random), entry(random), entry(random)),
        8 => format!("XTRIM {} MINID {}", stream(random), entry(random)),
        9 => format!("XGROUP CREATE {} g{} 0 MKSTREAM", stream(random), random.below(2)),
        10 if random.chance(20) => format!("XGROUP DESTROY {} g{}", stream(random), random.below(2)),
        11 => format!("XGROUP SETID {} g{} {}", stream(random), random.below(2), entry(random)),
        12 => format!("XGROUP DELCONSUMER {} {}", stream(random), consumer(random)),
        13 | 14 => format!("XREADGROUP GROUP {} COUNT {} STREAMS {} >", consumer(random), random.below(9), stream(random)),
        15 => format!("XREADGROUP GROUP {} CLAIM 1 STREAMS {} >", consumer(random), stream(random)),
        16 => format!("XREADGROUP GROUP {} COUNT 3 STREAMS {} 0", consumer(random), stream(random)),
        17 => format!("XAUTOCLAIM {} {} 0 0 COUNT 4", stream(random), consumer(random)),
        18 => format!("XCLAIM {} {} 0 {} FORCE", stream(random), consumer(random), entry(random)),
        19 => format!("XACKDEL {} g0 DELREF IDS 1 {}", stream(random), entry(random)),
        20 => format!("XNACK {} g1 FAIL IDS 2 {} {} FORCE", stream(random), entry(random), entry(random)),
        _ => match random.below(4) {
            0 => format!("XSETID {} 9000000000000-{}", stream(random), random.below(9)),
            1 => format!("COPY {} {} REPLACE", stream(random), stream(random)),
            2 => format!("XCFGSET {} IDMP-MAXSIZE {}", stream(random), random.between(1, 4)),
            _ => format!("DEL {}", stream(random)),
        },
    }
}
