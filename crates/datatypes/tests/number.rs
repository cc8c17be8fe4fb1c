//! Floats against redis-server and against the standard library.

mod oracle;

use almandine_datatypes::number::{self, Extended, FloatError};
use oracle::{Oracle, Random, Reply, command};
use proptest::prelude::*;

const CALLS: usize = 12_000;

/// A text that is mostly a number, of every form and size that `strtold` takes.
fn random_text(random: &mut Random) -> Vec<u8> {
    let digits = |random: &mut Random, most: u64| -> String {
        (0..random.below(most + 1)).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
    };
    let sign = random.of(&["", "", "-", "+"]);
    let text = match random.below(12) {
        0 => format!("{sign}{}", digits(random, 20)),
        1..=4 => format!("{sign}{}.{}", digits(random, 6), digits(random, 6)),
        5 | 6 => format!("{sign}{}.{}", digits(random, 20), digits(random, 30)),
        7 => format!("{sign}{}.{}e{}", digits(random, 3), digits(random, 18), random.between(-40, 40)),
        8 => format!("{sign}{}.{}E{}", digits(random, 40), digits(random, 40), random.between(-5_000, 4_980)),
        9 => format!("{sign}0x{:x}.{:x}p{}", random.next(), random.next(), random.between(-90, 90)),
        10 => format!("{:?}", f64::from_bits(random.next())),
        _ => random
            .of(&[
                "inf",
                "-inf",
                "nan",
                "",
                "0",
                "-0",
                "1e4932",
                "-1.18e4932",
                "3.6e-4951",
                "1e-4951",
                "5e-18",
                "1.5e-17",
                "0x.p1",
                " 1",
            ])
            .into(),
    };
    text.into_bytes()
}

#[test]
fn increments_print_what_redis_prints() {
    let mut oracle = Oracle::start();
    let mut random = Random(1);
    let (mut agreed, mut refused) = (0, 0);
    for _ in 0..CALLS / 100 {
        let pairs: Vec<_> = (0..100).map(|_| (random_text(&mut random), random_text(&mut random))).collect();
        let commands: Vec<_> = pairs
            .iter()
            .flat_map(|(value, increment)| [command([b"SET", b"k", value]), command([b"INCRBYFLOAT", b"k", increment])])
            .collect();
        for ((value, increment), reply) in pairs.iter().zip(oracle.ask_all(&commands).iter().skip(1).step_by(2)) {
            let mut out = Vec::new();
            let ours = match number::add_texts(value, increment, &mut out) {
                Ok(()) => Reply::Text(out),
                Err(FloatError::NotAFloat) => Reply::Error("ERR value is not a valid float".into()),
                Err(FloatError::NotFinite) => Reply::Error("ERR increment would produce NaN or Infinity".into()),
            };
            let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            assert_eq!(&ours, reply, "{} + {}", shown(value), shown(increment));
            if matches!(ours, Reply::Text(_)) { agreed += 1 } else { refused += 1 }
        }
    }
    assert!(agreed > CALLS / 2, "only {agreed} sums, {refused} errors");
}

/// A chain of increments, where each result is the next call's text.
#[test]
fn sums_stay_equal_over_many_increments() {
    let mut oracle = Oracle::start();
    let mut random = Random(2);
    let increments: Vec<_> =
        (0..2_000).map(|_| format!("{}.{}", random.between(-999, 999), random.below(1_000_000)).into_bytes()).collect();
    let commands: Vec<_> = increments.iter().map(|increment| command([b"INCRBYFLOAT", b"chain", increment])).collect();
    let mut value = b"0".to_vec();
    for (increment, reply) in increments.iter().zip(oracle.ask_all(&commands)) {
        let mut sum = Vec::new();
        number::add_texts(&value, increment, &mut sum).unwrap();
        assert_eq!(sum, reply.text());
        value = sum;
    }
}

#[test]
fn scores_read_and_print_as_in_redis() {
    let mut oracle = Oracle::start();
    let mut random = Random(3);
    let texts: Vec<_> = (0..5_000).map(|_| random_text(&mut random)).collect();
    // Deleted before, so that a refused score finds no member.
    let commands: Vec<_> = texts
        .iter()
        .flat_map(|text| [command([b"DEL", b"z"]), command([b"ZADD", b"z", text, b"m"]), command([b"ZSCORE", b"z", b"m"])])
        .collect();
    for (text, replies) in texts.iter().zip(oracle.ask_all(&commands).chunks(3)) {
        let ours = number::parse_f64(text).map_or(Reply::Null, |value| {
            let mut out = Vec::new();
            // A listpack keeps a zero without its sign.
            number::write_g17(if value == 0.0 { 0.0 } else { value }, &mut out);
            Reply::Text(out)
        });
        assert_eq!(ours, replies[2], "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn integers_are_what_redis_takes() {
    let mut oracle = Oracle::start();
    let mut random = Random(4);
    let texts: Vec<_> = (0..2_000)
        .map(|_| match random.below(4) {
            0 => random.text(4, b"-+01 9a"),
            1 => random.between(-20, 20).to_string().into_bytes(),
            2 => (i128::from(i64::MAX) + i128::from(random.between(-3, 3))).to_string().into_bytes(),
            _ => (i128::from(i64::MIN) + i128::from(random.between(-3, 3))).to_string().into_bytes(),
        })
        .collect();
    let commands: Vec<_> =
        texts.iter().flat_map(|text| [command([b"SET", b"k", text]), command([b"INCRBY", b"k", b"0"])]).collect();
    for (text, reply) in texts.iter().zip(oracle.ask_all(&commands).iter().skip(1).step_by(2)) {
        let theirs = if let Reply::Integer(value) = reply { Some(*value) } else { None };
        assert_eq!(number::parse_i64(text), theirs, "{}", String::from_utf8_lossy(text));
    }
}

proptest! {
    #[test]
    fn integers_survive(value: i64) {
        prop_assert_eq!(number::parse_i64(value.to_string().as_bytes()), Some(value));
    }

    #[test]
    fn doubles_survive_both_forms(bits: u64) {
        let value = f64::from_bits(bits);
        for write in [number::write_g17, number::write_shortest] {
            let mut out = Vec::new();
            write(value, &mut out);
            prop_assert_eq!(number::parse_f64(&out).map(f64::to_bits), (!value.is_nan()).then_some(bits));
        }
    }

    #[test]
    fn nothing_panics(text in prop::collection::vec(any::<u8>(), 0..40), numeric in "[-+0-9.exp]{0,30}") {
        for text in [text.as_slice(), numeric.as_bytes()] {
            let _ = (number::parse_i64(text), number::parse_f64(text), Extended::parse(text));
        }
    }

    /// Doubles are exact as 80-bit floats, and short sums of them too.
    #[test]
    fn small_integers_add_exactly(a in -(1i64 << 60)..1 << 60, b in -(1i64 << 60)..1 << 60) {
        let mut out = Vec::new();
        Extended::from(a).checked_add(Extended::from(b)).unwrap().write(&mut out);
        prop_assert_eq!(out, (a + b).to_string().into_bytes());
    }

    #[test]
    fn addition_commutes(a: f64, b: f64) {
        let (a, b) = (Extended::from(a), Extended::from(b));
        prop_assert_eq!(a.checked_add(b), b.checked_add(a));
    }
}
