//! Bitmaps and ranges against redis-server and against models that look at one bit at a time.

mod oracle;

use almandine_datatypes::bitmap::{self, BitOperation, RangeUnit};
use almandine_datatypes::string::range;
use oracle::{Oracle, Random, command};
use proptest::prelude::*;

const NAMES: [&[u8]; 2] = [b"BYTE", b"BIT"];
const UNITS: [RangeUnit; 2] = [RangeUnit::Byte, RangeUnit::Bit];

/// Mostly zeros or mostly ones, so that first ones and zeros lie deep.
fn random_bytes(random: &mut Random, len_max: u64) -> Vec<u8> {
    let alphabet =
        random.of(&[&b"\x00\x00\x00\x00\x01\x80"[..], b"\xff\xff\xff\xff\x7f\xfe", b"\x00", b"\xff", b"\x00\x35\xff\xa0"]);
    random.text(len_max, alphabet)
}

#[test]
fn ranges_are_those_of_redis() {
    let mut oracle = Oracle::start();
    let mut random = Random(7);
    for _ in 0..60 {
        let bytes = random_bytes(&mut random, 20);
        oracle.ask(&[b"SET", b"k", &bytes]);
        for _ in 0..60 {
            let limit = random.of(&[5, 25, 200]);
            let (start, end) = (random.between(-limit, limit), random.between(-limit, limit));
            let (from, to) = (start.to_string().into_bytes(), end.to_string().into_bytes());
            let unit = random.below(2) as usize;
            let value = random.below(2) == 1;
            let bit: &[u8] = if value { b"1" } else { b"0" };
            let replies = oracle.ask_all(&[
                command([b"BITCOUNT", b"k", &from, &to, NAMES[unit]]),
                command([b"BITPOS", b"k", bit, &from, &to, NAMES[unit]]),
                command([b"BITPOS", b"k", bit, &from]),
                command([b"BITPOS", b"k", bit]),
                command([b"GETRANGE", b"k", &from, &to]),
            ]);
            let position = |found: Option<u64>| found.map_or(-1, |at| at as i64);
            let context = format!("{bytes:?} {start} {end} {:?} {value}", UNITS[unit]);
            assert_eq!(bitmap::count_range(&bytes, start, end, UNITS[unit]) as i64, replies[0].integer(), "count {context}");
            assert_eq!(position(bitmap::position_in(&bytes, start, end, UNITS[unit], value)), replies[1].integer(), "in {context}");
            assert_eq!(position(bitmap::position(&bytes, start, value)), replies[2].integer(), "from {context}");
            assert_eq!(position(bitmap::position(&bytes, 0, value)), replies[3].integer(), "{context}");
            let part = range::substring(start, end, bytes.len() as u64).unwrap_or(0..0);
            assert_eq!(&bytes[part.start as usize..part.end as usize], replies[4].text(), "range {context}");
        }
    }
}

#[test]
fn lists_are_cut_as_in_redis() {
    let mut oracle = Oracle::start();
    let items: [&[u8]; 5] = [b"0", b"1", b"2", b"3", b"4"];
    for len in 1..=items.len() {
        oracle.ask(&[b"DEL", b"l"]);
        oracle.ask(&[&[b"RPUSH", &b"l"[..]], &items[..len]].concat());
        for start in -7..7i64 {
            for end in -7..7i64 {
                let reply = oracle.ask(&[b"LRANGE", b"l", start.to_string().as_bytes(), end.to_string().as_bytes()]);
                let theirs: Vec<_> = reply.array().iter().map(|item| item.text()).collect();
                let ours = range::list(start, end, len as u64).unwrap_or(0..0);
                assert_eq!(items[ours.start as usize..ours.end as usize], theirs[..], "{start} {end} of {len}");
            }
        }
    }
}

#[test]
fn the_four_operations_of_redis_7() {
    let mut oracle = Oracle::start();
    let mut random = Random(8);
    for _ in 0..300 {
        let operation = random.of(&[BitOperation::And, BitOperation::Or, BitOperation::Xor, BitOperation::Not]);
        let count = if operation == BitOperation::Not { 1 } else { 1 + random.below(12) };
        let len_max = random.of(&[3, 40, 6_000]);
        let sources: Vec<_> = (0..count).map(|_| random.text(len_max, &[0, 1, 0x55, 0xaa, 0xfe, 0xff])).collect();
        let keys: Vec<_> = (0..count).map(|at| format!("k{at}").into_bytes()).collect();
        let mut commands = vec![command([b"FLUSHALL"])];
        // An empty value cannot be told from a missing key here.
        let present = keys.iter().zip(&sources).filter(|(_, source)| !source.is_empty());
        commands.extend(present.map(|(key, source)| command([b"SET", key, source])));
        let mut bitop = command([b"BITOP", operation.name().as_bytes(), b"out"]);
        bitop.extend(keys.iter().cloned());
        commands.extend([bitop, command([b"GETRANGE", b"out", b"0", b"-1"])]);
        let replies = oracle.ask_all(&commands);
        let mut out = Vec::new();
        operation.apply(&sources.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut out);
        assert_eq!(&out, replies[replies.len() - 1].text(), "{operation:?} {sources:?}");
    }
}

