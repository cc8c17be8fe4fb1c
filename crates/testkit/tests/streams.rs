//! Replies that are larger than what a connection may hold: made while they are sent, as of one moment, and in their order.

use std::collections::BTreeMap;
use std::time::Duration;

use almandine_testkit::{Client, Program, Server, Value, full};

/// Fields of the hash.
fn fields() -> usize {
    if full() { 2_000_000 } else { 200_000 }
}

/// A hash `h` with a number of fields, each with value `generation`.
fn fill(client: &mut Client, generation: &str) {
    let numbers: Vec<usize> = (0..fields()).collect();
    for part in numbers.chunks(1000) {
        let mut command = vec!["HSET".to_owned(), "h".to_owned()];
        command.extend(part.iter().flat_map(|number| [format!("field:{number}"), generation.to_owned()]));
        let reply = client.call(&command).expect("a reply");
        assert!(matches!(reply, Value::Integer(_)), "{reply:?}");
    }
}

/// Fields and values of HGETALL's reply, in RESP2 or RESP3.
fn pairs(reply: Value) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let text = |value: &Value| value.bytes().expect("a string").to_vec();
    match reply {
        Value::Array(items) => items.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        Value::Map(pairs) => pairs.iter().map(|(field, value)| (text(field), text(value))).collect(),
        other => panic!("{other:?}"),
    }
}

fn elements(reply: Value) -> usize {
    if let Value::Array(items) = reply { items.len() } else { panic!("{reply:?}") }
}

fn all_is_there_and_in_order(flags: &[&str]) {
    let server = Server::start(&Program::Almandine, flags);
    let mut client = server.client();
    fill(&mut client, "one");
    for version in ["2", "3"] {
        client.call(&["HELLO", version]).expect("a reply");
        let pipeline = [
            &["PING"][..],
            &["HGETALL", "h"],
            &["HLEN", "h"],
            &["HKEYS", "h"],
            &["ECHO", "between"],
            &["HVALS", "h"],
            &["HGETALL", "none"],
            &["SET", "s", "x"],
        ];
        let replies = client.pipeline(&pipeline).expect("replies");
        let all = pairs(replies[1].clone());
        assert_eq!(all.len(), fields());
        assert!(all.iter().all(|(field, value)| field.starts_with(b"field:") && value == b"one"));
        assert_eq!(replies[2], Value::Integer(fields() as i64));
        assert_eq!((elements(replies[3].clone()), elements(replies[5].clone())), (fields(), fields()));
        assert_eq!((replies[4].bytes(), &replies[7]), (Some(&b"between"[..]), &Value::ok()));
    }
    // Within a transaction the reply is one element among others.
    client.call(&["HELLO", "2"]).expect("a reply");
    let replies = client.pipeline(&[&["MULTI"][..], &["HGETALL", "h"], &["HLEN", "h"], &["EXEC"]]).expect("replies");
    let Value::Array(executed) = &replies[3] else { panic!("{:?}", replies[3]) };
    assert_eq!((pairs(executed[0].clone()).len(), &executed[1]), (fields(), &Value::Integer(fields() as i64)));
    // A client that wants no reply gets none.
    let mut silent = server.client();
    silent.send(&[&["CLIENT", "REPLY", "OFF"][..], &["HGETALL", "h"], &["CLIENT", "REPLY", "ON"], &["PING"]]).expect("sent");
    assert_eq!(
        (silent.receive().expect("a reply"), silent.receive().expect("a reply")),
        (Value::ok(), Value::Simple(b"PONG".to_vec()))
    );
}

#[test]
fn large_replies_are_whole_and_in_order() {
    all_is_there_and_in_order(&["--workers", "2"]);
}

#[test]
fn large_replies_are_whole_with_a_device() {
    all_is_there_and_in_order(&["--workers", "2", "--storage-dir", "{dir}/s", "--maxmemory", "64mb"]);
}

/// A client that does not read its reply costs little, holds no other up, and gets what the hash was when it asked, whatever
/// became of it.
#[test]
fn a_reply_is_of_one_moment_whoever_changes_the_hash_meanwhile() {
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let mut writer = server.client();
    fill(&mut writer, "one");
    let readers: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let before = server.resident_bytes();
    let mut readers: Vec<Client> = readers
        .into_iter()
        .map(|mut reader| {
            reader.send(&[&["HGETALL", "h"][..], &["HLEN", "h"]]).expect("sent");
            reader
        })
        .collect();
    // The requests are there before the change: another client's reply comes behind them on one worker, a moment later at least.
    std::thread::sleep(Duration::from_millis(300));
    writer.line("PING");
    let held = server.resident_bytes().saturating_sub(before);
    assert!(held < 24 << 20, "eight replies that nobody reads take {held} bytes");
    fill(&mut writer, "two");
    assert_eq!(writer.line("DEL h"), Value::Integer(1));
    assert_eq!(writer.line("HSET h f v"), Value::Integer(1));
    // One goes away, and one is cut off.
    drop(readers.pop());
    let killed = readers.pop().expect("a reader");
    let address = killed.stream().local_addr().expect("an address").to_string();
    assert_eq!(writer.line(&format!("CLIENT KILL ADDR {address}")), Value::Integer(1));
    for mut reader in readers {
        let all = pairs(reader.receive().expect("a reply"));
        assert_eq!(all.len(), fields());
        assert!(all.values().all(|value| value == b"one"), "as of one moment");
        assert_eq!(reader.receive().expect("a reply"), Value::Integer(1), "the command behind comes after the reply");
    }
}

fn figure(client: &mut Client, section: &str, name: &str) -> u64 {
    let info = client.line(section);
    let text = String::from_utf8_lossy(info.bytes().expect("text")).into_owned();
    let (_, rest) = text.split_once(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

/// What is made behind its batch is output like all other, and what a peer leaves of it is seen.
#[test]
fn streamed_replies_count_as_output() {
    let server = Server::start(&Program::Almandine, &[]);
    let (mut client, mut reader) = (server.client(), server.client());
    fill(&mut client, "one");
    let before = figure(&mut client, "INFO stats", "total_net_output_bytes:");
    let all = pairs(reader.line("HGETALL h"));
    let bytes: usize = all.iter().map(|(field, value)| field.len() + value.len()).sum();
    assert!(figure(&mut client, "INFO stats", "total_net_output_bytes:") - before > bytes as u64);
    assert!(figure(&mut reader, "CLIENT INFO", "tot-net-out=") > bytes as u64);
    assert_eq!(figure(&mut client, "INFO clients", "client_recent_max_output_buffer:"), 0);
    // More than sockets hold, and no stream: of one there is only as much as they hold.
    client.line("SETRANGE large 50000000 x");
    reader.send(&[&["GET", "large"][..]]).expect("sent");
    let left = |client: &mut Client| figure(client, "INFO clients", "client_recent_max_output_buffer:");
    wait_until(|| left(&mut client) > 0);
    let lines = client.line("CLIENT LIST").bytes().map(|text| String::from_utf8_lossy(text).into_owned()).expect("lines");
    assert!(lines.lines().any(|line| !line.contains(" omem=0 ")), "{lines}");
    assert_eq!(reader.receive().expect("a reply").bytes().map(<[u8]>::len), Some(50_000_001));
    wait_until(|| left(&mut client) == 0);
}

/// Waits for what will be so.
fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come");
}
