//! Hostile clients against our server. `ALMANDINE_GOLDEN_SERVER=redis` runs them against redis-server, to see that they are fair.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::hostile::{
    MIB, byte_by_byte, expect_huge, fuzz, half_commands, limit_files, many_connections, never_reading, one_pipeline, open_files,
    processor_ticks, raise_file_limit, set_huge, settles_below, vanish,
};
use almandine_testkit::{Client, Program, Server, Value, full, seed};

/// What a server may keep of an attack that is over: allocator caches, grown tables.
const SLACK: u64 = 48 * MIB;

fn start(flags: &[&str]) -> Server {
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    let server = Server::start(&if redis { Program::Redis } else { Program::Almandine }, flags);
    // For the clients: the server raises its own limit.
    raise_file_limit(12_000);
    server
}

fn assert_settles(server: &Server, before: u64, what: &str) {
    let bound = before + SLACK;
    let after = settles_below(server, bound, Duration::from_secs(15));
    println!("hostile {what}: {} MiB resident before, {} MiB after", before / MIB, after / MIB);
    assert!(after <= bound, "{what}: {} MiB resident before, {} MiB after", before / MIB, after / MIB);
}

#[test]
fn fuzzed_protocol_bytes_leave_it_serving() {
    let mut server = start(&[]);
    let before = server.resident_bytes();
    let cases = if full() { 200_000 } else { 5_000 };
    fuzz(&mut server, seed(), cases);
    println!("hostile: {cases} fuzzed connections, seed {}", seed());
    assert_settles(&server, before, "fuzz");
}

#[test]
fn ten_thousand_connections_are_served_and_forgotten() {
    let mut server = start(&["--maxclients", "11000"]);
    let before = server.resident_bytes();
    let open = many_connections(&server, 10_000).unwrap_or_else(|e| panic!("{e}\n{}", server.log()));
    println!("hostile: 10000 connections cost {} bytes each", (open.saturating_sub(before)) / 10_000);
    assert!(open < before + 10_000 * 40 * 1024, "{} MiB for 10,000 connections", (open - before) / MIB);
    server.assert_alive("10,000 connections");
    assert_settles(&server, before, "10,000 connections");
}

#[test]
fn half_commands_and_vanished_clients_cost_nothing() {
    let mut server = start(&[]);
    let before = server.resident_bytes();
    for round in 0..if full() { 50 } else { 4 } {
        let clients = half_commands(&server, 500).expect("connect");
        server.assert_alive("half commands");
        for client in clients {
            if round % 2 == 0 {
                vanish(client).expect("reset");
            }
        }
    }
    server.assert_alive("vanished clients");
    assert_eq!(server.client().line("EXISTS half:key"), Value::Integer(0), "a half command must not run");
    assert_settles(&server, before, "half commands");
}

#[test]
fn clients_that_never_read_are_cut_at_the_output_limit() {
    let mut server = start(&["--client-output-buffer-limit", "normal 8388608 0 0"]);
    let value = vec![b'v'; MIB as usize];
    assert_eq!(server.client().call(&[&b"SET"[..], b"big", &value]).expect("SET"), Value::ok());
    let before = server.resident_bytes();
    let clients = never_reading(&server, 20, "big", 400).expect("connect");
    thread::sleep(Duration::from_millis(700));
    server.assert_alive("clients that never read");
    let during = server.resident_bytes();
    let bound = before + 20 * 16 * MIB + SLACK;
    println!("hostile: 20 clients asked for 400 MiB each and read nothing: {} MiB resident", during / MIB);
    assert!(during < bound, "{} MiB resident, expected below {}", during / MIB, bound / MIB);
    drop(clients);
    assert_settles(&server, before, "never reading");
}

#[test]
fn a_byte_at_a_time_is_answered_like_any_other() {
    let server = start(&[]);
    let commands: &[&[&str]] = &[&["SET", "slow", "a value"], &["GET", "slow"], &["INCR", "slow:n"], &["NOSUCH"], &["PING"]];
    let slow = byte_by_byte(&server, commands).expect("slow");
    let _ = server.client().line("FLUSHALL");
    let fast = server.client().pipeline(commands).expect("fast");
    assert_eq!(slow, fast);
}

