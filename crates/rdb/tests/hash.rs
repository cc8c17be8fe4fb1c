//! Hashes in payloads: those of redis-server 7.0, those of other versions byte by byte, and redis-server's opinion on ours.

mod fixtures;
#[path = "../../datatypes/tests/oracle/mod.rs"]
mod oracle;

use std::collections::BTreeMap;

use almandine_rdb::types;
use almandine_rdb::value::footer;
use almandine_rdb::value::hash::{self, Dialect, Hash, HashEntry, HashForm, HashThresholds, Malformed};
use fixtures::{Fixture, from_hex};
use oracle::{Oracle, Random, Reply};
use proptest::prelude::*;

const FIXTURES: &str = include_str!("fixtures/redis-7.0.txt");
const LIKE_REDIS: HashThresholds = HashThresholds { entries_max: 512, value_bytes_max: 64 };

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
type Expiring = Vec<(Vec<u8>, Vec<u8>, Option<i64>)>;

/// The fields of a payload with its footer, in its order.
fn read(payload: &[u8]) -> Result<Expiring, Malformed> {
    let (content, version) = footer::open(payload).ok_or(Malformed)?;
    read_content(content, version)
}

fn read_content(mut content: &[u8], version: u16) -> Result<Expiring, Malformed> {
    let value_type = *content.split_off_first().ok_or(Malformed)?;
    let hash = Hash::read(value_type, version, &mut content)?;
    let fields = hash.fields().map(|field| field.map(|f| (f.name.into_vec(), f.value.into_vec(), f.expiry_ms)));
    let fields: Expiring = fields.collect::<Result<_, _>>()?;
    assert_eq!(fields.len(), hash.len());
    Ok(fields)
}

fn pairs(fields: Expiring) -> Pairs {
    fields.into_iter().map(|(name, value, _)| (name, value)).collect()
}

fn entries(fields: &Expiring) -> impl Iterator<Item = HashEntry<'_>> + Clone {
    fields.iter().map(|(name, value, expiry_ms)| (&name[..], &value[..], *expiry_ms))
}

/// With footer.
fn written(form: HashForm, fields: &Expiring) -> Vec<u8> {
    let mut payload = Vec::new();
    assert_eq!(hash::write(form, entries(fields), &mut payload), form);
    footer::seal(&mut payload, form.version());
    payload
}

#[test]
fn what_redis_dumps_is_read() {
    for fixture in fixtures::parse(FIXTURES) {
        let fields = read(&fixture.payload).unwrap_or_else(|e| panic!("{e:?} {}", fixture.script));
        assert_eq!(fields.len(), fixture.fields().len(), "{}", fixture.script);
        assert_eq!(pairs(fields), fixture.fields(), "{}", fixture.script);
    }
}

/// A listpack has one encoding, so that ours is Redis', byte by byte; a table has an order that Redis draws anew at each start.
#[test]
fn what_redis_dumps_uncompressed_as_listpack_is_written_so() {
    let mut same = 0;
    for fixture in fixtures::parse(FIXTURES) {
        let fields = read(&fixture.payload).unwrap();
        let form = if fixture.payload[0] == types::HASH_LISTPACK { HashForm::Listpack } else { HashForm::Table };
        let ours = written(form, &fields);
        // A container that Redis did compress begins with 0xC3.
        if form == HashForm::Table || fixture.payload[1] == 0xC3 {
            assert_eq!(read(&ours), Ok(fields), "{}", fixture.script);
        } else {
            assert_eq!(ours, fixture.payload, "{}", fixture.script);
            same += 1;
        }
    }
    assert!(same >= 5, "{same} payloads were compared byte by byte");
}

fn dumped(oracle: &mut Oracle, fixture: &Fixture) -> Vec<u8> {
    oracle.ask(&[b"FLUSHALL"]);
    for (name, value) in [("hash-max-listpack-value", "64"), ("hash-max-listpack-entries", "512"), ("rdbcompression", "yes")] {
        oracle.ask(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()]);
    }
    for reply in oracle.ask_all(&fixture.commands()) {
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?} in {}", fixture.script);
    }
    oracle.ask(&[b"DUMP", b"h"]).text().to_vec()
}

