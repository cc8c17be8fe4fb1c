//! Data of all types, and what a server has, in the same words for each server.

use almandine_testkit::{Client, Value};

/// Everything that a server has, in words that are the same on both sides.
pub(crate) fn contents(client: &mut Client) -> Vec<String> {
    let sorted = |value: Value| match value {
        Value::Array(mut items) => {
            items.sort_by_key(|item| item.to_string());
            Value::Array(items)
        }
        value => value,
    };
    let mut lines = Vec::new();
    for db in [0, 5] {
        assert_eq!(client.line(&format!("SELECT {db}")), Value::Simple(b"OK".to_vec()));
        let Value::Array(keys) = sorted(client.line("KEYS *")) else { panic!("no keys") };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("no key") };
            let mut ask = |words: &[&str]| {
                let words: Vec<&[u8]> = words.iter().map(|word| if *word == "KEY" { &key[..] } else { word.as_bytes() }).collect();
                client.call(&words).unwrap()
            };
            let (kind, at) = (ask(&["TYPE", "KEY"]).to_string(), ask(&["PEXPIRETIME", "KEY"]));
            let value = match kind.as_str() {
                "+string" => ask(&["GET", "KEY"]),
                "+list" => ask(&["LRANGE", "KEY", "0", "-1"]),
                "+set" => sorted(ask(&["SMEMBERS", "KEY"])),
                "+zset" => ask(&["ZRANGE", "KEY", "0", "-1", "WITHSCORES"]),
                "+hash" => sorted(ask(&["HGETALL", "KEY"])),
                "+stream" => Value::Array(vec![ask(&["XRANGE", "KEY", "-", "+"]), ask(&["XINFO", "GROUPS", "KEY"])]),
                kind => panic!("{kind}"),
            };
            // A string that has grown is `raw` until it is loaded, also in Redis.
            let encoding = if kind == "+string" { Value::NullBulk } else { ask(&["OBJECT", "ENCODING", "KEY"]) };
            lines.push(format!("{db} {} {kind} {encoding} {at} {value}", key.escape_ascii()));
        }
    }
    assert_eq!(client.line("SELECT 0"), Value::Simple(b"OK".to_vec()));
    lines
}

/// Keys of every type and encoding of redis-server 7.0, in two databases.
pub(crate) fn fill(client: &mut Client) {
    let long = "abc".repeat(50);
    let script = format!(
        "SET int 1234567890123\nSET short text\nSET long {long}\nRPUSH packed 1 two 3\nSADD ints 1 2 70000\n\
         ZADD scores 1.5 a -2 b inf c\nHSET fields a 1 b {long}\nPFADD hll a b c\nSETBIT bits 70000 1\nXADD stream 1-1 a 1 b 2\n\
         XADD stream 1-2 a 3 b 4\nXADD stream 2-1 c {long}\nXDEL stream 1-2\nXGROUP CREATE stream group 0\n\
         XREADGROUP GROUP group one COUNT 1 STREAMS stream >\nXADD emptied 1-1 a b\nXDEL emptied 1-1\n\
         SET expiring v PXAT 4102444800123\nHSET expiring-hash f v\nPEXPIREAT expiring-hash 4102444800999\n\
         SELECT 5\nSET elsewhere 1\n\
         SELECT 0"
    );
    let assert_done = |reply: Value| assert!(!matches!(reply, Value::Error(_)), "{reply}");
    script.lines().for_each(|line| assert_done(client.line(line)));
    for n in 0..600 {
        assert_done(client.line(&format!("RPUSH quicklist element-{n}-{}", "x".repeat(n % 90))));
        assert_done(client.line(&format!("SADD big-intset {}", n * 7)));
        assert_done(client.line(&format!("SADD big-set {}", "m".repeat(n % 100 + 1))));
        assert_done(client.line(&format!("ZADD big-scores {}.25 member-{n}", n * 3)));
        assert_done(client.line(&format!("HSET big-hash field-{n} value-{n}")));
        assert_done(client.line(&format!("XADD big-stream {n}-1 field value-{n}")));
    }
}

/// Both are equal.
#[track_caller]
pub(crate) fn assert_equal(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        let at = found.bytes().zip(expected.bytes()).take_while(|(found, expected)| found == expected).count();
        let around = |text: &str| text.get(at.saturating_sub(100)..(at + 100).min(text.len())).map(str::to_owned);
        assert!(found == expected, "{:?} and {:?}", around(found), around(expected));
    }
    assert_eq!(found.len(), expected.len());
}
