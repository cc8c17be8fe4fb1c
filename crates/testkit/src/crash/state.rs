//! What a database holds, as a client sees it.

use std::collections::BTreeMap;

use crate::{Client, Value};

/// The keys of a database with their values and times.
pub(super) type State = BTreeMap<Vec<u8>, String>;

/// Reads the database that the client has selected.
pub(super) fn read(client: &mut Client) -> State {
    let Value::Array(keys) = client.line("KEYS *") else { panic!("KEYS gives an array") };
    keys.iter().map(|key| key.bytes().unwrap_or_default().to_vec()).map(|key| (key.clone(), describe(client, &key))).collect()
}

/// A key's value in words: elements of what has no order are sorted.
fn describe(client: &mut Client, key: &[u8]) -> String {
    let mut ask = |words: &[&[u8]]| client.call(words).unwrap_or_else(|e| panic!("{words:?}: {e}"));
    let time = ask(&[b"PEXPIRETIME", key]);
    let kind = ask(&[b"TYPE", key]);
    let value = match kind.bytes().unwrap_or_default() {
        b"string" => ask(&[b"GET", key]),
        b"list" => ask(&[b"LRANGE", key, b"0", b"-1"]),
        b"hash" => pairs(ask(&[b"HGETALL", key])),
        b"set" => sorted(ask(&[b"SMEMBERS", key])),
        b"zset" => ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
        b"stream" => {
            let entries = ask(&[b"XRANGE", key, b"-", b"+"]);
            let last = ask(&[b"XINFO", b"STREAM", key]);
            Value::Array(vec![entries, field(&last, b"last-generated-id"), field(&last, b"entries-added")])
        }
        _ => Value::Null,
    };
    format!("{kind} {time} {value}")
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut elements) = value else { return value };
    elements.sort_by(|one, other| one.bytes().cmp(&other.bytes()));
    Value::Array(elements)
}

fn pairs(value: Value) -> Value {
    let Value::Array(elements) = value else { return value };
    let mut pairs: Vec<Value> = elements.chunks(2).map(|pair| Value::Array(pair.to_vec())).collect();
    pairs.sort_by_key(ToString::to_string);
    Value::Array(pairs)
}

fn field(info: &Value, name: &[u8]) -> Value {
    let Value::Array(items) = info else { return Value::Null };
    items.chunks(2).find(|pair| pair[0].bytes() == Some(name)).map_or(Value::Null, |pair| pair[1].clone())
}
