//! Keyspace events from outside: of keys that several workers change, and of what the store does by itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use almandine_testkit::mutants::must_notice;
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

/// INV-EVENT-1: clients of four workers make and remove the same keys, by single commands, transactions and expiry. Of each
/// key, listeners hear that it was made and that it went by turns, as its states follow each other, all else between, and all
/// of them hear the same.
#[test]
fn events_of_a_key_come_in_the_order_of_its_changes() {
    come_in_order(&server("4", "Kg$xn", &[]));
}

/// A server that releases the latch of a key before it tells what the command has done there is noticed.
#[test]
fn events_that_are_told_too_late_are_noticed() {
    must_notice("LatchForEvents", &["--workers", "4", "--notify-keyspace-events", "Kg$xn"], 10, come_in_order);
}

fn come_in_order(server: &Server) {
    const KEYS: usize = 3;
    let mut listeners: Vec<Client> = (0..4).map(|_| listener(server, "__keyspace@0__:*")).collect();
    let each = if full() { 20_000 } else { 3_000 };
    std::thread::scope(|scope| {
        for worker in 0..4usize {
            let mut client = server.client();
            scope.spawn(move || {
                for part in (0..each).collect::<Vec<usize>>().chunks(24) {
                    let mut commands: Vec<Vec<String>> = Vec::new();
                    let mut add = |line: String| commands.push(line.split(' ').map(str::to_owned).collect());
                    for number in part {
                        let key = (number + worker) % KEYS;
                        match number % 7 {
                            0 => add(format!("SETNX k{key} v")),
                            1 => add(format!("DEL k{key}")),
                            2 => add(format!("SET k{key} v NX PX 1")),
                            3 => add(format!("GETDEL k{key}")),
                            4 => ["MULTI".to_owned(), format!("DEL k{key}"), format!("SETNX k{key} v"), "EXEC".to_owned()]
                                .into_iter()
                                .for_each(&mut add),
                            5 => add(format!("MSETNX k{key} v")),
                            _ => add(format!("UNLINK k{} k{key}", (key + 1) % KEYS)),
                        }
                    }
                    let replies = client.pipeline(&commands).expect("replies");
                    assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))), "{replies:?}");
                }
            });
        }
    });
    let mut client = server.client();
    for key in 0..KEYS {
        client.call(&["DEL", &format!("k{key}")]).expect("a reply");
    }
    client.call(&["PUBLISH", "__keyspace@0__:end", "the end"]).expect("a reply");
    let heard: Vec<Vec<(String, String)>> = listeners.iter_mut().map(|client| messages_until(client, "the end")).collect();
    let mut events: HashMap<&str, Vec<&str>> = HashMap::new();
    for (channel, event) in &heard[0] {
        events.entry(channel).or_default().push(event);
    }
    for (channel, events) in &events {
        let states: Vec<&str> = events.iter().copied().filter(|event| ["new", "del", "expired"].contains(event)).collect();
        let by_turns = states.chunks(2).all(|pair| pair[0] == "new" && pair.get(1).is_some_and(|gone| *gone != "new"));
        // What is said of a key's value is said between the two.
        let mut is_there = false;
        for (at, event) in events.iter().enumerate() {
            match *event {
                "new" => is_there = true,
                "del" | "expired" => is_there = false,
                _ => assert!(is_there, "{channel}: {event} of a key that is gone: {:?}", &events[at.saturating_sub(4)..=at]),
            }
        }
        assert!(by_turns && states.len() > 100, "{channel}: {} states are not by turns: {:?}", states.len(), around(&states));
    }
    for other in &heard[1..] {
        for (channel, first) in &events {
            let of_key: Vec<&str> = other.iter().filter(|(other, _)| other == channel).map(|(_, event)| event.as_str()).collect();
            assert!(of_key == *first, "two orders of {channel}");
        }
    }
}

/// The states around the first place where a key was made twice, or went twice.
fn around<'s>(states: &[&'s str]) -> Vec<&'s str> {
    let is_new = |state: &str| state == "new";
    let at = states.windows(2).position(|pair| is_new(pair[0]) == is_new(pair[1])).unwrap_or(0);
    states[at.saturating_sub(2)..(at + 4).min(states.len())].to_vec()
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
