//! Keyspace events from outside: of keys that several workers change, and of what the store does by itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use almandine_testkit::mutants::must_notice;
use almandine_testkit::promises::events::come_in_order;
use almandine_testkit::{Client, Program, Server, Value, full};

fn server(workers: &str, classes: &str, more: &[&str]) -> Server {
    let flags = [&["--workers", workers, "--notify-keyspace-events", classes, "--enable-debug-command", "yes"], more].concat();
    Server::start(&Program::Almandine, &flags)
}

fn listener(server: &Server, pattern: &str) -> Client {
    let mut client = server.client();
    let reply = client.call(&["PSUBSCRIBE", pattern]).expect("a confirmation");
    assert!(matches!(reply, Value::Array(_)), "{reply:?}");
    client
}

/// Channel and text of a message.
fn message(client: &mut Client) -> (String, String) {
    let value = client.receive().expect("a message");
    let parts = value.elements().expect("an array");
    let text = |value: &Value| String::from_utf8_lossy(value.bytes().expect("a string")).into_owned();
    (text(&parts[2]), text(&parts[3]))
}

/// Messages up to one with this text.
fn messages_until(client: &mut Client, last: &str) -> Vec<(String, String)> {
    let mut messages = Vec::new();
    loop {
        let message = message(client);
        if message.1 == last {
            return messages;
        }
        messages.push(message);
    }
}

fn commands_of_each() -> usize {
    if full() { 20_000 } else { 3_000 }
}

/// INV-EVENT-1: clients of four workers make and remove the same keys, by single commands, transactions and expiry. Of each
/// key, listeners hear that it was made and that it went by turns, as its states follow each other, all else between, and all
/// of them hear the same.
#[test]
fn events_of_a_key_come_in_the_order_of_its_changes() {
    come_in_order(&server("4", "Kg$xn", &[]).address(), commands_of_each());
}

/// A server that releases the latch of a key before it tells what the command has done there is noticed.
#[test]
fn events_that_are_told_too_late_are_noticed() {
    must_notice("LatchForEvents", &["--workers", "4", "--notify-keyspace-events", "Kg$xn"], 10, |server| {
        come_in_order(&server.address(), commands_of_each());
    });
}

/// What INCR answers and the events of its key agree: each value between two removals is told once, whichever worker has counted.
#[test]
fn events_agree_with_the_values() {
    let server = server("3", "Eg$", &[]);
    let mut listener = listener(&server, "__keyevent@0__:*");
    let each = if full() { 20_000 } else { 3_000 };
    let highest: Vec<i64> = std::thread::scope(|scope| {
        let counting = |worker: usize| {
            let mut client = server.client();
            move || {
                let mut counts = Vec::new();
                for number in 0..each {
                    if (number + worker).is_multiple_of(97) {
                        client.call(&["DEL", "n"]).expect("a reply");
                    }
                    if let Value::Integer(count) = client.call(&["INCR", "n"]).expect("a reply") {
                        counts.push(count);
                    }
                }
                counts
            }
        };
        let threads: Vec<_> = (0..3).map(|worker| scope.spawn(counting(worker))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut client = server.client();
    client.call(&["PUBLISH", "__keyevent@0__:end", "the end"]).expect("a reply");
    // By the events alone: how often each value was reached.
    let (mut told, mut value) = (HashMap::new(), 0i64);
    for (channel, key) in messages_until(&mut listener, "the end") {
        assert_eq!(key, "n");
        value = if channel.ends_with(":del") { 0 } else { value + 1 };
        if value > 0 {
            *told.entry(value).or_insert(0) += 1;
        }
    }
    let mut answered = HashMap::new();
    highest.iter().for_each(|value| *answered.entry(*value).or_insert(0) += 1);
    assert_eq!(told, answered);
    assert_eq!(client.call(&["GET", "n"]).expect("a reply").to_string(), format!("$\"{value}\""));
}

/// Keys and fields that expire are told when the background removes them, with the database that they were in.
#[test]
fn what_expires_in_the_background_is_told() {
    for more in [&[][..], &["--storage-device", "memory", "--maxmemory", "16mb"]] {
        let server = server("2", "EAS", more);
        let mut listener = listener(&server, "__*@*__:*");
        let mut client = server.client();
        let lines = [
            "SELECT 3",
            "SET k v PX 60",
            "HSET h a 1 b 2 c 3",
            "HPEXPIRE h 60 FIELDS 2 a b",
            "HSET g a 1",
            "HPEXPIRE g 60 FIELDS 1 a",
        ];
        lines.iter().for_each(|line| assert!(!matches!(client.line(line), Value::Error(_)), "{line}"));
        if !more.is_empty() {
            assert!(server.make_cold());
        }
        let mut told: Vec<(String, String)> = Vec::new();
        let begun = Instant::now();
        // Both fields of h together or one by one; what is told of a hash comes before what is told of its fields.
        let fields_told = |told: &[(String, String)]| {
            let of_h = told.iter().filter(|(channel, text)| channel == "__subkeyspace@3__:h" && text.starts_with("hexpired|"));
            of_h.map(|(_, text)| text.matches("1:").count()).sum::<usize>()
        };
        while fields_told(&told) < 2
            || ![("expired", "k"), ("hexpired", "h"), ("del", "g")]
                .iter()
                .all(|(name, key)| told.iter().any(|(channel, text)| channel == &format!("__keyevent@3__:{name}") && text == key))
        {
            told.push(message(&mut listener));
            assert!(begun.elapsed() < Duration::from_secs(20), "{told:?}");
        }
        let of = |channel: &str| {
            told.iter().filter(|message| message.0 == channel).map(|message| message.1.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of("__keyevent@3__:expired"), ["k"], "{told:?}");
        let mut fields: Vec<&str> = of("__subkeyspace@3__:h").into_iter().filter(|text| text.starts_with("hexpired")).collect();
        fields.sort_unstable();
        assert!(
            fields == ["hexpired|1:a,1:b"] || fields == ["hexpired|1:a", "hexpired|1:b"] || fields == ["hexpired|1:b,1:a"],
            "{fields:?}"
        );
    }
}

/// Keys that give way for others are told.
#[test]
fn what_is_evicted_is_told() {
    let server = server("2", "Ee", &["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut listener = listener(&server, "__keyevent@0__:evicted");
    let (mut client, value) = (server.client(), "x".repeat(1000));
    let commands: Vec<[String; 3]> = (0..20_000).map(|number| ["SET".to_owned(), format!("k{number}"), value.clone()]).collect();
    for part in commands.chunks(500) {
        client.pipeline(part).expect("replies");
    }
    let (channel, key) = message(&mut listener);
    assert_eq!(channel, "__keyevent@0__:evicted");
    assert!(key.starts_with('k'));
    let Value::Integer(found) = client.call(&["EXISTS", &key]).expect("a reply") else { panic!("a number") };
    assert_eq!(found, 0, "{key}");
}
