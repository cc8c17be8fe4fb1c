//! Lists in payloads: what redis-server dumps and restores, and the forms of older ones byte by byte.

#[path = "../../datatypes/tests/oracle/mod.rs"]
mod oracle;

use std::collections::BTreeSet;

use almandine_datatypes::list::ListLimits;
use almandine_rdb::types;
use almandine_rdb::value::footer;
use almandine_rdb::value::hash::Malformed;
use almandine_rdb::value::list::{self, List};
use oracle::{Oracle, Random, Reply};
use proptest::prelude::*;

type Elements = Vec<Vec<u8>>;

fn read(mut content: &[u8]) -> Result<Elements, Malformed> {
    let value_type = *content.split_off_first().ok_or(Malformed)?;
    let list = List::read(value_type, &mut content)?;
    assert!(List::is_type(value_type));
    let elements: Elements = list.elements().map(|element| element.map(|text| text.into_vec())).collect::<Result<_, _>>()?;
    assert_eq!(elements.len(), list.len());
    Ok(elements)
}

fn written(elements: &Elements, size: i64) -> Vec<u8> {
    let mut content = Vec::new();
    list::write(elements.iter().map(Vec::as_slice), ListLimits::new(size), &mut content);
    content
}

fn sealed(content: &[u8], version: u16) -> Vec<u8> {
    let mut payload = content.to_vec();
    footer::seal(&mut payload, version);
    payload
}

/// What redis-server makes of a payload.
fn restored(oracle: &mut Oracle, payload: &[u8]) -> Option<Elements> {
    match oracle.ask(&[b"RESTORE", b"k", b"0", payload, b"REPLACE"]) {
        Reply::Error(text) => {
            assert!(text.contains("Bad data format"), "{text}");
            None
        }
        _ => {
            let all = oracle.ask(&[b"LRANGE", b"k", b"0", b"-1"]);
            Some(all.array().iter().map(|element| element.text().to_vec()).collect())
        }
    }
}

fn random_elements(random: &mut Random) -> Elements {
    let (count, texts) = (random.of(&[1, 10, 100, 3000]), random.of(&[0, 30, 100]));
    let one = |random: &mut Random| match random.below(100) < texts {
        true if random.below(50) == 0 => vec![b'l'; random.below(20_000) as usize],
        true => random.text(70, b"abc\x00\xff\xc3"),
        false => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
    };
    (0..=random.below(count)).map(|_| one(random)).collect()
}

#[test]
fn redis_restores_what_we_write_and_we_read_what_it_dumps() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    let mut random = Random(7);
    let mut nodes = BTreeSet::new();
    for round in 0..300 {
        let elements = random_elements(&mut random);
        let size = random.of(&[-5, -2, -1, 3, 100]);
        let content = written(&elements, size);
        assert_eq!(read(&content).as_ref(), Ok(&elements), "round {round}");
        assert_eq!(restored(&mut oracle, &sealed(&content, footer::VERSION_REDIS_7_0)).as_ref(), Some(&elements), "round {round}");
        let depth = random.of(&[&b"0"[..], b"1"]);
        oracle.ask(&[b"CONFIG", b"SET", b"list-max-listpack-size", size.to_string().as_bytes(), b"list-compress-depth", depth]);
        let push = [vec![b"RPUSH".to_vec(), b"p".to_vec()], elements.clone()].concat();
        oracle.ask(&[b"DEL", b"p"]);
        oracle.ask_all(&[push]);
        let dump = oracle.ask(&[b"DUMP", b"p"]).text().to_vec();
        let (content, _) = footer::open(&dump).expect("redis-server dumps sound payloads");
        assert_eq!(read(content), Ok(elements), "round {round}");
        assert_eq!(content[0], types::LIST_QUICKLIST_2);
        nodes.insert(content[1] > 1);
    }
    assert_eq!(nodes.len(), 2, "lists of one node and of several");
}

#[test]
fn forms_are_pinned() {
    let elements: Elements = [&b"ab"[..], b"7", b"c"].map(<[u8]>::to_vec).to_vec();
    assert_eq!(written(&elements, -2), b"\x12\x01\x02\x10\x10\0\0\0\x03\0\x82ab\x03\x07\x01\x81c\x02\xff");
    assert_eq!(
        written(&elements, 2),
        b"\x12\x02\x02\x0d\x0d\0\0\0\x02\0\x82ab\x03\x07\x01\xff\x02\x0a\x0a\0\0\0\x01\0\x81c\x02\xff",
        "two nodes"
    );
    let large: Elements = vec![b"x".to_vec(), vec![b'l'; 5000]];
    assert!(written(&large, -1)[13..].starts_with(b"\xff\x01\x53\x88lll"), "a node that is an element");
    let ziplist = b"\x10\x10\0\0\0\x0e\0\0\0\x02\0\0\x02ab\x04\xf8\xff";
    for content in [&b"\x01\x03\x02ab\xc0\x07\x01c"[..], &written(&elements, 1)] {
        assert_eq!(read(content).as_ref(), Ok(&elements));
    }
    assert_eq!(read(&[&[10][..], ziplist].concat()), Err(Malformed), "its length is wrong");
    let ziplist = b"\x11\x11\0\0\0\x0e\0\0\0\x02\0\0\x02ab\x04\xf8\xff";
    assert_eq!(read(&[&[10][..], ziplist].concat()), Ok(elements[..2].to_vec()));
    let empty = b"\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff";
    let twice = [&[14, 3][..], ziplist, empty, ziplist].concat();
    assert_eq!(read(&twice), Ok([&elements[..2], &elements[..2]].concat()), "empty nodes are passed over");
}

#[test]
fn what_is_no_list_is_refused() {
    for content in [
        &b"\x01\x00"[..],
        b"\x01\x02\x01a",
        b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
        b"\x0a\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff",
        b"\x0e\x00",
        b"\x0e\x02\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff",
        b"\x12\x00",
        b"\x12\x01\x03\x01a",
        b"\x12\x01\x02\x07\x07\0\0\0\0\0\xff",
        b"\x12\x01\x02\x09\x09\0\0\0\x02\0\x07\x01\xff",
        b"\x12\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01a",
        b"\x04\x01\x01a\x01b",
    ] {
        assert_eq!(read(content), Err(Malformed), "{}", content.escape_ascii());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        kind in prop::sample::select(vec![1u8, 10, 14, 18]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = read(&[&[kind][..], &bytes].concat());
        let _ = read(&[&[kind, bytes.len() as u8 & 0x3F][..], &bytes].concat());
        let _ = read(&[&[kind, 1, 2, bytes.len() as u8 & 0x3F][..], &bytes].concat());
    }
}
