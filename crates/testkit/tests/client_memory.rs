//! What clients hold of memory: CLIENT LIST tells it, and with `maxmemory-clients` the largest are closed.

use std::io::Write;
use std::time::{Duration, Instant};

use almandine_testkit::hostile::{MIB, raise_file_limit};
use almandine_testkit::{Client, Program, Server, Value};

const KIB: usize = 1024;

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, flags)
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.bytes().unwrap_or_else(|| panic!("no text: {value:?}"))).into_owned()
}

/// A field of the client with this name, as `operator` sees it; `None` when there is no such client.
fn field(operator: &mut Client, name: &str, field: &str) -> Option<u64> {
    let list = text(&operator.line(&format!("CLIENT LIST NAME {name}")));
    let word = list.split_whitespace().find_map(|word| word.strip_prefix(&format!("{field}=")).map(str::to_owned))?;
    Some(word.parse().unwrap_or_else(|_| panic!("{field} in {list}")))
}

fn info(operator: &mut Client, field: &str) -> u64 {
    let all = text(&operator.line("INFO everything"));
    let value = all.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    value.unwrap_or_else(|| panic!("no {field}")).trim().parse().expect("a number")
}

/// Waits until `is_so`; says whether it became so.
fn becomes(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn named(server: &Server, name: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.line(&format!("CLIENT SETNAME {name}")), Value::ok());
    client
}

/// An operator that is not closed for what it holds.
fn operator(server: &Server) -> Client {
    let mut operator = named(server, "operator");
    assert_eq!(operator.line("CLIENT NO-EVICT ON"), Value::ok());
    operator
}

/// Sends the beginning of a command whose first argument does not end.
fn send_half(client: &mut Client, bytes: usize) {
    let mut half = format!("*2\r\n${}\r\n", bytes * 2).into_bytes();
    half.resize(half.len() + bytes, b'v');
    // The server may close the connection before it has all of it.
    let _ = client.stream().write_all(&half);
}

/// What a client does to hold memory, a little more each time.
type More = fn(&mut Client, usize);

const WAYS: &[(&str, More)] = &[
    ("an incomplete command", |client, _| {
        send_half(client, 600 * KIB);
    }),
    ("a transaction", |client, turn| {
        if turn == 0 {
            let _ = client.send(&[["MULTI"]]);
        }
        let _ = client.send(&[["SET", "key", &"v".repeat(64 * KIB)]]);
    }),
    ("watched keys", |client, turn| send_many(client, "WATCH", turn)),
    ("channels", |client, turn| send_many(client, "SUBSCRIBE", turn)),
    ("patterns", |client, turn| send_many(client, "PSUBSCRIBE", turn)),
    ("shard channels", |client, turn| send_many(client, "SSUBSCRIBE", turn)),
    ("tracked prefixes", |client, turn| {
        let prefixes: Vec<String> = (0..200).flat_map(|n| ["PREFIX".to_owned(), format!("prefix {turn:06} {n:06}")]).collect();
        let words = ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned).into_iter().chain(prefixes);
        let _ = client.send(&[words.collect::<Vec<_>>()]);
    }),
    ("fieldsets", |client, turn| {
        let _ = client.send(&[["HIMPORT", "PREPARE", &format!("set{turn}"), &"f".repeat(16 * KIB)]]);
    }),
    ("replies that it does not read", |client, turn| {
        if turn == 0 {
            let _ = client.call(&["SETRANGE", "big", "400000", "v"]);
        }
        let _ = client.send(&[["GET", "big"]]);
    }),
];

fn send_many(client: &mut Client, command: &str, turn: usize) {
    let words: Vec<String> = std::iter::once(command.to_owned()).chain((0..200).map(|n| format!("{turn:06} {n:06}"))).collect();
    let _ = client.send(&[words]);
}

