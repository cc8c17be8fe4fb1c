//! What effects say of collections: the elements that changed, not the value that they are part of.

use almandine_testkit::random::Random;

use crate::copied::Copied;
use crate::kept::{Kept, Owned, OwnedBody};

/// Bytes beside the arguments of a command that what is told of it may take.
const BESIDE: usize = 40;
/// Bytes beside key and effect that an operation log has for each entry, about.
const ENTRY: usize = 16;

/// Bytes of what an effect says, without its key.
fn size(kept: &Kept) -> usize {
    match &kept.effect {
        Owned::Set(_, OwnedBody::Bytes(bytes), put) => bytes.len() + if put.expiry_ms.is_some() { 8 } else { 0 },
        Owned::Write(_, bytes) | Owned::Edit(_, bytes) | Owned::Expire(_, bytes) => bytes.len(),
        Owned::Put(_) => 8,
        Owned::Remove | Owned::Database(_) | Owned::Lost => 0,
        Owned::Set(_, OwnedBody::Shared(_), _) => panic!("a snapshot tells all of a large value"),
    }
}

/// Values of `count` elements.
fn fill(copied: &mut Copied, count: usize) {
    let each = |form: &dyn Fn(usize) -> String| (0..count).map(form).collect::<Vec<_>>().join(" ");
    let lines = [
        "FLUSHALL".to_owned(),
        format!("HSET h {}", each(&|at| format!("field{at} value-{at}"))),
        format!("SADD s {}", each(&|at| format!("member{at}"))),
        format!("SADD i {}", each(&|at| format!("{at}"))),
        format!("ZADD z {}", each(&|at| format!("{at} member{at}"))),
        format!("RPUSH l {}", each(&|at| format!("element{at}"))),
        format!("SET n {}\nSET t {}", count, each(&|at| format!("text{at}")).replace(' ', "-")),
    ];
    copied.effects_of(&lines.join("\n"));
}

/// An effect holds what a command changed and little else, be the value packed or an object; and no more, by about a fifth, than
/// what Redis appends to its file.
#[test]
fn what_is_told_of_a_change_is_as_small_as_the_change() {
    let mut copied = Copied::new();
    for count in [60, 100, 400] {
        fill(&mut copied, count);
        for line in [
            "HSET h field7 other",
            "HSET h new value",
            "HSET h field8 a field9 b field10 c new2 d",
            "HDEL h field11 field12",
            "HINCRBY h number 12",
            "HINCRBYFLOAT h float 0.5",
            "HPEXPIRE h 100000 FIELDS 2 field13 field14",
            "HPERSIST h FIELDS 1 field13",
            "HSETEX h PX 100000 FIELDS 1 field15 v",
            "HGETDEL h FIELDS 1 field16",
            "SADD s another and_one_more",
            "SREM s member7 member8",
            "SPOP s",
            "SADD i 1234 70000",
            "SREM i 7 8",
            "SADD i no_number",
            "ZADD z 5.5 member20",
            "ZADD z 7 another 8 and_one_more",
            "ZINCRBY z 2 member21",
            "ZREM z member22 member23",
            "ZPOPMIN z",
            "ZREMRANGEBYRANK z 3 4",
            "ZPEXPIRE z 100000 MEMBERS 1 member30",
            "RPUSH l another and_one_more",
            "LPUSH l another",
            "LPOP l",
            "RPOP l 3",
            "LSET l 5 other",
            "LINSERT l BEFORE element20 new",
            "LREM l 1 element21",
            "LTRIM l 1 -2",
            "INCR n",
            "APPEND t more",
            "SETRANGE t 4 xyz",
        ] {
            let told = copied.effects_of(line);
            let words: Vec<&str> = line.split(' ').collect();
            let arguments: usize = words.iter().map(|word| word.len()).sum();
            let said: usize = told.iter().map(size).sum();
            assert!(!told.is_empty() && said <= arguments + BESIDE, "{count}: {said} bytes tell {line}");
            // What is chosen at random Redis names, too.
            let words = if line == "SPOP s" { vec!["SREM", "s", "member12"] } else { words };
            let (logged, appended) = (
                told.iter().map(|kept| size(kept) + kept.key.len() + ENTRY).sum::<usize>(),
                words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()).len()).sum::<usize>() + 4,
            );
            assert!(logged * 10 <= appended * 12, "{count}: {logged} bytes tell {line}, of which Redis says {appended}");
        }
        copied.check();
    }
}

