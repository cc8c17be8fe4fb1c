//! Sets in payloads: what redis-server dumps and restores, and the listpacks of younger ones byte by byte.

#[path = "../../datatypes/tests/oracle/mod.rs"]
mod oracle;

use std::collections::BTreeSet;

use almandine_rdb::types;
use almandine_rdb::value::footer;
use almandine_rdb::value::hash::Malformed;
use almandine_rdb::value::set::{self, Set, SetForm, SetThresholds};
use oracle::{Oracle, Random, Reply};
use proptest::prelude::*;

const LIKE_REDIS: SetThresholds = SetThresholds { integers_max: 512, entries_max: 128, value_bytes_max: 64 };

type Members = Vec<Vec<u8>>;

fn read(mut content: &[u8]) -> Result<Members, Malformed> {
    let value_type = *content.split_off_first().ok_or(Malformed)?;
    let set = Set::read(value_type, &mut content)?;
    assert!(Set::is_type(value_type));
    let members: Members = set.members().map(|member| member.map(|m| m.into_vec())).collect::<Result<_, _>>()?;
    assert_eq!(members.len(), set.len());
    Ok(members)
}

fn refs(members: &Members) -> impl Iterator<Item = &[u8]> + Clone {
    members.iter().map(Vec::as_slice)
}

fn written(form: SetForm, members: &Members) -> (SetForm, Vec<u8>) {
    let mut content = Vec::new();
    (set::write(form, refs(members), &mut content), content)
}

fn sealed(content: &[u8], version: u16) -> Vec<u8> {
    let mut payload = content.to_vec();
    footer::seal(&mut payload, version);
    payload
}

fn sorted(mut members: Members) -> Members {
    members.sort();
    members
}

/// What redis-server makes of a payload.
fn restored(oracle: &mut Oracle, payload: &[u8]) -> Option<Members> {
    match oracle.ask(&[b"RESTORE", b"k", b"0", payload, b"REPLACE"]) {
        Reply::Error(text) => {
            assert!(text.contains("Bad data format") || text.contains("wrong"), "{text}");
            None
        }
        _ => Some(sorted(oracle.ask(&[b"SMEMBERS", b"k"]).array().iter().map(|member| member.text().to_vec()).collect())),
    }
}

fn random_members(random: &mut Random) -> Members {
    let (count, texts) = (random.of(&[1, 10, 100, 600]), random.of(&[0, 0, 50]));
    let members: BTreeSet<Vec<u8>> = (0..=random.below(count))
        .map(|_| match random.below(100) < texts {
            true => random.text(70, b"abc\x00\xff\xc3"),
            false => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
        })
        .collect();
    members.into_iter().collect()
}

#[test]
fn redis_restores_what_we_write_and_we_read_what_it_dumps() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    let mut random = Random(5);
    let mut forms = BTreeSet::new();
    for round in 0..800 {
        let members = random_members(&mut random);
        for form in [SetForm::Table, SetForm::Intset] {
            let (form, content) = written(form, &members);
            assert_eq!((content[0], read(&content).map(sorted)), (form.value_type(), Ok(members.clone())));
            let theirs = restored(&mut oracle, &sealed(&content, form.version()));
            assert_eq!(theirs, Some(members.clone()), "round {round}, {form:?}");
        }
        let dump = oracle.ask(&[b"DUMP", b"k"]).text().to_vec();
        let (content, _) = footer::open(&dump).expect("redis-server dumps sound payloads");
        assert_eq!(read(content).map(sorted), Ok(members.clone()), "round {round}");
        forms.insert(content[0]);
        let form = SetForm::choose(refs(&members), LIKE_REDIS);
        assert_eq!(form == SetForm::Intset, content[0] == types::SET_INTSET, "round {round}");
        let (form, content) = written(form, &members);
        assert_eq!(read(&content).map(sorted), Ok(members), "round {round}, {form:?}");
        forms.insert(content[0]);
    }
    assert_eq!(forms.into_iter().collect::<Vec<_>>(), [types::SET, types::SET_INTSET, types::SET_LISTPACK]);
}

#[test]
fn forms_are_pinned() {
    let members: Members = vec![b"ab".to_vec(), b"7".to_vec()];
    assert_eq!(
        written(SetForm::Listpack, &members),
        (SetForm::Listpack, b"\x14\x0d\x0d\0\0\0\x02\0\x82ab\x03\x07\x01\xff".to_vec())
    );
    assert_eq!(written(SetForm::Intset, &members).0, SetForm::Table, "not all are integers");
    assert_eq!(written(SetForm::Table, &members), (SetForm::Table, b"\x02\x02\x02ab\xc0\x07".to_vec()));
    let members: Members = vec![b"5".to_vec(), b"-2".to_vec()];
    assert_eq!(written(SetForm::Intset, &members).1, b"\x0b\x0c\x02\0\0\0\x02\0\0\0\xfe\xff\x05\0");
    assert_eq!(SetForm::Listpack.version(), 11);
}

#[test]
fn what_is_no_set_is_refused() {
    for content in [
        &b"\x02\x00"[..],
        b"\x02\x02\x01a\x01a",
        b"\x02\x02\xc0\x07\x017",
        b"\x02\x02\x01a",
        b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
        b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x05\0\xfe\xff",
        b"\x0b\x08\x02\0\0\0\0\0\0\0",
        b"\x14\x0b\x0b\0\0\0\x02\0\x07\x01\x07\x01\xff",
        b"\x14\x07\x07\0\0\0\0\0\xff",
        b"\x04\x01\x01a\x01b",
    ] {
        assert_eq!(read(content), Err(Malformed), "{}", content.escape_ascii());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        kind in prop::sample::select(vec![2u8, 11, 20]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = read(&[&[kind][..], &bytes].concat());
        let _ = read(&[&[kind, bytes.len() as u8 & 0x3F][..], &bytes].concat());
    }
}