/// Whatever a client holds memory by, it is what goes, and no other client does.
#[test]
fn whoever_holds_much_is_closed_whatever_it_holds() {
    let server = start(&["--workers", "2", "--maxmemory-clients", "512kb"]);
    let mut operator = operator(&server);
    for (number, (what, more)) in WAYS.iter().enumerate() {
        let (mut bystander, name) = (named(&server, "bystander"), format!("greedy{number}"));
        let mut greedy = named(&server, &name);
        let mut seen = 0;
        let went = (0..2000).any(|turn| {
            more(&mut greedy, turn);
            let held = field(&mut operator, &name, "tot-mem");
            seen = held.unwrap_or(seen).max(seen);
            held.is_none()
        });
        assert!(went, "{what}: {seen} bytes");
        assert!(becomes(|| info(&mut operator, "evicted_clients") == number as u64 + 1), "{what}");
        assert_eq!(bystander.line("PING"), Value::Simple(b"PONG".to_vec()), "{what}");
        let _ = operator.line("DEL big");
        println!("client memory: {what}: closed with {} KiB seen", seen / 1024);
    }
    assert!(becomes(|| info(&mut operator, "mem_clients_normal") < 64 * 1024), "what they held is not counted any more");
}

/// CLIENT LIST tells what is held, and that nothing is when it is given back.
#[test]
fn sizes_are_those_of_what_is_held() {
    let server = start(&["--workers", "1"]);
    let mut operator = operator(&server);
    let mut client = named(&server, "one");
    let fresh = field(&mut operator, "one", "tot-mem").expect("there");
    assert!((500..8_000).contains(&fresh), "{fresh}");
    let normal = info(&mut operator, "mem_clients_normal");
    assert!(normal >= 2 * fresh, "{normal} of two clients");

    let _ = client.line("MULTI");
    let _ = client.call(&["SET", "key", &"v".repeat(100 * KIB)]);
    let queued = field(&mut operator, "one", "multi-mem").expect("there");
    assert!((100 * KIB as u64..300 * KIB as u64).contains(&queued), "{queued}");
    assert!(field(&mut operator, "one", "tot-mem").expect("there") >= fresh + queued);
    assert!(info(&mut operator, "mem_clients_normal") >= normal + queued);
    let _ = client.line("DISCARD");

    send_half(&mut client, 300_000);
    assert!(becomes(|| field(&mut operator, "one", "qbuf").is_some_and(|bytes| bytes >= 300_000)));
    let (used, free) = (field(&mut operator, "one", "qbuf"), field(&mut operator, "one", "qbuf-free"));
    let held = used.unwrap_or(0) + free.unwrap_or(0);
    assert!(field(&mut operator, "one", "tot-mem").expect("there") >= fresh + held, "{used:?} {free:?}");
    drop(client);
    assert!(becomes(|| info(&mut operator, "mem_clients_normal") < normal), "a client that is gone holds nothing");

    let mut reader = named(&server, "reader");
    let _ = reader.call(&["SETRANGE", "big", "2000000", "v"]);
    let _ = reader.send(&[["GET", "big"]; 20]);
    assert!(becomes(|| field(&mut operator, "reader", "omem").is_some_and(|bytes| bytes > 0)));
    let list = text(&operator.line("CLIENT LIST NAME reader"));
    assert!(list.contains(" events=rw ") && !list.contains(" oll=0 "), "{list}");
    (0..20).for_each(|_| assert!(reader.receive().expect("a reply").bytes().is_some()));
    assert!(becomes(|| field(&mut operator, "reader", "omem") == Some(0)), "all is sent");
}

