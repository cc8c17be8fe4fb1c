//! Random arguments, from pools that hold the edges of each type.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Random;

/// The words of templates that are random arguments.
pub(super) const ATOMS: &[&str] = &[
    "score",
    "bound",
    "lexbound",
    "key",
    "value",
    "int",
    "float",
    "ttl",
    "pttl",
    "at",
    "pat",
    "offset",
    "index",
    "db",
    "pattern",
    "width",
    "word",
    "field",
    "fields",
    "pairs",
    "hash",
    "member",
    "members",
    "content",
    "longitude",
    "latitude",
    "metres",
    "element",
    "elements",
    "newid",
    "id",
    "xbound",
    "idle",
];

const VALUES: &[&[u8]] = &[
    b"",
    b"0",
    b"1",
    b"-1",
    b"10",
    b"-0",
    b"007",
    b"+5",
    b" 5",
    b"12345678901234567890",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775806",
    b"3.0",
    b"-2.5",
    b"1e5",
    b"0.1",
    b"inf",
    b"nan",
    b"foobar",
    b"\x00",
    b"\xff\xff\xff",
    b"\xff\xf0\x00",
    b"hello world",
    b"\r\n",
    b"0x10",
];
const INTS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"100",
    b"-100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"abc",
    b"",
    b"1.5",
    b" 1",
    b"4294967296",
    b"255",
    b"-128",
];
const FLOATS: &[&[u8]] =
    &[b"0", b"1", b"-1", b"0.1", b"-0.1", b"3.5", b"1e3", b"100.25", b"-2.5e-2", b"abc", b"nan", b"inf", b"", b"5.0"];
const SCORES: &[&[u8]] = &[b"inf", b"-inf", b"+inf", b"abc", b"nan", b"", b"-0", b"1e3", b"(inf", b"0x10", b" 1"];
pub(super) const BAD_TIMES: &[&[u8]] =
    &[b"0", b"-1", b"abc", b"", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"1.5"];
const STREAM_IDS: &[&[u8]] = &[
    b"0",
    b"0-0",
    b"0-1",
    b"18446744073709551615",
    b"18446744073709551615-18446744073709551615",
    b"-1-0",
    b"1-",
    b"1-x",
    b"",
    b"abc",
];
const OFFSETS: &[&[u8]] = &[b"-1", b"abc", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"#1", b""];
const PATTERNS: &[&[u8]] = &[b"*", b"k*", b"k?", b"k[0-3]", b"k[^1]", b"*1", b"nosuch", b"", b"[k", b"k\\1", b"??", b"k1?"];
pub(super) const WORDS: &[&[u8]] = &[b"abc", b"", b"WHAT", b"x-y", b"FOO1", b"\xff"];

/// A random argument, and whether it is an expiry that passes within milliseconds.
pub(super) fn atom(name: &str, random: &mut Random) -> (Vec<u8>, bool) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let text = |n: i64| n.to_string().into_bytes();
    // Long expiries are spread widely, so that GT and LT do not depend on the millisecond in which they were set.
    let long_ms = random.between(200_000, 2_000_000_000);
    let edge = random.chance(10);
    let bytes = match name {
        "key" if random.chance(2) => Vec::new(),
        "key" => format!("k{}", random.below(12)).into_bytes(),
        "value" => value(random),
        "int" if random.chance(60) => text(random.between(-300, 300)),
        "int" => random.pick(INTS).to_vec(),
        "float" if random.chance(50) => format!("{}.{}", random.between(-50, 50), random.below(100)).into_bytes(),
        "float" => random.pick(FLOATS).to_vec(),
        "ttl" | "pttl" | "at" | "pat" if edge => random.pick(BAD_TIMES).to_vec(),
        "pttl" if random.chance(4) => return (text(random.between(1, 3)), true),
        "ttl" => text(long_ms / 1000),
        "pttl" => text(long_ms),
        "at" if random.chance(10) => text(now / 1000 - 100),
        "at" => text((now + long_ms) / 1000),
        "pat" if random.chance(10) => text(now - 100_000),
        "pat" => text(now + long_ms),
        "offset" if edge => random.pick(OFFSETS).to_vec(),
        "offset" if random.chance(10) => format!("#{}", random.below(40)).into_bytes(),
        "offset" => {
            let bound = *random.pick(&[9, 100, 3000]);
            text(random.below(bound) as i64)
        }
        "index" if edge => random.pick(INTS).to_vec(),
        "index" => text(random.between(-30, 60)),
        "db" if edge => random.pick(&[&b"16"[..], b"-1", b"abc", b"2"]).to_vec(),
        "db" => text(random.below(2) as i64),
        "pattern" => random.pick(PATTERNS).to_vec(),
        "field" if random.chance(3) => value(random),
        "field" => format!("f{}", random.below(9)).into_bytes(),
        "hash" => format!("h{}", random.below(4)).into_bytes(),
        "member" => {
            let bound = *random.pick(&[10, 140, MEMBERS]);
            format!("f{}", random.below(bound)).into_bytes()
        }
        "element" if random.chance(5) => value(random),
        "element" => {
            let (prefix, bound) = (*random.pick(&["", "", "f"]), *random.pick(&[10, 140, MEMBERS]));
            format!("{prefix}{}", random.below(bound)).into_bytes()
        }
        "content" => content(random),
        "width" if edge => random.pick(&[&b"u64"[..], b"i65", b"u0", b"x8", b"i", b"", b"I8"]).to_vec(),
        "width" => {
            let signed = random.chance(50);
            format!("{}{}", if signed { 'i' } else { 'u' }, 1 + random.below(if signed { 64 } else { 63 })).into_bytes()
        }
        // Short in binary, so that Redis 7.0 writes them with as few digits.
        "score" | "bound" if random.chance(4) => random.pick(SCORES).to_vec(),
        "score" => format!("{}", random.between(-40, 40) as f64 / 4.0).into_bytes(),
        "bound" => format!("{}{}", if random.chance(30) { "(" } else { "" }, random.between(-40, 40) as f64 / 4.0).into_bytes(),
        "lexbound" => random.pick(&[&b"-"[..], b"+", b"[f1", b"(f3", b"[f5", b"f1", b""]).to_vec(),
        "longitude" | "latitude" | "metres" if random.chance(3) => random.pick(FLOATS).to_vec(),
        "longitude" => format!("{:.7}", *random.pick(&[13.0, -179.999, 179.99, 0.0]) + small(random)).into_bytes(),
        "latitude" => format!("{:.7}", *random.pick(&[38.0, -85.0, 0.0, 80.0]) + small(random)).into_bytes(),
        "metres" => format!("{}", 10f64.powi(random.below(7) as i32) * (1.0 + small(random).abs())).into_bytes(),
        // Of the times since a delivery some are short, some are set far back; none is near a limit.
        "idle" => random.pick(&[&b"0"[..], b"0", b"50000", b"200000", b"-1", b"abc"]).to_vec(),
        "word" => random.pick(WORDS).to_vec(),
        _ => unreachable!("{name} is not in ATOMS"),
    };
    (bytes, false)
}

