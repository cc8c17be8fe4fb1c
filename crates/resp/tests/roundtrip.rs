//! What one side writes, the other side reads.

mod client;
mod common;

use almandine_base::Output;
use almandine_resp::{Limits, ProtocolVersion, Reply};
use client::{Value, decode, encode};
use common::parse;
use proptest::collection::vec;
use proptest::prelude::*;

fn commands() -> impl Strategy<Value = Vec<common::Command>> {
    let arg = prop_oneof![8 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 90..1100)];
    vec(vec(arg, 1..14), 1..8)
}

/// A reply that a server may send in RESP3.
fn reply() -> impl Strategy<Value = Value> {
    let line = "[ -~]{0,20}";
    let leaf = prop_oneof![
        line.prop_map(|s| Value::Simple(s.into_bytes())),
        line.prop_map(|s| Value::Error(s.into_bytes())),
        any::<i64>().prop_map(Value::Integer),
        vec(any::<u8>(), 0..150).prop_map(Value::Bulk),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        "-?[1-9][0-9]{0,40}".prop_map(Value::BigNumber),
        vec(any::<u8>(), 0..30).prop_map(Value::BlobError),
        vec(any::<u8>(), 0..30).prop_map(|text| Value::Verbatim { format: *b"txt", text }),
        any::<f64>().prop_filter("equal to itself", |d| !d.is_nan()).prop_map(|d| Value::Double(d.to_string())),
    ];
    leaf.prop_recursive(4, 60, 12, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..12).prop_map(Value::Array),
            vec(inner.clone(), 0..12).prop_map(Value::Set),
            vec(inner.clone(), 0..4).prop_map(Value::Push),
            vec((inner.clone(), inner.clone()), 0..12).prop_map(Value::Map),
            (vec((inner.clone(), inner.clone()), 0..3), inner)
                .prop_map(|(attributes, reply)| Value::Attributed { attributes, reply: Box::new(reply) }),
        ]
    })
}

fn write(value: &Value, reply: &mut Reply<'_>) {
    fn pairs(pairs: &[(Value, Value)], reply: &mut Reply<'_>) {
        for (key, value) in pairs {
            write(key, reply);
            write(value, reply);
        }
    }
    match value {
        Value::Simple(text) => reply.simple(str::from_utf8(text).expect("printable")),
        Value::Error(text) => reply.error(text),
        Value::Integer(value) => reply.integer(*value),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::NullBulk | Value::Null => reply.null(),
        Value::NullArray => reply.null_array(),
        Value::Boolean(value) => reply.boolean(*value),
        Value::Double(text) => reply.double(text.parse().expect("a double")),
        Value::BigNumber(digits) => reply.raw(format!("({digits}\r\n").as_bytes()),
        Value::BlobError(text) => reply.raw(&[format!("!{}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()),
        Value::Verbatim { text, .. } => reply.verbatim(text),
        Value::Array(elements) => {
            let array = reply.begin();
            elements.iter().for_each(|element| write(element, reply));
            array.end_array(reply, elements.len());
        }
        Value::Set(elements) => {
            let set = reply.begin();
            elements.iter().for_each(|element| write(element, reply));
            set.end_set(reply, elements.len());
        }
        Value::Push(elements) => {
            reply.push(elements.len());
            elements.iter().for_each(|element| write(element, reply));
        }
        Value::Map(map) => {
            reply.map(map.len());
            pairs(map, reply);
        }
        Value::Attributed { attributes, reply: inner } => {
            reply.raw(format!("|{}\r\n", attributes.len()).as_bytes());
            pairs(attributes, reply);
            write(inner, reply);
        }
    }
}

/// The same value with doubles compared as numbers, since the text of one has more than one spelling.
fn normal(value: Value) -> Value {
    let list = |elements: Vec<Value>| elements.into_iter().map(normal).collect();
    let pairs = |pairs: Vec<(Value, Value)>| pairs.into_iter().map(|(key, value)| (normal(key), normal(value))).collect();
    match value {
        Value::Double(text) => Value::Double(text.parse::<f64>().expect("a double").to_bits().to_string()),
        Value::Array(elements) => Value::Array(list(elements)),
        Value::Set(elements) => Value::Set(list(elements)),
        Value::Push(elements) => Value::Push(list(elements)),
        Value::Map(map) => Value::Map(pairs(map)),
        Value::Attributed { attributes, reply } => {
            Value::Attributed { attributes: pairs(attributes), reply: Box::new(normal(*reply)) }
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_survive_encoding_and_cutting(
        commands in commands(),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
        commands_max in 1_usize..10,
    ) {
        let mut stream = Vec::new();
        commands.iter().for_each(|command| encode(&mut stream, command));
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cuts.sort_unstable();
        let outcome = parse(&stream, &cuts, &Limits::default(), commands_max);
        prop_assert_eq!(outcome.end, Ok(stream.len()));
        prop_assert_eq!(outcome.commands, commands);
    }

    #[test]
    fn inline_words_survive_quoting(words in vec(vec(any::<u8>(), 0..20), 1..6)) {
        let quoted = words.iter().map(|word| {
            let escaped: String = word.iter().map(|byte| format!("\\x{byte:02X}")).collect();
            format!("\"{escaped}\"")
        });
        let line = quoted.collect::<Vec<_>>().join(" ") + "\r\n";
        prop_assert_eq!(parse(line.as_bytes(), &[line.len() / 2], &Limits::default(), 9).commands, vec![words]);
    }

    #[test]
    fn replies_survive_encoding(value in reply()) {
        let mut out = Output::new();
        write(&value, &mut Reply::new(&mut out, ProtocolVersion::Resp3));
        let decoded = decode(&out.bytes).unwrap();
        let (decoded, len) = decoded.unwrap();
        prop_assert_eq!(len, out.bytes.len());
        prop_assert_eq!(normal(decoded), normal(value.clone()));
        prop_assert_eq!(decode(&out.bytes[..len - 1]), Ok(None));

        // RESP2 knows other types, but no other number of replies.
        out.clear();
        write(&value, &mut Reply::new(&mut out, ProtocolVersion::Resp2));
        let (_, len) = decode(&out.bytes).unwrap().unwrap();
        prop_assert_eq!(len, out.bytes.len());
    }
}

#[test]
fn every_cut_of_one_pipeline_gives_the_same_commands() {
    let stream = b"*3\r\n$3\r\nSET\r\n$5\r\nhello\r\n$12\r\n\r\n$3\r\n*1\r\n\r\n \r\nPING \"a b\"\r\n\
                   *0\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n\nget x\n";
    let whole = parse(stream, &[], &Limits::default(), 99);
    assert_eq!((whole.commands.len(), &whole.end), (4, &Ok(stream.len())));
    for first in 0..stream.len() {
        for second in first..stream.len() {
            assert_eq!(parse(stream, &[first, second], &Limits::default(), 99), whole);
        }
    }
}