/// Elements that expire are told by their names.
#[test]
fn what_is_told_of_expired_elements_is_their_names() {
    let mut copied = Copied::new();
    fill(&mut copied, 60);
    copied.effects_of("HPEXPIRE h 1 FIELDS 2 field7 field8\nZPEXPIRE z 1 MEMBERS 1 member9");
    std::thread::sleep(std::time::Duration::from_millis(5));
    let told = copied.effects_of("HSET h field1 v\nZADD z 3 member1");
    let expired: Vec<usize> = told.iter().filter(|kept| matches!(kept.effect, Owned::Expire(..))).map(size).collect();
    assert_eq!(expired, [2 * (4 + 6), 4 + 7]);
    assert_eq!(told.len(), 4, "and two edits");
    copied.check();
}

/// Values that are built by many commands on their elements are the same, byte by byte, when the effects are done again.
#[test]
fn a_value_of_many_edits_is_built_again_byte_by_byte() {
    let mut copied = Copied::new();
    let mut random = Random::new(7);
    let (mut edits, mut all) = (0, 0);
    for round in 0..8 {
        for _ in 0..1_000 {
            let told = copied.effects_of(&element_command(&mut random, round));
            edits += told.iter().filter(|kept| matches!(kept.effect, Owned::Edit(..))).count();
            all += told.len();
        }
        copied.check();
    }
    assert!(edits * 10 > all * 8, "{edits} of {all} are edits");
}

/// A command on the elements of one of a few values. Small rounds have values that stay packed, others go from one form to the
/// other.
fn element_command(random: &mut Random, round: usize) -> String {
    let names = [12, 50, 70, 140, 600, 30, 60, 100][round];
    let name = |random: &mut Random| {
        let number = random.below(names);
        match random.below(40) {
            0 => format!("{number}{}", "long".repeat(30)),
            1..30 => format!("{number}"),
            _ => format!("n{number}"),
        }
    };
    let (one, other, due) = (name(random), name(random), 100_000 + random.below(9));
    let (score, place) = (random.between(-50, 50), random.between(0, 9));
    match random.below(24) {
        0..4 => format!("HSET h{round} {one} {score} {other} {place}"),
        4 => format!("HDEL h{round} {one} {other}"),
        5 => format!("HPEXPIRE h{round} {due} FIELDS 2 {one} {other}"),
        6 => format!("HPERSIST h{round} FIELDS 1 {one}"),
        7 => format!("HSETEX h{round} KEEPTTL FIELDS 1 {one} {score}"),
        8..11 => format!("SADD s{round} {one} {other}"),
        11 => format!("SREM s{round} {one} {other}"),
        12 => format!("SPOP s{round}"),
        13..15 => format!("SADD i{round} {} {}", random.below(names), random.below(names) << random.below(40)),
        15 => format!("SREM i{round} {}", random.below(names)),
        16..19 => format!("ZADD z{round} {score} {one} {place} {other}"),
        19 => format!("ZREM z{round} {one} {other}"),
        20 if random.chance(30) => format!("ZPEXPIRE z{round} {due} MEMBERS 1 {one}"),
        20 => format!("ZPOPMAX z{round}"),
        21 => format!("RPUSH l{round} {one} {other}\nLPUSH l{round} {one}"),
        22 => format!("LPOP l{round}\nLREM l{round} 1 {one}"),
        _ => format!("LINSERT l{round} BEFORE {one} {other}\nLTRIM l{round} 0 {names}"),
    }
}
