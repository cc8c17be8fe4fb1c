//! Sorted sets in payloads: what redis-server dumps and restores, and the forms of older ones byte by byte.

#[path = "../../datatypes/tests/oracle/mod.rs"]
mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use almandine_datatypes::number::parse_f64;
use almandine_rdb::types;
use almandine_rdb::value::footer;
use almandine_rdb::value::hash::Malformed;
use almandine_rdb::value::sorted_set::{self, SortedSet, SortedSetForm, SortedSetThresholds};
use oracle::{Oracle, Random, Reply};
use proptest::prelude::*;

const LIKE_REDIS: SortedSetThresholds = SortedSetThresholds { entries_max: 128, value_bytes_max: 64 };

type Members = Vec<(Vec<u8>, f64)>;

fn read(mut content: &[u8]) -> Result<Members, Malformed> {
    let value_type = *content.split_off_first().ok_or(Malformed)?;
    let set = SortedSet::read(value_type, &mut content)?;
    assert!(SortedSet::is_type(value_type));
    let members: Members = set.members().map(|member| member.map(|m| (m.name.into_vec(), m.score))).collect::<Result<_, _>>()?;
    assert_eq!(members.len(), set.len());
    assert!(members.iter().all(|(_, score)| !score.is_nan()));
    Ok(members)
}

fn refs(members: &Members) -> impl DoubleEndedIterator<Item = (&[u8], f64)> + Clone {
    members.iter().map(|(name, score)| (&name[..], *score))
}

fn written(form: SortedSetForm, members: &Members) -> Vec<u8> {
    let mut content = Vec::new();
    assert_eq!(sorted_set::write(form, refs(members), &mut content), form);
    content
}

fn sealed(content: &[u8]) -> Vec<u8> {
    let mut payload = content.to_vec();
    footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
    payload
}

/// What redis-server makes of a payload.
fn restored(oracle: &mut Oracle, payload: &[u8]) -> Option<Members> {
    match oracle.ask(&[b"RESTORE", b"k", b"0", payload, b"REPLACE"]) {
        Reply::Error(text) => {
            assert!(text.contains("Bad data format") || text.contains("wrong"), "{text}");
            None
        }
        _ => {
            let all = oracle.ask(&[b"ZRANGE", b"k", b"0", b"-1", b"WITHSCORES"]);
            let pair = |pair: &[Reply]| (pair[0].text().to_vec(), parse_f64(pair[1].text()).expect("a score is a number"));
            Some(all.array().chunks(2).map(pair).collect())
        }
    }
}

fn random_members(random: &mut Random) -> Members {
    let (count, len) = (random.of(&[1, 10, 100, 300]), random.of(&[5, 5, 80]));
    let members: BTreeMap<Vec<u8>, f64> = (0..=random.below(count))
        .map(|_| {
            let score = match random.below(5) {
                0 => random.of(&[0.0, f64::INFINITY, f64::NEG_INFINITY, 1e300, 5e-324, -0.1]),
                1 => random.below(10) as f64,
                2 => (random.next() as i64 >> random.below(64)) as f64,
                _ => random.next() as f64 / 1e9,
            };
            (random.text(len, b"abc0123\x00\xff"), score)
        })
        .collect();
    let mut members: Members = members.into_iter().collect();
    members.sort_by(|one, other| one.1.total_cmp(&other.1));
    members
}

#[test]
fn redis_restores_what_we_write_and_we_read_what_it_dumps() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    let mut random = Random(5);
    let mut seen = BTreeSet::new();
    for round in 0..600 {
        let members = random_members(&mut random);
        for form in [SortedSetForm::Table, SortedSetForm::Listpack] {
            let content = written(form, &members);
            assert_eq!(content[0], form.value_type());
            let theirs = restored(&mut oracle, &sealed(&content));
            assert_eq!(theirs, Some(members.clone()), "round {round}, {form:?}");
        }
        // Made by commands, so that the form is what redis-server chooses.
        oracle.ask(&[b"DEL", b"z"]);
        for (name, score) in &members {
            oracle.ask(&[b"ZADD", b"z", format!("{score:e}").as_bytes(), name]);
        }
        let dump = oracle.ask(&[b"DUMP", b"z"]).text().to_vec();
        let (content, _) = footer::open(&dump).expect("redis-server dumps sound payloads");
        let mut ours = read(content).expect("what redis-server dumps is read");
        if content[0] == types::ZSET_2 {
            ours.reverse();
        }
        assert_eq!(ours, members, "round {round}");
        assert_eq!(SortedSetForm::choose(refs(&members), LIKE_REDIS).value_type(), content[0], "round {round}");
        seen.insert(content[0]);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [types::ZSET_2, types::ZSET_LISTPACK]);
}

#[test]
fn forms_are_pinned_and_older_ones_read_as_redis_reads_them() {
    let mut oracle = Oracle::start();
    let members: Members = vec![(b"b".to_vec(), -0.5), (b"a".to_vec(), 3.0)];
    assert_eq!(written(SortedSetForm::Listpack, &members), b"\x11\x15\x15\0\0\0\x04\0\x81b\x02\x84-0.5\x05\x81a\x02\x03\x01\xff");
    assert_eq!(written(SortedSetForm::Table, &members), b"\x05\x02\x01a\0\0\0\0\0\0\x08\x40\x01b\0\0\0\0\0\0\xe0\xbf");
    for content in
        [&b"\x03\x02\x01b\x04-0.5\x01a\x013"[..], b"\x0c\x19\x19\0\0\0\x16\0\0\0\x04\0\0\x01b\x03\x04-0.5\x06\x01a\x03\xf4\xff"]
    {
        assert_eq!(read(content).as_ref(), Ok(&members), "{}", content.escape_ascii());
        assert_eq!(restored(&mut oracle, &sealed(content)), Some(members.clone()), "{}", content.escape_ascii());
    }
    let infinite: Members = vec![(b"a".to_vec(), f64::INFINITY), (b"b".to_vec(), f64::NEG_INFINITY)];
    assert_eq!(read(b"\x03\x02\x01a\xfe\x01b\xff"), Ok(infinite));
}

#[test]
fn what_is_no_sorted_set_is_refused() {
    for content in [
        &b"\x05\x00"[..],
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
        b"\x05\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\x40",
        b"\x05\x01\x01a\0\0\0",
        b"\x03\x01\x01a\xfd",
        b"\x03\x01\x01a\x03abc",
        b"\x03\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x011",
        b"\x11\x0a\x0a\0\0\0\x01\0\x81a\x02\xff",
        b"\x11\x0d\x0d\0\0\0\x02\0\x81a\x02\x81x\x02\xff",
        b"\x11\x07\x07\0\0\0\0\0\xff",
        b"\x04\x01\x01a\x01b",
    ] {
        assert_eq!(read(content), Err(Malformed), "{}", content.escape_ascii());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        kind in prop::sample::select(vec![3u8, 5, 12, 17]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = read(&[&[kind][..], &bytes].concat());
        let _ = read(&[&[kind, bytes.len() as u8 & 0x3F][..], &bytes].concat());
    }
}
