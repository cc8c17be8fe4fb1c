//! What clients send: random commands on keys of all types, and transactions.

mod list;
mod set;
mod sorted_set;
mod stream;

use almandine_testkit::random::Random;

use crate::rig::DATABASES;

/// Appends a command, or a transaction, to a pipeline.
pub(crate) fn command(random: &mut Random, unique: &str, input: &mut Vec<u8>) {
    let key = |random: &mut Random| format!("k{}", random.below(12));
    let hash = |random: &mut Random| format!("h{}", random.below(4));
    let field = |random: &mut Random| format!("f{}", random.below(40));
    let (one, other) = (key(random), key(random));
    let ttl = random.between(1, 60).to_string();
    let number = random.between(-5, 300).to_string();
    let long = "x".repeat(20_000 + random.below(20_000));
    let text = match random.below(100) {
        48..60 => sorted_set::command(random, unique, &ttl),
        62..74 => set::command(random, &one),
        74..88 => stream::command(random, unique, &number),
        88..100 => list::command(random, unique),
        0 => format!("SELECT {}", random.below(usize::from(DATABASES))),
        1 if random.chance(4) => "FLUSHDB".to_owned(),
        2 if random.chance(1) => "FLUSHALL".to_owned(),
        3 if random.chance(20) => format!("SWAPDB {} {}", random.below(3), random.below(3)),
        4 => format!("SET {one} {unique} PX {ttl}"),
        5 => format!("SET {one} {unique} KEEPTTL"),
        6 => format!("SET {one} {number} PX 100000"),
        7 => format!("SET {one} {long}"),
        8 => format!("SETNX {one} {unique}"),
        9 => format!("GETDEL {one}"),
        10 => format!("GETEX {one} PX {ttl}"),
        11 => format!("GETEX {one} PERSIST"),
        12 | 13 => format!("APPEND {one} {unique}"),
        14 => format!("SETRANGE {one} {} abc", random.below(50_000)),
        15 => format!("SETBIT {one} {} 1", random.below(400)),
        16 => format!("INCRBY {one} {number}"),
        17 => format!("INCRBYFLOAT {one} 0.5"),
        18 => format!("BITFIELD {one} SET u8 {} 65 INCRBY i5 {} 3", random.below(300), random.below(300)),
        19 => format!("BITOP XOR {one} {one} {other}"),
        20 => format!("DEL {one} {other}"),
        21 => format!("PEXPIRE {one} {ttl}"),
        22 => format!("PEXPIRE {one} 100000"),
        23 => format!("PERSIST {one}"),
        24 => format!("RENAME {one} {other}"),
        25 => format!("RENAMENX {one} {other}"),
        26 => format!("COPY {one} {other} REPLACE"),
        27 => format!("COPY {} {} DB {} REPLACE", hash(random), hash(random), random.below(3)),
        28 => format!("MOVE {one} {}", random.below(3)),
        29 => format!("MSET {one} {unique} {other} {number} {one} {number}"),
        30 => format!("MSETNX {one} {unique} {other} {number}"),
        31 => format!("SETWITHETAG {one} {unique}"),
        32 => format!("SETIFGREATER {one} {unique} {}", random.below(20)),
        33 => format!("SETIFMATCH {one} {unique} {}", random.below(5)),
        34 => format!("RENAME {} {}", hash(random), if random.chance(10) { one } else { hash(random) }),
        35 => format!("PEXPIRE {} {}", hash(random), if random.chance(5) { ttl } else { "100000".to_owned() }),
        36 => format!("HDEL {} {} {} {}", hash(random), field(random), field(random), field(random)),
        37 => format!("HINCRBY {} n {number}", hash(random)),
        38 => format!("HPEXPIRE {} {ttl} FIELDS 2 {} {}", hash(random), field(random), field(random)),
        39 => format!("HPERSIST {} FIELDS 2 {} {}", hash(random), field(random), field(random)),
        40 => format!("HSETEX {} PX {ttl} FIELDS 1 {} {unique}", hash(random), field(random)),
        41 if random.chance(20) => format!("DEL {}", hash(random)),
        // Long enough for an object.
        42 | 43 => format!("HSET {} {} {}", hash(random), field(random), "y".repeat(1_500)),
        44 => {
            let (a, b) = (random.below(3), random.below(3));
            format!("MULTI\nSET t{a} {unique}\nHSET {} tx {unique}\nDEL {other}\nSET t{b} {unique}\nEXEC", hash(random))
        }
        45 if random.chance(3) => format!("MULTI\nSET t0 {unique}\nSWAPDB 0 1\nFLUSHDB\nSET t1 {unique}\nEXEC"),
        _ => format!("HSET {} {} {unique} {} {number}", hash(random), field(random), field(random)),
    };
    push(&text, input);
}

/// Appends lines of commands as they go over the wire.
pub(crate) fn push(text: &str, input: &mut Vec<u8>) {
    for line in text.split('\n') {
        let words: Vec<&str> = line.split(' ').collect();
        input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words.iter().for_each(|word| input.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    }
}