#[test]
fn a_value_of_512_mib_goes_in_and_out() {
    let server = start(&[]);
    let before = server.resident_bytes();
    let len = 512 * MIB as usize;
    let mut client = server.client();
    let started = Instant::now();
    assert_eq!(set_huge(&mut client, "huge", len).expect("SET"), Value::ok());
    assert_eq!(client.line("STRLEN huge"), Value::Integer(len as i64));
    expect_huge(&mut client.stream().try_clone().expect("clone"), "huge", len).expect("GET");
    let peak = server.resident_bytes();
    println!("hostile: 512 MiB SET and GET in {:.1?}, {} MiB resident", started.elapsed(), peak / MIB);
    assert!(peak < before + (512 * 5 / 2) * MIB, "{} MiB resident", peak / MIB);
    assert_eq!(client.line("GETRANGE huge 536870911 -1").bytes().map(<[u8]>::len), Some(1));
    let too_long = client.line("APPEND huge x");
    assert_eq!(too_long, Value::Error(b"ERR string exceeds maximum allowed size (proto-max-bulk-len)".to_vec()));
    assert_eq!(client.line("DEL huge"), Value::Integer(1));
    assert_settles(&server, before, "512 MiB value");
}

#[test]
fn a_million_commands_in_one_pipeline() {
    let server = start(&[]);
    let count = 1_000_000;
    let started = Instant::now();
    let answered =
        one_pipeline(&server, count).unwrap_or_else(|e| panic!("{e}: is the server waiting for its replies to be read?"));
    println!("hostile: {answered} of {count} pipelined commands answered in {:.1?}", started.elapsed());
    assert_eq!(answered, count);
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(100_000));
}

#[test]
fn oversized_headers_are_refused_at_once() {
    let server = start(&[]);
    let long = |prefix: &[u8]| [prefix, &[b'1'; 70_000]].concat();
    for (wire, error) in [
        (long(b""), "ERR Protocol error: too big inline request"),
        (long(b"*"), "ERR Protocol error: too big mbulk count string"),
        (long(b"*1\r\n$"), "ERR Protocol error: too big bulk count string"),
        (b"*1\r\n$999999999999\r\n".to_vec(), "ERR Protocol error: invalid bulk length"),
        (b"*99999999999\r\n".to_vec(), "ERR Protocol error: invalid multibulk length"),
    ] {
        let mut client = server.client();
        // The server may close while the rest is still being sent.
        let _ = client.send_raw(&wire);
        assert_eq!(client.receive().expect("an error"), Value::Error(error.as_bytes().to_vec()));
        assert_eq!(client.receive().expect("an end"), Value::Closed);
    }
}

#[test]
fn idle_connections_are_closed_after_the_timeout() {
    let server = start(&["--timeout", "1"]);
    let mut client = server.client();
    // Before its last command, so that the time is not less for being looked at late.
    let started = Instant::now();
    assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()));
    assert_eq!(client.receive().expect("an end"), Value::Closed);
    assert!((Duration::from_millis(900)..Duration::from_secs(8)).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[test]
fn a_monitor_may_be_silent_for_longer_than_the_timeout() {
    let server = start(&["--timeout", "1"]);
    let (mut monitor, mut idle) = (server.client(), server.client());
    assert_eq!(monitor.line("MONITOR"), Value::ok());
    assert_eq!(idle.line("PING"), Value::Simple(b"PONG".to_vec()));
    assert!(monitor.receive().expect("a line").bytes().is_some());
    assert_eq!(idle.receive().expect("an end"), Value::Closed);
    // As long again: its timeout would have passed before the other's was noticed.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(server.client().line("ECHO heard"), Value::Bulk(b"heard".to_vec()));
    let line = monitor.receive().expect("a line");
    assert!(line.bytes().is_some_and(|line| line.ends_with(b"\"ECHO\" \"heard\"")), "{line:?}");
}

#[test]
fn a_monitor_that_does_not_read_is_cut_at_the_limit_of_ordinary_clients() {
    let mut server = start(&["--client-output-buffer-limit", "normal 4194304 0 0"]);
    let before = server.resident_bytes();
    let mut monitor = server.client();
    assert_eq!(monitor.line("MONITOR"), Value::ok());
    let mut client = server.client();
    let argument = "x".repeat(64 * 1024);
    let monitors = |client: &mut Client| {
        let list = client.line("CLIENT LIST");
        list.bytes().is_some_and(|list| String::from_utf8_lossy(list).contains("flags=O"))
    };
    let mut sent = 0;
    while monitors(&mut client) {
        assert!(sent < 1000, "64 MB of lines wait for a client that does not read");
        assert!(client.call(&["ECHO", &argument]).expect("ECHO").bytes().is_some());
        sent += 1;
    }
    server.assert_alive("a stalled MONITOR");
    assert_settles(&server, before, "a stalled MONITOR");
}

#[test]
fn a_client_without_the_password_pins_no_output() {
    let server = start(&["--requirepass", "secret"]);
    let client = server.client();
    let mut stream = client.stream().try_clone().expect("clone");
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("timeout");
    // Nothing is read: the writes end when the server closes, long before all is refused.
    let pipeline = b"GET key\r\n".repeat(10_000);
    let failed = (0..1000).find_map(|_| std::io::Write::write_all(&mut stream, &pipeline).err());
    let kind = failed.expect("ten million commands were refused one by one").kind();
    assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind}");
    let mut client = server.client();
    assert_eq!(client.line("AUTH secret"), Value::ok());
    assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn connections_beyond_the_file_descriptors_wait_without_keeping_a_core_busy() {
    // With io_uring the kernel keeps to the limit that was in force when it was asked to accept.
    // With several workers one answers while others still open what they need.
    let server = start(&["--maxclients", "1000", "--io-backend", "epoll", "--workers", "1"]);
    let mut first = server.client();
    assert_eq!(first.line("PING"), Value::Simple(b"PONG".to_vec()));
    limit_files(&server, open_files(&server) + 2);
    // More than the descriptors of connections before, which may have been counted and closed since.
    let mut clients: Vec<_> = (0..40).map(|_| server.client()).collect();
    let refused = |server: &Server| server.log().matches("Cannot accept connections").count();
    let deadline = Instant::now() + Duration::from_secs(10);
    while refused(&server) == 0 {
        assert!(Instant::now() < deadline, "the log says nothing, with {} open: {}", open_files(&server), server.log());
        thread::sleep(Duration::from_millis(50));
    }
    let before = processor_ticks(&server);
    thread::sleep(Duration::from_secs(2));
    let ticks = processor_ticks(&server) - before;
    assert!(ticks < 40, "{ticks} of 200 ticks to accept nothing");
    assert_eq!(first.line("PING"), Value::Simple(b"PONG".to_vec()));
    limit_files(&server, 1000);
    for client in &mut clients {
        assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()));
    }
    assert_eq!(refused(&server), 1);
}

