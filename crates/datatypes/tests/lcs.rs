//! Common subsequences against redis-server and against the table of the textbook.

mod oracle;

use almandine_datatypes::string::lcs::{self, Run};
use oracle::{Oracle, Random, Reply, command};
use proptest::prelude::*;

fn expected_runs(reply: &Reply) -> (Vec<Run>, usize) {
    let [_, matches, _, length] = reply.array() else { panic!("not the reply of IDX: {reply:?}") };
    let range = |reply: &Reply| reply.array()[0].integer() as usize..reply.array()[1].integer() as usize + 1;
    let run = |reply: &Reply| {
        let [a, b, length] = reply.array() else { panic!("not a match: {reply:?}") };
        assert_eq!(range(a).len() as i64, length.integer());
        Run { a: range(a), b: range(b) }
    };
    (matches.array().iter().map(run).collect(), length.integer() as usize)
}

#[test]
fn subsequences_and_runs_are_those_of_redis() {
    let mut oracle = Oracle::start();
    let mut random = Random(10);
    for round in 0..1_500 {
        let len_max = if round % 10 == 0 { 400 } else { 70 };
        let alphabet = random.of(&[&b"ab"[..], b"abcd", b"abcdefghijklmnop", b"a"]);
        let (a, b) = (random.text(len_max, alphabet), random.text(len_max, alphabet));
        let least = random.below(4);
        let replies = oracle.ask_all(&[
            command([b"SET", b"a", &a]),
            command([b"SET", b"b", &b]),
            command([b"LCS", b"a", b"b"]),
            command([b"LCS", b"a", b"b", b"LEN"]),
            command([b"LCS", b"a", b"b", b"IDX", b"WITHMATCHLEN", b"MINMATCHLEN", least.to_string().as_bytes()]),
        ]);
        let context = format!("{} {}", a.escape_ascii(), b.escape_ascii());
        assert_eq!(lcs::subsequence(&a, &b), replies[2].text(), "{context}");
        assert_eq!(lcs::length(&a, &b) as i64, replies[3].integer(), "{context}");
        assert_eq!(lcs::runs(&a, &b, least as usize), expected_runs(&replies[4]), "{context}");
    }
}

#[test]
fn the_limit_is_that_of_redis() {
    let mut oracle = Oracle::start();
    const BYTES_MAX: u64 = 1 << 20;
    oracle.ask(&[b"CONFIG", b"SET", b"proto-max-bulk-len", BYTES_MAX.to_string().as_bytes()]);
    for (a, b) in [(511, 511), (511, 512), (512, 511), (0, 262_143), (0, 262_144), (1_023, 255)] {
        oracle.ask(&[b"SET", b"a", &vec![b'x'; a]]);
        oracle.ask(&[b"SET", b"b", &vec![b'y'; b]]);
        let reply = oracle.ask(&[b"LCS", b"a", b"b", b"LEN"]);
        assert_eq!(lcs::check(a, b, BYTES_MAX).is_err(), matches!(reply, Reply::Error(_)), "{a} {b} {reply:?}");
    }
}

fn textbook_length(a: &[u8], b: &[u8]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for &byte in a {
        let mut diagonal = 0;
        for (j, &other) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if byte == other { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|byte| rest.any(|other| other == byte))
}

proptest! {
    #[test]
    fn lengths_are_those_of_the_textbook(
        a in prop::collection::vec(0u8..6, 0..300),
        b in prop::collection::vec(0u8..6, 0..300),
    ) {
        let length = textbook_length(&a, &b);
        prop_assert_eq!(lcs::length(&a, &b), length);
        let common = lcs::subsequence(&a, &b);
        prop_assert_eq!(common.len(), length);
        prop_assert!(is_subsequence(&common, &a) && is_subsequence(&common, &b));
        let (runs, total) = lcs::runs(&a, &b, 0);
        prop_assert_eq!(total, length);
        prop_assert_eq!(runs.iter().map(|run| run.a.len()).sum::<usize>(), length);
        prop_assert!(runs.iter().all(|run| a[run.a.clone()] == b[run.b.clone()]));
    }
}