/// An id of a stream's entry: a new one, mostly above those before; one that may be there; or a bound of a range.
pub(super) fn stream_id(name: &str, clock: &mut u64, random: &mut Random) -> Vec<u8> {
    if random.chance(3) {
        return random.pick(STREAM_IDS).to_vec();
    }
    let text = match (name, random.below(10)) {
        ("newid", 0) => format!("{}-{}", random.below(*clock as usize + 2), random.below(4)),
        ("newid", kind) => {
            *clock += random.below(3) as u64;
            match kind {
                1..4 => format!("{clock}-*"),
                4..6 => format!("{clock}"),
                _ => format!("{clock}-{}", random.below(5)),
            }
        }
        ("xbound", 0..3) => "-".to_owned(),
        ("xbound", 3..6) => "+".to_owned(),
        (_, kind) => {
            // Near the end more often than not.
            let span = if random.chance(60) { (*clock).min(12) } else { *clock };
            let ms = *clock - random.below(span as usize + 1) as u64;
            let exclusive = if name == "xbound" && kind == 9 { "(" } else { "" };
            if random.chance(30) { format!("{exclusive}{ms}") } else { format!("{exclusive}{ms}-{}", random.below(5)) }
        }
    };
    text.into_bytes()
}

/// A number within one of zero.
fn small(random: &mut Random) -> f64 {
    random.between(-100_000_000, 100_000_000) as f64 / 1e8
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..4 => random.pick(VALUES).to_vec(),
        4..6 => random.between(-100_000, 100_000).to_string().into_bytes(),
        6..8 => {
            let len = random.below(16);
            random.bytes(len)
        }
        8 => {
            // Around the 44 bytes at which an embedded string ends.
            let len = 40 + random.below(8);
            vec![b'x'; len]
        }
        _ => {
            let len = random.below(600);
            random.bytes(len)
        }
    }
}

/// Fields of the largest hashes.
const MEMBERS: usize = 4000;

/// Numbers of fields next to each other: few, or as many as cross the limits of what is packed, here and in Redis.
pub(super) fn numbers(random: &mut Random) -> Range<usize> {
    let count = match random.below(100) {
        0..60 => 1 + random.below(6),
        60..80 => 55 + random.below(20),
        80..95 => 115 + random.below(30),
        _ => 500 + random.below(2500),
    };
    let bound = if random.chance(50) { 20 } else { MEMBERS - count };
    let first = random.below(bound);
    first..first + count
}

pub(super) fn short_content(random: &mut Random) -> Vec<u8> {
    if random.chance(30) {
        return random.between(-1000, 1000).to_string().into_bytes();
    }
    let len = random.below(24);
    random.bytes(len)
}

/// A value of a field: around the 64 bytes that a listpack may hold, the 16 KiB that a record may, and to 1 MB.
fn content(random: &mut Random) -> Vec<u8> {
    let len = match random.below(1000) {
        0..700 => return short_content(random),
        700..850 => 60 + random.below(10),
        850..950 => random.below(2000),
        950..990 => 15_000 + random.below(3000),
        990..997 => random.below(100_000),
        _ => 1_000_000 + random.below(50_000),
    };
    // Not compressible as a whole, so that payloads are large, too.
    let seed = random.bytes(251);
    seed.iter().copied().cycle().take(len).collect()
}
