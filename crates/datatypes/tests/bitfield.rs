//! Bit fields against redis-server and against a model that looks at one bit at a time.

mod oracle;

use almandine_datatypes::bitmap;
use almandine_datatypes::bitmap::field::{IntegerType, Overflow};
use oracle::{Oracle, Random, Reply};
use proptest::prelude::*;

const OVERFLOWS: [(&str, Overflow); 3] = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];

/// What the command does to `bytes`, and its reply: what the handler will do.
fn perform(bytes: &mut Vec<u8>, verb: &str, encoding: IntegerType, offset: u64, argument: i64, overflow: Overflow) -> Reply {
    let old = encoding.get(bytes, offset);
    let (written, reply) = match verb {
        "GET" => return Reply::Integer(old),
        "SET" => (encoding.fit(argument, overflow), old),
        _ => {
            let new = encoding.increment(old, argument, overflow);
            (new, new.unwrap_or_default())
        }
    };
    // The string grows even if nothing is written.
    let needed = encoding.bytes_needed(offset) as usize;
    if bytes.len() < needed {
        bytes.resize(needed, 0);
    }
    let Some(written) = written else { return Reply::Null };
    encoding.put(bytes, offset, written);
    Reply::Integer(reply)
}

#[test]
fn fields_are_those_of_redis() {
    let mut oracle = Oracle::start();
    let mut random = Random(9);
    let mut bytes = Vec::new();
    for round in 0..12_000 {
        if round % 500 == 0 {
            bytes.clear();
            oracle.ask(&[b"DEL", b"k"]);
        }
        let bits = if random.below(3) == 0 { random.of(&[1, 8, 16, 32, 62, 63]) } else { 1 + random.below(63) };
        let name = if random.below(20) == 0 { "i64".into() } else { format!("{}{bits}", random.of(&["i", "u"])) };
        let encoding = IntegerType::parse(name.as_bytes()).unwrap();
        let place = if random.below(3) == 0 { format!("#{}", random.below(5)) } else { random.below(300).to_string() };
        let offset = encoding.parse_offset(place.as_bytes(), 512 << 20).unwrap();
        let (overflow_name, overflow) = random.of(&OVERFLOWS);
        let verb = random.of(&["GET", "SET", "INCRBY"]);
        let argument = match random.below(3) {
            0 => random.next() as i64,
            1 => random.between(-3, 3),
            _ => random.of(&[i64::MIN, i64::MAX, i64::MIN + 1, 255, -128]),
        };
        let text = format!("BITFIELD k OVERFLOW {overflow_name} {verb} {name} {place}");
        let text = if verb == "GET" { text } else { format!("{text} {argument}") };
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let theirs = oracle.ask(&words);
        let ours = perform(&mut bytes, verb, encoding, offset, argument, overflow);
        assert_eq!(ours, theirs.array()[0], "{text}");
        if round % 20 == 0 {
            assert_eq!(&bytes, oracle.ask(&[b"GETRANGE", b"k", b"0", b"-1"]).text(), "{text}");
        }
    }
}

#[test]
fn types_and_offsets_are_those_of_redis() {
    let mut oracle = Oracle::start();
    for name in ["u0", "u1", "u63", "u64", "i1", "i64", "i65", "i08", "U8", "I8", "u", "8", "u-1", "u+1", "u8 "] {
        let taken = !matches!(oracle.ask(&[b"BITFIELD", b"k", b"GET", name.as_bytes(), b"0"]), Reply::Error(_));
        assert_eq!(IntegerType::parse(name.as_bytes()).is_some(), taken, "{name}");
    }
    let encoding = IntegerType::parse(b"u7").unwrap();
    for offset in
        ["0", "#0", "-1", "#-1", "4294967295", "4294967296", "#613566756", "#613566757", "#9223372036854775807", "#", "1x"]
    {
        let taken = !matches!(oracle.ask(&[b"BITFIELD", b"k", b"GET", b"u7", offset.as_bytes()]), Reply::Error(_));
        assert_eq!(encoding.parse_offset(offset.as_bytes(), 512 << 20).is_some(), taken, "{offset}");
    }
}

proptest! {
    #[test]
    fn a_field_is_its_bits(
        bytes in prop::collection::vec(any::<u8>(), 0..24),
        signed: bool,
        bits in 1u32..64,
        offset in 0u64..220,
    ) {
        let encoding = IntegerType::parse(format!("{}{bits}", if signed { 'i' } else { 'u' }).as_bytes()).unwrap();
        let raw = (0..u64::from(bits)).fold(0i128, |value, at| value << 1 | i128::from(bitmap::bit(&bytes, offset + at)));
        let negative = signed && raw >> (bits - 1) == 1;
        let expected = if negative { raw - (1i128 << bits) } else { raw };
        prop_assert_eq!(i128::from(encoding.get(&bytes, offset)), expected);
    }

    #[test]
    fn writing_changes_the_field_only(
        mut bytes in prop::collection::vec(any::<u8>(), 24),
        bits in 1u32..65,
        offset in 0u64..128,
        value: i64,
    ) {
        let encoding = IntegerType::parse(format!("i{bits}").as_bytes()).unwrap();
        let before = bytes.clone();
        let written = encoding.fit(value, Overflow::Wrap).unwrap();
        encoding.put(&mut bytes, offset, written);
        prop_assert_eq!(encoding.get(&bytes, offset), written);
        for at in (0..24 * 8).filter(|at| !(offset..offset + u64::from(bits)).contains(at)) {
            prop_assert_eq!(bitmap::bit(&bytes, at), bitmap::bit(&before, at));
        }
    }
}