#[test]
fn fixtures_are_what_redis_dumps_now() {
    let mut oracle = Oracle::start();
    let mut fixtures = fixtures::parse(FIXTURES);
    let bless = std::env::var("ALMANDINE_BLESS").is_ok_and(|value| value == "1");
    for fixture in &mut fixtures {
        let now = dumped(&mut oracle, fixture);
        if bless {
            fixture.payload = now;
            continue;
        }
        if now[0] == types::HASH_LISTPACK {
            assert_eq!(now, fixture.payload, "{}", fixture.script);
        }
        assert_eq!(now[0], fixture.payload[0], "{}", fixture.script);
        assert_eq!(read(&now).map(pairs), read(&fixture.payload).map(pairs), "{}", fixture.script);
        // The thresholds are part of a script; with those of redis-server our choice is its choice.
        if !fixture.script.contains("listpack") {
            let fields = read(&now).unwrap();
            let form = HashForm::choose(entries(&fields), LIKE_REDIS, Dialect::Redis);
            assert_eq!(form.value_type(), now[0], "{}", fixture.script);
        }
    }
    if bless {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/redis-7.0.txt");
        std::fs::write(path, fixtures::blessed(FIXTURES, &fixtures)).unwrap();
    }
}

/// What redis-server makes of a payload.
fn restored(oracle: &mut Oracle, payload: &[u8]) -> Option<Pairs> {
    match oracle.ask(&[b"RESTORE", b"k", b"0", payload, b"REPLACE"]) {
        Reply::Error(text) => {
            assert!(text.contains("Bad data format") || text.contains("wrong"), "{text}");
            None
        }
        _ => {
            let all = oracle.ask(&[b"HGETALL", b"k"]);
            Some(all.array().chunks(2).map(|pair| (pair[0].text().to_vec(), pair[1].text().to_vec())).collect())
        }
    }
}

fn random_fields(random: &mut Random) -> Expiring {
    let len_max = random.of(&[3, 12, 40, 200]);
    let mut fields = Pairs::new();
    let count_max = random.of(&[2, 20, 200]);
    for _ in 0..=random.below(count_max) {
        let text = |random: &mut Random| match random.below(4) {
            0 => (random.next() as i64 >> random.below(64)).to_string().into_bytes(),
            1 => random.text(len_max, b"0123456789-"),
            _ => random.text(len_max, b"abc\x00\xff\xc3"),
        };
        let (name, value) = (text(random), text(random));
        fields.insert(name, value);
    }
    fields.into_iter().map(|(name, value)| (name, value, None)).collect()
}

#[test]
fn redis_restores_what_we_write() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    let mut random = Random(11);
    for round in 0..1_500 {
        let fields = random_fields(&mut random);
        let form = HashForm::choose(entries(&fields), LIKE_REDIS, Dialect::Redis);
        for form in [HashForm::Table, HashForm::Listpack] {
            let theirs = restored(&mut oracle, &written(form, &fields));
            assert_eq!(theirs, Some(pairs(fields.clone())), "round {round}, {form:?}");
        }
        restored(&mut oracle, &written(form, &fields));
        let dump = oracle.ask(&[b"DUMP", b"k"]).text().to_vec();
        assert_eq!(dump[0], form.value_type(), "round {round}");
        assert_eq!(read(&dump).map(pairs), Ok(pairs(fields)), "round {round}");
    }
}

/// Where the length behind an element takes another byte.
#[test]
fn redis_restores_listpacks_of_long_elements() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    for len in [125, 126, 127, 16_377, 16_378, 16_379, 2_097_145, 2_097_146, 2_097_147] {
        let fields = vec![(b"name".to_vec(), vec![b'x'; len], None)];
        assert_eq!(restored(&mut oracle, &written(HashForm::Listpack, &fields)), Some(pairs(fields)), "{len}");
    }
}