#[test]
fn replies_that_nobody_reads_evict_no_keys_whose_values_they_share() {
    let server = start(&["--maxmemory", "32mb", "--maxmemory-policy", "allkeys-lru"]);
    let value = vec![b'v'; 100_000];
    let mut client = server.client();
    for key in 0..50 {
        let key = format!("key:{key}");
        assert_eq!(client.call(&[&b"SET"[..], key.as_bytes(), &value]).expect("SET"), Value::ok());
    }
    let clients = never_reading(&server, 20, "key:7", 400).expect("connect");
    thread::sleep(Duration::from_millis(700));
    for key in 0..100 {
        assert_eq!(client.call(&["SET", &format!("small:{key}"), "x"]).expect("SET"), Value::ok());
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(client.line("DBSIZE"), Value::Integer(150), "20 clients that do not read take the keys' memory");
    drop(clients);
}

#[test]
fn memory_that_unread_replies_took_is_free_as_soon_as_their_clients_are_gone() {
    let mut server = start(&["--maxmemory", "16mb", "--maxmemory-policy", "noeviction"]);
    let value = vec![b'v'; 10_000];
    assert_eq!(server.client().call(&[&b"SET"[..], b"key", &value]).expect("SET"), Value::ok());
    let clients = never_reading(&server, 100, "key", 2000).expect("connect");
    thread::sleep(Duration::from_millis(700));
    let full = server.client().line("SET small x");
    drop(clients);
    server.assert_alive("clients that never read");
    let mut client = server.client();
    let others =
        |client: &mut Client| client.line("CLIENT LIST").bytes().map_or(0, |list| list.split(|byte| *byte == b'\n').count()) > 2;
    let deadline = Instant::now() + Duration::from_secs(10);
    while others(&mut client) {
        assert!(Instant::now() < deadline, "connections that are gone stay");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.line("SET small x"), Value::ok(), "full before: {full:?}");
}

#[test]
fn more_clients_than_allowed_are_told_so() {
    let server = start(&["--maxclients", "10"]);
    let mut clients: Vec<_> = (0..10).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()));
    }
    let mut refused = server.client();
    assert_eq!(refused.receive().expect("an error"), Value::Error(b"ERR max number of clients reached".to_vec()));
    assert_eq!(refused.receive().expect("an end"), Value::Closed);
    drop(clients);
    let deadline = Instant::now() + Duration::from_secs(5);
    while server.client().call(&["PING"]).ok() != Some(Value::Simple(b"PONG".to_vec())) {
        assert!(Instant::now() < deadline, "still refused after all others left");
        thread::sleep(Duration::from_millis(20));
    }
}