/// The largest go first over all workers, and no more of them than must.
#[test]
fn the_largest_go_first_and_no_more_than_must() {
    let server = start(&["--workers", "4"]);
    let mut operator = operator(&server);
    let sizes = [64 * KIB, 512 * KIB, 4096 * KIB];
    let mut clients = Vec::new();
    for (class, size) in sizes.iter().enumerate() {
        for number in 0..4 {
            let name = format!("c{class}-{number}");
            let mut client = named(&server, &name);
            send_half(&mut client, *size);
            assert!(becomes(|| field(&mut operator, &name, "qbuf").is_some_and(|bytes| bytes >= *size as u64)), "{name}");
            clients.push((name, client));
        }
    }
    let there = |operator: &mut Client, class: usize| {
        let list = text(&operator.line("CLIENT LIST"));
        list.lines().filter(|line| line.contains(&format!(" name=c{class}-"))).count()
    };
    // Half of the largest have to go, then all of them, then all of the next: a bucket is emptied before the next one is begun.
    let largest = field(&mut operator, "c2-0", "tot-mem").expect("there");
    for (remaining, expected) in [(2, [4, 4, 2]), (0, [4, 4, 0])] {
        let others = info(&mut operator, "mem_clients_normal") - there(&mut operator, 2) as u64 * largest;
        let limit = others + remaining * largest + largest / 2;
        assert_eq!(operator.line(&format!("CONFIG SET maxmemory-clients {limit}")), Value::ok());
        assert!(becomes(|| info(&mut operator, "mem_clients_normal") <= limit), "{limit}");
        let found = [0, 1, 2].map(|class| there(&mut operator, class));
        assert_eq!(found, expected, "with {limit} bytes");
    }
    assert_eq!(operator.line("CONFIG SET maxmemory-clients 1"), Value::ok());
    assert!(becomes(|| (0..3).all(|class| there(&mut operator, class) == 0)), "all but the operator go");
    assert_eq!(operator.line("PING"), Value::Simple(b"PONG".to_vec()));
    assert_eq!(operator.line("CONFIG SET maxmemory-clients 0"), Value::ok());
}

/// With one worker a lower limit holds when the next command is answered.
#[test]
fn a_lower_limit_holds_at_once() {
    let server = start(&["--workers", "1"]);
    let mut operator = operator(&server);
    let mut clients: Vec<Client> = (0..10).map(|number| named(&server, &format!("c{number}"))).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        send_half(client, 300 * KIB);
        assert!(becomes(|| field(&mut operator, &format!("c{number}"), "qbuf").is_some_and(|bytes| bytes >= 300 * KIB as u64)));
    }
    let held = info(&mut operator, "mem_clients_normal");
    assert_eq!(operator.line(&format!("CONFIG SET maxmemory-clients {}", held / 2)), Value::ok());
    let list = text(&operator.line("CLIENT LIST"));
    assert_eq!(list.lines().filter(|line| line.contains(" name=c")).count(), 4, "half of what is held is less than five of them");
    assert_eq!(info(&mut operator, "evicted_clients"), 6);
}

/// A client under NO-EVICT stays while it is, and goes when it is not any more.
#[test]
fn who_is_protected_stays() {
    let server = start(&["--workers", "2"]);
    let mut operator = operator(&server);
    let mut client = named(&server, "kept");
    assert_eq!(client.line("CLIENT NO-EVICT ON"), Value::ok());
    let _ = client.line("MULTI");
    let _ = client.call(&["SET", "key", &"v".repeat(1000 * KIB)]);
    assert_eq!(operator.line("CONFIG SET maxmemory-clients 100kb"), Value::ok());
    std::thread::sleep(Duration::from_millis(250));
    assert!(field(&mut operator, "kept", "tot-mem").is_some_and(|bytes| bytes > 1000 * KIB as u64));
    assert_eq!(info(&mut operator, "evicted_clients"), 0);
    assert_eq!(client.line("DISCARD"), Value::ok());
    let _ = client.line("MULTI");
    let _ = client.call(&["SET", "key", &"v".repeat(1000 * KIB)]);
    assert_eq!(operator.line("CLIENT LIST NAME kept").bytes().map(<[u8]>::is_empty), Some(false));
    let _ = client.line("DISCARD");
    assert_eq!(client.line("CLIENT NO-EVICT OFF"), Value::ok());
    send_half(&mut client, 200 * KIB);
    assert!(becomes(|| field(&mut operator, "kept", "tot-mem").is_none()));
}