/// A ziplist of strings and small numbers, as Redis 6.2 would have written it.
fn ziplist(texts: &[&[u8]]) -> Vec<u8> {
    let (mut bytes, mut last, mut previous) = (vec![0; 10], 10, 0);
    for text in texts {
        last = bytes.len();
        match u8::try_from(previous) {
            Ok(short) if short < 254 => bytes.push(short),
            _ => bytes.extend([&[254][..], &(previous as u32).to_le_bytes()].concat()),
        }
        match std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()) {
            Some(number @ 0..=12) => bytes.push(0xF1 + number as u8),
            Some(number @ -128..=127) => bytes.extend([0xFE, number as u8]),
            Some(number) => bytes.extend([&[0xE0][..], &number.to_le_bytes()].concat()),
            None if text.len() < 64 => bytes.extend([&[text.len() as u8][..], text].concat()),
            None => bytes.extend([&[0x40 | (text.len() >> 8) as u8, text.len() as u8][..], text].concat()),
        }
        previous = bytes.len() - last;
    }
    bytes.push(0xFF);
    let in_all = bytes.len() as u32;
    bytes[..4].copy_from_slice(&in_all.to_le_bytes());
    bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
    bytes[8..10].copy_from_slice(&(texts.len() as u16).to_le_bytes());
    bytes
}

fn zipmap(texts: &[&[u8]]) -> Vec<u8> {
    let length = |text: &[u8]| match u8::try_from(text.len()) {
        Ok(short) if short < 254 => vec![short],
        _ => [&[254][..], &(text.len() as u32).to_le_bytes()].concat(),
    };
    let mut bytes = vec![(texts.len() / 2) as u8];
    for (index, text) in texts.iter().enumerate() {
        bytes.extend(length(text));
        let unused = if index % 2 == 1 { index % 5 } else { 0 };
        if index % 2 == 1 {
            bytes.push(unused as u8);
        }
        bytes.extend_from_slice(text);
        bytes.extend(vec![b'_'; unused]);
    }
    bytes.push(0xFF);
    bytes
}

/// A type byte and one string object of the bytes.
fn contained(value_type: u8, bytes: &[u8]) -> Vec<u8> {
    let len = (bytes.len() as u32).to_be_bytes();
    [&[value_type, 0x80][..], &len, bytes].concat()
}

/// Contents without footer, one of each form that redis-server 7.0 reads.
fn specimens() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 12] = [b"a", b"1", b"b", b"-100", b"name", b"70000", b"", b"v", b"12", b"long", b"other", &[b'x'; 300]];
    let fields = texts.chunks(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec(), None)).collect();
    let mut specimens: Vec<_> = [HashForm::Table, HashForm::Listpack]
        .map(|form| {
            let mut content = written(form, &fields);
            content.truncate(content.len() - 10);
            content
        })
        .into();
    specimens.push(contained(types::HASH_ZIPLIST, &ziplist(&texts)));
    specimens.push(contained(types::HASH_ZIPMAP, &zipmap(&texts)));
    // A table with a compressed value: "abc" sixty times.
    specimens.push([&[types::HASH, 2, 1, b'n', 0xC0, 5, 1, b'f'][..], &from_hex("c30b40b403616263 61e0a502016263")].concat());
    specimens
}

fn sealed(content: &[u8]) -> Vec<u8> {
    let mut payload = content.to_vec();
    footer::seal(&mut payload, footer::VERSION_REDIS_7_0);
    payload
}

#[test]
fn older_forms_are_read_as_redis_reads_them() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    for content in specimens() {
        let payload = sealed(&content);
        let ours = read(&payload).map(pairs).unwrap_or_else(|_| panic!("type {}", content[0]));
        assert_eq!(restored(&mut oracle, &payload), Some(ours), "type {}", content[0]);
    }
}