/// The definition, bit by bit: `set` says which sources have the bit.
fn model(operation: BitOperation, set: &[bool]) -> bool {
    let count = set.iter().filter(|&&set| set).count();
    let others = set[1..].contains(&true);
    match operation {
        BitOperation::And => count == set.len(),
        BitOperation::Or => count > 0,
        BitOperation::Xor => count % 2 == 1,
        BitOperation::Not => !set[0],
        BitOperation::Diff => set[0] && !others,
        BitOperation::Diff1 => !set[0] && others,
        BitOperation::AndOr => set[0] && others,
        BitOperation::One => count == 1,
    }
}

const OPERATIONS: [BitOperation; 8] = [
    BitOperation::And,
    BitOperation::Or,
    BitOperation::Xor,
    BitOperation::Not,
    BitOperation::Diff,
    BitOperation::Diff1,
    BitOperation::AndOr,
    BitOperation::One,
];

proptest! {
    #[test]
    fn operations_follow_their_definitions(
        sources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 2..6),
        padding in prop::sample::select(vec![0usize, 4090, 8192]),
        operation in prop::sample::select(&OPERATIONS[..]),
    ) {
        // Padding in front moves the bytes across the pieces' edges.
        let sources: Vec<Vec<u8>> = sources.into_iter().map(|source| [vec![0x5a; padding], source].concat()).collect();
        let count = operation.sources_max().unwrap_or(sources.len());
        let slices: Vec<&[u8]> = sources[..count].iter().map(Vec::as_slice).collect();
        let mut out = b"kept".to_vec();
        operation.apply(&slices, &mut out);
        let result = &out[4..];
        prop_assert_eq!(&out[..4], b"kept");
        prop_assert_eq!(result.len(), slices.iter().map(|source| source.len()).max().unwrap());
        for offset in padding.saturating_sub(2) as u64 * 8..result.len() as u64 * 8 {
            let set: Vec<bool> = slices.iter().map(|source| bitmap::bit(source, offset)).collect();
            prop_assert_eq!(bitmap::bit(result, offset), model(operation, &set), "bit {} of {:?}", offset, operation);
        }
    }

    #[test]
    fn operations_have_names(operation in prop::sample::select(&OPERATIONS[..])) {
        prop_assert_eq!(BitOperation::parse(operation.name().to_lowercase().as_bytes()), Some(operation));
    }

    #[test]
    fn ones_are_counted(
        bytes in prop::collection::vec(any::<u8>(), 0..3_000),
        start in -25_000i64..25_000,
        end in -25_000i64..25_000,
    ) {
        let bits = bytes.len() as u64 * 8;
        let ones = |from: u64, to: u64| (from..to).filter(|&offset| bitmap::bit(&bytes, offset)).count() as u64;
        prop_assert_eq!(bitmap::count(&bytes), ones(0, bits));
        let range = range::substring(start, end, bits).unwrap_or(0..0);
        prop_assert_eq!(bitmap::count_range(&bytes, start, end, RangeUnit::Bit), ones(range.start, range.end));
    }

    #[test]
    fn first_bits_are_found(
        fill in prop::sample::select(vec![0u8, 255]),
        len in 0usize..400,
        flips in prop::collection::vec(0u64..3_200, 0..3),
        start in -3_500i64..3_500,
        end in -3_500i64..3_500,
        value: bool,
    ) {
        let mut bytes = vec![fill; len];
        for flip in flips.into_iter().filter(|&flip| flip < len as u64 * 8) {
            bitmap::set_bit(&mut bytes, flip, fill == 0);
        }
        let range = range::between(start, end, len as u64 * 8).unwrap_or(0..0);
        let expected = range.clone().find(|&offset| bitmap::bit(&bytes, offset) == value);
        prop_assert_eq!(bitmap::position_in(&bytes, start, end, RangeUnit::Bit, value), expected);
    }
}
