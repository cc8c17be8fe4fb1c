//! Effects of commands of which an allocation fails: what they are told to have done is what they have done.
//!
//! Each example of `docs/effects.md`, and more with large values, is run with no allocation, with one, and so on until they are
//! enough. After each run a copy that has replayed all effects has the same keys.

use std::collections::BTreeSet;

use almandine_keyspace::limit_allocations;
use almandine_testkit::effects;

use crate::copied::Copied;

const DOCUMENT: &str = include_str!("../../../../docs/effects.md");

/// Values that need more than one allocation, and collections that leave their records. `=a9000` is 9,000 times `a`.
const LARGE: &[&str] = &[
    "=> SET k =v5000; APPEND k =w50000; SETRANGE k 90000 x",
    "SET a =a40000; SET b =b10 => COPY a b REPLACE; RENAME a c; RENAME b =n700",
    "=> MSET a =a1500 b =b40000 c =c10; MSETNX d =d1500 e =e40000",
    "SET b x => SETBIT b 200000 1; BITOP NOT c b; BITFIELD b SET u8 400000 3",
    "=> MULTI; SET a =a1500; HSET h f =v9000; RPUSH l =v9000; EXEC; MULTI; HSET h g =w9000; RPUSH l =w9000; DEL a; EXEC",
    "HSET h a =a9000 => HSET h b =b9000 c =c9000; HSET h d 1 e 2; HDEL h a b",
    "HSET h a =a9000 b =b9000 => HPEXPIRE h 1000000 FIELDS 2 a b; HSETEX h PX 1000000 FIELDS 2 c =c9000 d 1; HINCRBY h n 1",
    "HSET h a 1 b 2 => COPY h =n700; RENAME h =m700; HSET =m700 c =c9000 d =d9000",
    "SADD s =a9000 => SADD s =b9000 =c9000 d e; SREM s d =a9000; SPOP s",
    "SADD s 1 2 3 => SADD s 4 70000 five =a9000 =b9000",
    "SADD s =a9000 =b9000; SADD t =a9000 => SDIFFSTORE d s t; SUNIONSTORE s s t; SMOVE s t =b9000",
    "ZADD z 1 =a9000 => ZADD z 2 =b9000 3 =c9000 4 d; ZINCRBY z 2 d; ZREM z =a9000; ZPOPMIN z",
    "ZADD z 1 =a9000 2 =b9000; ZADD y 1 c => ZUNIONSTORE d 2 z y; ZRANGESTORE e z 0 -1; ZREMRANGEBYRANK z 0 0",
    "RPUSH l =a9000 => RPUSH l =b9000 =c9000 d; LINSERT l BEFORE d x; LSET l 0 =e9000; LTRIM l 1 2; LMOVE l m LEFT RIGHT",
    "RPUSH l 3 1 2 =a9000 => SORT l ALPHA STORE d; LPUSH d =b9000 =c9000; LREM d 1 1",
    "XADD x 1-1 f =a9000 => XADD x 2-1 f =b9000; XADD x 3-1 f =c9000; XTRIM x MAXLEN 1; XDEL x 3-1",
    "XADD x 1-1 f v; XADD x 2-1 f =a9000; XGROUP CREATE x g 0 => XREADGROUP GROUP g c COUNT 2 STREAMS x >; XACK x g 1-1; \
     XCLAIM x g d 0 2-1",
    "PFADD p a b c => PFADD p d e f; PFADD q g h; PFMERGE q p",
    "GEOADD g 1 1 a 2 2 b => GEOADD g 3 3 =c9000 4 4 =d9000; GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 900 km ASC",
];

/// Effects after which the copy begins anew: each makes generations.
const EMPTIED_MAX: usize = 1000;
/// Allocations that no example needs.
const ENOUGH: u64 = 1000;

fn words(text: &str) -> Vec<Vec<Vec<u8>>> {
    let long = |word: &[u8]| -> Option<Vec<u8>> {
        let (letter, len) = word.strip_prefix(b"=")?.split_first()?;
        Some([*letter].repeat(std::str::from_utf8(len).ok()?.parse().ok()?))
    };
    let commands = effects::commands(text).into_iter();
    commands.map(|words| words.into_iter().map(|word| long(&word).unwrap_or(word)).collect()).collect()
}

/// Runs examples with too little space for each of their allocations. How many there are, how many runs had an error of memory, and
/// which numbers of allocations were enough.
fn run(examples: impl Iterator<Item = impl AsRef<str>>) -> (usize, usize, BTreeSet<u64>) {
    let (mut count, mut failed, mut needed) = (0, 0, BTreeSet::new());
    let mut copied = Copied::new();
    for example in examples {
        let example = example.as_ref();
        let Some((before, looked_at)) = example.split_once("=>") else { continue };
        if copied.emptied > EMPTIED_MAX {
            copied = Copied::new();
        }
        count += 1;
        for limit in 0..ENOUGH {
            assert!(limit + 1 < ENOUGH, "{example} needs too much");
            copied.empty();
            assert!(!copied.send(&words(before)), "{example}");
            copied.check();
            limit_allocations(Some(limit));
            failed += usize::from(copied.send(&words(looked_at)));
            let left = limit_allocations(None);
            copied.check();
            if left.is_some_and(|left| left > 0) {
                needed.insert(limit);
                break;
            }
            copied.send(&words("DISCARD; UNWATCH"));
        }
    }
    println!("effects: {count} examples had {failed} runs without space; they take {needed:?} allocations");
    (count, failed, needed)
}

/// The examples of the document, but for those in which others send something, or time does, and commands that may wait: with what
/// they wait for not made, for want of space, their client would send nothing more.
fn rows() -> Vec<String> {
    let rows = effects::parse(DOCUMENT).unwrap();
    let waits = |example: &str| ["BLPOP", "BRPOP", "BLM", "BZ", "BLOCK"].iter().any(|word| example.contains(word));
    rows.iter().map(|row| row.example.clone()).filter(|example| !example.contains('@') && !waits(example)).collect()
}

/// INV-EFFECT-1, INV-WHOLE-1: whichever allocation fails.
#[test]
fn what_a_command_without_space_has_done_is_told() {
    let rows = rows();
    let (examples, failed, needed) = run(rows.iter().map(String::as_str).chain(LARGE.iter().copied()));
    assert!(examples > 300 && failed > 100 && needed.len() > 4, "{examples} {failed} {needed:?}");
}