/// Duplicates, odd numbers and emptiness, in each form.
#[test]
fn what_is_no_hash_is_refused_as_redis_refuses_it() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    let listpack = |texts: &[&[u8]]| {
        let mut list = almandine_rdb::container::listpack::Writer::default();
        texts.iter().for_each(|text| list.push(text).unwrap());
        list.finish()
    };
    let mut contents = vec![vec![types::HASH, 0], vec![types::HASH, 1, 1, b'a'], b"\x04\x02\x01a\x01b\x01a\x01c".to_vec()];
    // The same name as a number and as a string.
    contents.push(b"\x04\x02\xc0\x07\x01b\x017\x01c".to_vec());
    let lists: [&[&[u8]]; 5] = [&[], &[b"a"], &[b"a", b"b", b"c"], &[b"a", b"b", b"a", b"c"], &[b"7", b"b", b"7", b"c"]];
    for texts in lists {
        contents.push(contained(types::HASH_ZIPLIST, &ziplist(texts)));
        contents.push(contained(types::HASH_LISTPACK, &listpack(texts)));
        if texts.len() % 2 == 0 {
            contents.push(contained(types::HASH_ZIPMAP, &zipmap(texts)));
        }
    }
    for content in contents {
        let payload = sealed(&content);
        // An empty zipmap is none that Redis ever wrote, and it stays without a field in 7.0, too.
        assert_eq!(restored(&mut oracle, &payload), None, "{}", content.escape_ascii());
        assert_eq!(read(&payload), Err(Malformed), "{}", content.escape_ascii());
    }
}

#[test]
fn hostile_bytes_are_refused_where_redis_refuses_them() {
    let mut oracle = Oracle::start();
    oracle.ask(&[b"CONFIG", b"SET", b"sanitize-dump-payload", b"yes"]);
    let (specimens, mut random) = (specimens(), Random(7));
    let (mut refused, mut stricter, rounds) = (0, 0, 12_000);
    for _ in 0..rounds {
        let mut content = random.of(&specimens);
        for _ in 0..=random.below(3) {
            let at = 1 + random.below(content.len() as u64 - 1) as usize;
            match random.below(6) {
                0 => content.truncate(at.max(2)),
                1 => content.insert(at, random.next() as u8),
                2 => drop(content.remove(at)),
                3 => content[at] = random.of(&[0, 1, 0x7F, 0x80, 0xC0, 0xFE, 0xFF]),
                4 => content[at] ^= 1 << random.below(8),
                _ => content[at] = content[at].wrapping_add(1),
            }
            if content.len() < 2 {
                break;
            }
        }
        let payload = sealed(&content);
        let (ours, theirs) = (read(&payload).map(pairs), restored(&mut oracle, &payload));
        refused += usize::from(ours.is_err());
        assert!(ours.is_err() || ours.as_ref().ok() == theirs.as_ref(), "{}", content.escape_ascii());
        // Redis lets a value that was cut off go on in the footer, takes a special form for a length of compressed bytes, and any
        // bytes for none.
        let with_footer = read_content(&payload, footer::VERSION_REDIS_7_0).ok().map(pairs);
        stricter += usize::from(with_footer.is_none() && theirs.is_some());
        assert!(with_footer.is_none() || with_footer == theirs, "{}", content.escape_ascii());
    }
    assert!(stricter <= rounds / 200, "{stricter} of {rounds} refused by us alone");
    assert!((rounds / 4..rounds).contains(&refused), "{refused} of {rounds} refused");
}