/// A percentage follows `maxmemory`.
#[test]
fn a_percentage_follows_maxmemory() {
    let server = start(&["--workers", "1", "--maxmemory", "100mb", "--maxmemory-clients", "5%"]);
    let mut operator = operator(&server);
    let mut client = named(&server, "half");
    send_half(&mut client, 1024 * KIB);
    assert!(becomes(|| field(&mut operator, "half", "qbuf").is_some_and(|bytes| bytes >= 1024 * KIB as u64)));
    assert_eq!(operator.line("CONFIG SET maxmemory 20mb"), Value::ok());
    assert!(becomes(|| field(&mut operator, "half", "qbuf").is_none()));
}

/// Thousands of clients fill what they can, and others are served within the limit.
#[test]
fn thousands_of_greedy_clients_hold_no_more_than_the_limit() {
    raise_file_limit(12_000);
    let limit = 32 * MIB;
    let server = start(&["--workers", "4", "--maxmemory-clients", "32mb"]);
    let mut operator = operator(&server);
    let before = server.resident_bytes();
    let (mut greedy, mut most) = (Vec::new(), 0);
    for number in 0..2000 {
        let mut client = server.client();
        match number % 4 {
            0 => send_half(&mut client, 100 * KIB),
            1 => {
                let value = "v".repeat(100 * KIB);
                let _ = client.send(&[vec!["MULTI"], vec!["SET", "key", &value]]);
            }
            2 => send_many(&mut client, "SUBSCRIBE", number),
            _ => send_many(&mut client, "WATCH", number),
        }
        greedy.push(client);
        if number % 50 == 0 {
            assert_eq!(operator.line("SET served yes"), Value::ok());
            most = most.max(info(&mut operator, "mem_clients_normal"));
        }
    }
    assert!(becomes(|| info(&mut operator, "mem_clients_normal") <= limit));
    // Each worker looks when it has counted an event; what one of them leaves to another waits for that one's turn.
    assert!(most < limit + 8 * MIB, "{} KiB", most / 1024);
    let (evicted, resident) = (info(&mut operator, "evicted_clients"), server.resident_bytes());
    println!("client memory: {evicted} of 2000 closed, {} KiB at most, {} MiB resident", most / 1024, resident / MIB);
    assert!(evicted > 500, "{evicted}");
    assert!(resident < before + 2 * limit + 48 * MIB, "{} MiB resident", resident / MIB);
    assert_eq!(operator.line("GET served").bytes(), Some(&b"yes"[..]));
}

/// Replies wait for a client that does not read them: as many as `client-output-pause` says, and with 0 until another limit
/// closes the reader.
#[test]
fn replies_pile_up_as_far_as_the_operator_lets_them() {
    const LIMIT: u64 = 8 * 1024 * KIB as u64;
    let server = start(&["--workers", "1", "--client-output-buffer-limit", "normal 8mb 0 0"]);
    let mut operator = operator(&server);
    assert_eq!(operator.line("SETRANGE big 200000 v"), Value::Integer(200_001));
    for (pause, closed) in [("1mb", false), ("0", true)] {
        assert_eq!(operator.line(&format!("CONFIG SET client-output-pause {pause}")), Value::ok());
        let mut reader = named(&server, "reader");
        let mut most = 0;
        // One by one, since a batch is executed whole.
        let went = (0..400).any(|_| {
            let _ = reader.send(&[["GET", "big"]]);
            let held = field(&mut operator, "reader", "omem");
            most = held.unwrap_or(most).max(most);
            held.is_none()
        });
        assert_eq!(went, closed, "{pause}: {most} bytes waited");
        assert!(if went { most > LIMIT / 2 } else { (1 << 20..2 << 20).contains(&most) }, "{pause}: {most} bytes waited");
        drop(reader);
        assert!(becomes(|| field(&mut operator, "reader", "omem").is_none()));
    }
}