/// What redis-server 7.4 answers to DUMP after `HSET h a 1 b 2 c 3`, `HPEXPIREAT h 1900000000000 FIELDS 1 b` and
/// `HPEXPIREAT h 1900000000500 FIELDS 1 a`, by the description of the format.
#[test]
fn hashes_of_redis_7_4() {
    const AT_MS: i64 = 1_900_000_000_000;
    let fields = vec![
        (b"b".to_vec(), b"2".to_vec(), Some(AT_MS)),
        (b"a".to_vec(), b"1".to_vec(), Some(AT_MS + 500)),
        (b"c".to_vec(), b"3".to_vec(), None),
    ];
    let listpack = "
        19                            the type: 25
        00 38 d3 60 ba 01 00 00       the earliest expiry: 1,900,000,000,000
        2c                            a string of 44 bytes
        2c 00 00 00                   bytes in all: 44
        09 00                         nine elements
        81 62 02                      b, its length behind it
        02 01                         2
        f4 00 38 d3 60 ba 01 00 00 09 a number of 64 bits: the expiry of b
        81 61 02                      a
        01 01                         1
        f4 f4 39 d3 60 ba 01 00 00 09 the expiry of a
        81 63 02                      c
        03 01                         3
        00 01                         no expiry
        ff                            the end
    ";
    let table = "
        18                            the type: 24
        00 38 d3 60 ba 01 00 00       the earliest expiry
        03                            three fields
        01                            b expires at the earliest expiry
        01 62                         b
        c0 02                         2
        41 f5                         a expires 501 - 1 later
        01 61                         a
        c0 01                         1
        00                            c does not expire
        01 63                         c
        c0 03                         3
    ";
    let valkey = "
        16                            the type: 22
        03                            three fields
        01 62                         b
        c0 02                         2
        00 38 d3 60 ba 01 00 00       its expiry
        01 61                         a
        c0 01                         1
        f4 39 d3 60 ba 01 00 00       its expiry
        01 63                         c
        c0 03                         3
        ff ff ff ff ff ff ff ff       no expiry
    ";
    for (form, text) in
        [(HashForm::ListpackWithExpiries, listpack), (HashForm::TableWithExpiries, table), (HashForm::Valkey, valkey)]
    {
        let content = described(text);
        assert_eq!(read_content(&content, form.version()).as_ref(), Ok(&fields), "{form:?}");
        let ours = written(form, &fields);
        assert_eq!(ours[..ours.len() - 10], content, "{form:?}");
    }
    // The candidates of 7.4: without the earliest expiry, and with expiries instead of delays.
    let candidate = [&[23][..], &described(listpack)[9..]].concat();
    assert_eq!(read_content(&candidate, 12).as_ref(), Ok(&fields));
    let candidate = described(
        "
        16                            the type: 22, in version 12
        02                            two fields
        81 00 00 01 ba 60 d3 38 00    the expiry of b, as a length of 64 bits
        01 62 c0 02                   b, 2
        00 01 63 c0 03                no expiry, c, 3
    ",
    );
    assert_eq!(read_content(&candidate, 12).unwrap(), [fields[0].clone(), fields[2].clone()]);
    assert_eq!(read_content(&candidate, 80), Err(Malformed));
    assert_eq!(read_content(&described(table), 80), Err(Malformed));
}

/// The bytes at the beginning of each line.
fn described(text: &str) -> Vec<u8> {
    let is_byte = |word: &&str| word.len() == 2 && word.bytes().all(|b| b.is_ascii_hexdigit());
    text.lines().flat_map(|line| line.split_whitespace().take_while(is_byte)).flat_map(from_hex).collect()
}

#[test]
fn expiries_that_redis_refuses_are_refused() {
    let list = |expiries: &[&[u8]]| {
        let mut list = almandine_rdb::container::listpack::Writer::default();
        for (n, expiry) in expiries.iter().enumerate() {
            list.push(n.to_string().as_bytes()).unwrap();
            list.push(b"v").unwrap();
            list.push(expiry).unwrap();
        }
        contained(23, &list.finish())
    };
    for (expiries, good) in [
        (&[&b"5"[..], b"5", b"6", b"0", b"0"][..], true),
        (&[b"0"], true),
        (&[b"281474976710655"], true),
        (&[b"281474976710656"], false),
        (&[b"6", b"5"], false),
        (&[b"5", b"0", b"6"], false),
        (&[b"-1"], false),
        (&[b"soon"], false),
    ] {
        assert_eq!(read_content(&list(expiries), 12).is_ok(), good, "{expiries:?}");
    }
    let table = |earliest: u64, delay: u64| {
        let delay = [&[0x81][..], &delay.to_be_bytes()].concat();
        [&[24][..], &earliest.to_le_bytes(), &[1], &delay, &[1, b'f', 1, b'v']].concat()
    };
    assert_eq!(read_content(&table(1_000, 1), 12).unwrap()[0].2, Some(1_000));
    assert_eq!(read_content(&table(1_000, 0), 12).unwrap()[0].2, None);
    assert_eq!(read_content(&table((1 << 48) - 1, 1), 12).unwrap()[0].2, Some((1 << 48) - 1));
    for (earliest, delay) in [((1 << 48) - 1, 2), (u64::MAX, 2), (5, u64::MAX)] {
        assert_eq!(read_content(&table(earliest, delay), 12), Err(Malformed));
    }
    let valkey = |at: i64| [&[22, 1, 1, b'f', 1, b'v'][..], &at.to_le_bytes()].concat();
    assert_eq!(read_content(&valkey(-1), 80).unwrap()[0].2, None);
    assert_eq!(read_content(&valkey(7), 80).unwrap()[0].2, Some(7));
    assert_eq!(read_content(&valkey(-2), 80), Err(Malformed));
}

#[test]
fn forms_are_chosen_by_thresholds() {
    let hash = |len: usize, bytes: usize, expires: bool| -> Expiring {
        (0..len).map(|n| (n.to_string().into_bytes(), vec![b'x'; bytes], (expires && n == 0).then_some(9))).collect()
    };
    let choose = |len, bytes, expires, dialect| HashForm::choose(entries(&hash(len, bytes, expires)), LIKE_REDIS, dialect);
    for (len, bytes, small) in [(512, 64, true), (513, 1, false), (1, 65, false)] {
        let (plain, expiring) = if small {
            (HashForm::Listpack, HashForm::ListpackWithExpiries)
        } else {
            (HashForm::Table, HashForm::TableWithExpiries)
        };
        assert_eq!(choose(len, bytes, false, Dialect::Redis), plain);
        assert_eq!(choose(len, bytes, false, Dialect::Valkey), plain);
        assert_eq!(choose(len, bytes, true, Dialect::Redis), expiring);
        assert_eq!(choose(len, bytes, true, Dialect::Valkey), HashForm::Valkey);
    }
}

#[test]
fn announced_lengths_reserve_nothing() {
    for content in [
        &b"\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x01b"[..],
        b"\x04\x01\x80\xff\xff\xff\xff\x01a\x01b",
        b"\x04\x01\xc3\x03\x81\x00\xff\xff\xff\xff\xff\xff\xffabc\x01b",
        b"\x10\x81\x7f\xff\xff\xff\xff\xff\xff\xff",
    ] {
        assert_eq!(read_content(content, 10), Err(Malformed));
    }
}

fn any_fields() -> impl Strategy<Value = Expiring> {
    let text = || prop_oneof![any::<i64>().prop_map(|n| n.to_string().into_bytes()), prop::collection::vec(any::<u8>(), 0..80)];
    let expiry = prop::option::of(1..hash::EXPIRY_MS_MAX);
    prop::collection::btree_map(text(), (text(), expiry), 1..20)
        .prop_map(|map| map.into_iter().map(|(name, (value, expiry))| (name, value, expiry)).collect())
}

proptest! {
    #[test]
    fn what_is_written_is_read(fields in any_fields()) {
        for form in [HashForm::TableWithExpiries, HashForm::ListpackWithExpiries, HashForm::Valkey] {
            let mut read = read(&written(form, &fields)).unwrap();
            read.sort();
            prop_assert_eq!(&read, &fields);
        }
    }

    #[test]
    fn no_bytes_make_the_readers_panic(
        version in prop::sample::select(vec![10u16, 12, 80]),
        kind in 0u8..30,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let content = [&[kind][..], &bytes].concat();
        let _ = read_content(&content, version);
        let _ = read_content(&contained(kind, &bytes), version);
    }
}
