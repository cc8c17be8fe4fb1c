//! `metrics-port`: the page, health, the addresses and names that are answered, and clients that mean harm.

#![allow(clippy::unwrap_used, reason = "tests")]

mod health;
mod http;
mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use almandine_console::FAMILIES;
use almandine_testkit::server::free_port;
use almandine_testkit::tls::{Peer, file};
use almandine_testkit::{Client, Program, Server, Value};

use http::{answer, ask, connect, get, page};

/// A server, and the address of its console.
fn start(flags: &[&str]) -> (Server, SocketAddr) {
    start_with(flags, &[])
}

/// The same with some variables of the environment.
fn start_with(flags: &[&str], environment: &[(&str, String)]) -> (Server, SocketAddr) {
    let port = free_port().to_string();
    let server = Server::start_with(&Program::Almandine, &[&["--metrics-port", &port], flags].concat(), environment);
    (server, local(port.parse().unwrap()))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn info(client: &mut Client) -> BTreeMap<String, String> {
    let Value::Bulk(text) = client.line("INFO everything") else { panic!("INFO") };
    let text = String::from_utf8(text).unwrap();
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn error(reply: &Value) -> String {
    let Value::Error(text) = reply else { panic!("{reply} is no error") };
    String::from_utf8_lossy(text).into_owned()
}

/// Whether the server closes the connection, within some time, without another byte.
fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn the_page_says_what_info_says() {
    let (server, console) = start(&["--save", "3600 1", "--workers", "2"]);
    let mut client = server.client();
    for line in ["MSET a 1 b 2 c 3", "GET a", "GET none", "SET d 4 EX 1000", "LPUSH a x", "EVAL return(1) 0"] {
        client.line(line);
    }
    let of_info: BTreeSet<&str> = FAMILIES.iter().filter(|family| family.info().is_some()).map(|family| family.name).collect();
    let mut compared = BTreeSet::new();
    // A figure that two looks at INFO have in common was so when the page between them was made. Not compared are those that are
    // there with a log, with backups in object storage or while data is loaded, and those that each INFO changes.
    let end = Instant::now() + Duration::from_secs(60);
    while compared.len() + 33 < of_info.len() {
        let left: Vec<_> = of_info.difference(&compared).collect();
        assert!(Instant::now() < end, "{} of {} were compared, and not {left:?}", compared.len(), of_info.len());
        let before = info(&mut client);
        let page = page(console);
        let after = info(&mut client);
        for family in FAMILIES {
            // What the client of INFO has sent is in INFO only.
            let Some(field) = family.info().filter(|field| *field != "client_recent_max_input_buffer") else { continue };
            let (Some(first), Some(second)) = (before.get(field), after.get(field)) else {
                assert!(!page.contains_key(family.name), "{} is on the page, and {field} not in INFO", family.name);
                continue;
            };
            if first == second {
                let expected = match first.as_str() {
                    "ok" => 1.0,
                    "err" => 0.0,
                    number => number.parse::<f64>().unwrap_or_else(|_| panic!("{field}:{number}")),
                };
                let shown = page.get(family.name).unwrap_or_else(|| panic!("{} is missing", family.name));
                assert!((shown - expected).abs() <= 0.005, "{}: {shown}, and {field} is {expected}", family.name);
                compared.insert(family.name);
            }
        }
    }
    let page = page(console);
    let is = |name: &str, value: f64| assert_eq!(page.get(name), Some(&value), "{name}");
    is("redis_up", 1.0);
    is("redis_db_keys{db=\"db0\"}", 4.0);
    is("redis_db_keys{db=\"db15\"}", 0.0);
    is("redis_db_keys_expiring{db=\"db0\"}", 1.0);
    is("redis_commands_total{cmd=\"get\"}", 2.0);
    is("redis_commands_failed_calls_total{cmd=\"lpush\"}", 1.0);
    is("redis_errors_total{err=\"WRONGTYPE\"}", 1.0);
    is("redis_commands_latencies_usec_bucket{cmd=\"get\",le=\"+Inf\"}", 2.0);
    is("almandine_storage_state{state=\"ok\"}", 1.0);
    assert!(page.keys().any(|name| name.starts_with("redis_instance_info{role=\"master\",redis_version=")));
}

#[test]
fn both_formats_are_served_and_close_properly() {
    let (_server, console) = start(&[]);
    let open =
        ask(console, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n");
    assert!(open.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{}", open.head);
    assert!(open.body.ends_with("\n# EOF\n") && open.body.contains("\n# UNIT redis_memory_used_bytes bytes\n"));
    assert!(
        open.body.contains("\n# TYPE redis_instance info\n") && open.body.contains("\n# TYPE redis_commands_processed counter\n")
    );
    let text = get(console, "/metrics");
    assert!(text.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{}", text.head);
    assert!(!text.body.contains("# EOF") && !text.body.contains("# UNIT"));
    assert!(text.body.contains("\n# TYPE redis_commands_processed_total counter\n"));
    let mut stream = connect(console);
    stream.write_all(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HTTP/1.1 200 OK\r\n") && all.ends_with("\r\n\r\n") && !all.contains("# HELP"), "{all}");
}

#[test]
fn health_is_told_while_data_is_loaded_and_while_the_server_ends() {
    let (mut server, console) = start(&["--enable-debug-command", "yes"]);
    assert_eq!((get(console, "/health/live").status, get(console, "/health/ready").body.as_str()), (200, "ready\n"));
    let mut client = server.client();
    let values: Vec<[String; 3]> = (0..3_000).map(|n| ["SET".into(), format!("k{n}"), "v".repeat(1_000)]).collect();
    assert!(client.pipeline(&values).unwrap().iter().all(|reply| *reply == Value::ok()));
    assert_eq!(client.line("SAVE"), Value::ok());
    server.kill();
    let address = server.address();
    std::thread::scope(|threads| {
        // It waits for the end of loading.
        threads.spawn(|| server.start_again_with(&["--key-load-delay", "5000"]));
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(console).is_err() {
            assert!(Instant::now() < end, "the console listens before the data is loaded");
        }
        let loading = get(console, "/health/ready");
        assert_eq!((loading.status, get(console, "/health/live").status), (503, 200));
        assert!(loading.body.starts_with("loading data: "), "{}", loading.body);
        let page = page(console);
        assert_eq!(page.get("redis_loading_dump_file"), Some(&1.0));
        assert!(page["almandine_loading_total_bytes"] > 30_000.0 && page["almandine_loading_loaded_bytes"] >= 0.0);
        assert_eq!(Client::connect(address).unwrap().line("CONFIG SET key-load-delay 0"), Value::ok());
    });
    let mut client = server.client();
    assert_eq!(get(console, "/health/ready").status, 200, "the data is loaded");
    assert_eq!(page(console)["redis_rdb_last_load_loaded_keys"], 3_000.0);
    // The end waits for a snapshot, which waits for each key.
    assert_eq!(client.line("CONFIG SET rdb-key-save-delay 5000"), Value::ok());
    client.send(&[["SHUTDOWN", "SAVE"]]).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let ending = loop {
        let ready = get(console, "/health/ready");
        if ready.status == 503 {
            break ready;
        }
        assert!(Instant::now() < end, "it is not ready while it ends");
    };
    assert_eq!((ending.body.as_str(), get(console, "/health/live").status), ("shutting down\n", 200));
    assert!(server.await_exit(Duration::from_secs(60)).is_some_and(|status| status.success()));
}

#[test]
fn a_snapshot_that_failed_makes_the_server_not_ready_where_it_refuses_writes() {
    let (server, console) = start(&["--save", "3600 1", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    assert_eq!(client.line("CONFIG SET dbfilename dump.rdb"), Value::ok());
    // A directory stands where the snapshot is to be.
    std::fs::create_dir(server.directory().join("dump.rdb")).unwrap();
    std::fs::write(server.directory().join("dump.rdb/file"), "x").unwrap();
    client.line("SET a 1");
    client.line("SAVE");
    client.line("BGSAVE");
    let end = Instant::now() + Duration::from_secs(20);
    while get(console, "/health/ready").status != 503 {
        assert!(Instant::now() < end, "{}", server.log());
    }
    assert!(get(console, "/health/ready").body.starts_with("the last snapshot has failed"));
    assert_eq!(page(console)["redis_rdb_last_bgsave_status"], 0.0);
    assert!(error(&client.line("SET a 2")).starts_with("MISCONF"), "it says what clients meet");
    assert_eq!(client.line("CONFIG SET stop-writes-on-bgsave-error no"), Value::ok());
    assert_eq!(get(console, "/health/ready").status, 200);
}

#[test]
fn only_loopback_is_plain_and_addresses_change_while_the_server_runs() {
    let refused = |flags: &[&str]| Server::try_start(&Program::Almandine, flags, &[]).expect_err("it starts");
    let port = free_port().to_string();
    let beyond = refused(&["--metrics-port", &port, "--metrics-bind", "*"]);
    assert!(beyond.contains("metrics-bind: beyond loopback the metrics are served with TLS only"), "{beyond}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    let busy = refused(&["--metrics-port", &taken]);
    assert!(busy.contains(&format!("Failed listening on port {taken} (metrics), aborting")), "{busy}");

    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    let (first, second) = (free_port(), free_port());
    assert_eq!(client.line(&format!("CONFIG SET metrics-port {first}")), Value::ok());
    assert_eq!(get(local(first), "/health/live").status, 200);
    for (wrong, parameter) in [(format!("metrics-port {taken}"), "metrics-port"), ("metrics-bind *".to_owned(), "metrics-bind")] {
        let text = error(&client.line(&format!("CONFIG SET {wrong}")));
        assert!(text.contains(&format!("argument '{parameter}'")), "{text}");
        assert_eq!(get(local(first), "/health/live").status, 200, "nothing has changed behind {text}");
    }
    let twice = error(&client.call(&["CONFIG", "SET", "metrics-bind", "127.0.0.1 127.0.0.1"]).unwrap());
    assert!(twice.contains("127.0.0.1 is there twice"), "{twice}");
    // A change of another parameter that cannot be done gives up a console that was made ready.
    let both = error(&client.call(&["CONFIG", "SET", "metrics-port", &second.to_string(), "workers", "4000"]).unwrap());
    assert!(both.contains("argument 'workers'"), "{both}");
    assert!(TcpStream::connect(local(second)).is_err() && get(local(first), "/health/live").status == 200);
    assert_eq!(client.line(&format!("CONFIG SET metrics-port {second}")), Value::ok());
    assert!(TcpStream::connect(local(first)).is_err(), "the old port is closed when the reply is there");
    assert_eq!(get(local(second), "/health/live").status, 200);
    // The address that stays is served by the same socket, beside one that covers it.
    assert_eq!(client.call(&["CONFIG", "SET", "metrics-bind", "127.0.0.1 127.0.0.2"]).unwrap(), Value::ok());
    let other = SocketAddr::from(([127, 0, 0, 2], second));
    assert_eq!((get(other, "/health/live").status, get(local(second), "/health/live").status), (200, 200));
    assert_eq!(client.line("CONFIG SET metrics-port 0"), Value::ok());
    assert!(TcpStream::connect(local(second)).is_err() && TcpStream::connect(other).is_err());
    assert_eq!(client.line("PING").to_string(), "+PONG");
}

#[test]
fn settings_change_while_pages_are_made_and_databases_emptied() {
    let (server, console) = start(&["--workers", "2"]);
    let (mut client, mut other) = (server.client(), server.client());
    let (is_over, made, begun) = (AtomicBool::new(false), AtomicU32::new(0), Instant::now());
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while !is_over.load(Relaxed) {
                    // A change closes connections.
                    let asked = TcpStream::connect(console).and_then(|mut stream| {
                        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
                        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
                        answer(&mut stream)
                    });
                    made.fetch_add(asked.is_ok_and(|answer| answer.status == 200).into(), Relaxed);
                }
            });
        }
        threads.spawn(|| {
            while !is_over.load(Relaxed) {
                for line in ["SET a 1", "SWAPDB 0 1", "FLUSHDB", "FLUSHALL ASYNC", "CONFIG RESETSTAT"] {
                    assert_eq!(other.line(line), Value::ok(), "{line}");
                }
            }
        });
        let mut round = 0;
        // On a busy machine most pages are cut off by a change.
        while round < 200 || made.load(Relaxed) <= 20 && begun.elapsed() < Duration::from_secs(60) {
            let bind = if round % 2 == 0 { "127.0.0.1 127.0.0.2" } else { "127.0.0.1" };
            assert_eq!(client.call(&["CONFIG", "SET", "metrics-bind", bind]).unwrap(), Value::ok());
            if round % 10 == 0 {
                let port = console.port().to_string();
                assert_eq!(client.line("CONFIG SET metrics-port 0"), Value::ok());
                assert_eq!(client.call(&["CONFIG", "SET", "metrics-port", &port]).unwrap(), Value::ok(), "{round}");
            }
            round += 1;
        }
        is_over.store(true, Relaxed);
    });
    let made = made.into_inner();
    assert!(made > 20, "{made} pages");
    assert_eq!(get(console, "/health/live").status, 200);
}

#[test]
fn beyond_loopback_tls_is_spoken_by_the_rules_of_tls_port() {
    let port = free_port();
    let (text, certificate, key, authority) = (port.to_string(), file("server.crt"), file("server.key"), file("ca.crt"));
    let flags = ["--metrics-port", &text, "--metrics-bind", "127.0.0.1", "--tls-cert-file", &certificate, "--tls-key-file", &key];
    let server = Server::start(&Program::Almandine, &[&flags[..], &["--tls-ca-cert-file", &authority]].concat());
    let mut client = server.client();
    assert_eq!(get(local(port), "/health/live").status, 200, "loopback is plain beside certificates");
    // The wildcard counts as beyond, on loopback too.
    assert_eq!(client.line("CONFIG SET metrics-bind *"), Value::ok());
    let request = |host: &str| format!("GET /health/live HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let secure = |peer: &Peer, host: &str| {
        let mut client = peer.connect(local(port))?;
        client.connection().write_all(request(host).as_bytes())?;
        answer(client.connection())
    };
    let mut plain = connect(local(port));
    plain.write_all(request("localhost").as_bytes()).unwrap();
    let mut reply = [0; 4];
    assert!(plain.read(&mut reply).map_or(true, |count| &reply[..count] != b"HTTP"), "plain HTTP is not answered");
    let (known, stranger) = (Peer::with("alice"), Peer::plain());
    assert_eq!(secure(&known, "localhost").unwrap().status, 200);
    assert_eq!(secure(&known, "evil.example").unwrap().status, 421);
    assert!(secure(&stranger, "localhost").is_err(), "tls-auth-clients is yes by default");
    assert_eq!(client.line("CONFIG SET tls-auth-clients no"), Value::ok());
    assert_eq!(secure(&stranger, "localhost").unwrap().status, 200);
    assert_eq!(client.line("CONFIG SET metrics-bind 127.0.0.1"), Value::ok());
    assert_eq!(get(local(port), "/health/live").status, 200);
}

#[test]
fn requests_that_are_not_for_here_are_refused_with_a_reason() {
    let (_server, console) = start(&[]);
    let with = |head: &str| ask(console, &format!("{head}\r\nConnection: close\r\n\r\n"));
    let evil = with("GET /metrics HTTP/1.1\r\nHost: evil.example:9121");
    assert!(
        evil.status == 421 && evil.body.contains("Host does not name this server") && !evil.body.contains("redis_"),
        "{evil:?}"
    );
    assert_eq!(with("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost").status, 421);
    assert_eq!(with("GET /metrics HTTP/1.1").status, 400);
    assert_eq!(with("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example").status, 400);
    assert_eq!(with("GET /nothing HTTP/1.1\r\nHost: localhost").status, 404);
    assert_eq!(with("GET /metrics/../x HTTP/1.1\r\nHost: localhost").status, 404);
    assert_eq!(with(&format!("GET /{} HTTP/1.1\r\nHost: localhost", "a".repeat(300))).status, 414);
    assert_eq!(with(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(20_000))).status, 431);
    let many: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    assert_eq!(with(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}", many.trim_end())).status, 431);
    let delete = with("DELETE /metrics HTTP/1.1\r\nHost: localhost");
    assert!(delete.status == 405 && delete.head.contains("allow: get, head\r\n"), "{delete:?}");
    for body in
        ["Content-Length: 4\r\n\r\nabcd", "Content-Length: 99999999999\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"]
    {
        let mut stream = connect(console);
        write!(stream, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n{body}").unwrap();
        let refused = answer(&mut stream).unwrap();
        assert!(refused.status == 413 && refused.head.contains("connection: close\r\n"), "{refused:?}");
    }
    for garbage in ["\0\u{1}\u{2}\r\n\r\n", "*1\r\n$4\r\nPING\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n", "GET\r\n\r\n"] {
        let mut stream = connect(console);
        stream.write_all(garbage.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4") || reply.starts_with("HTTP/1.1 5"), "{garbage:?}: {reply}");
    }
}

#[test]
fn pipelines_and_half_closed_connections_get_all_their_answers() {
    let (_server, console) = start(&[]);
    let mut stream = connect(console);
    let request = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.repeat(50).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..50 {
        assert_eq!(answer(&mut stream).unwrap().body, "alive\n");
    }
    assert!(is_closed(&mut stream, Duration::from_secs(10)));
    let mut bytes = connect(console);
    for byte in request.as_bytes() {
        bytes.write_all(&[*byte]).unwrap();
    }
    assert_eq!(answer(&mut bytes).unwrap().status, 200);
}

#[test]
fn slow_and_many_connections_keep_no_scrape_out() {
    let (server, console) = start(&[]);
    let resident = server.resident_bytes();
    let mut slow: Vec<TcpStream> = (0..300)
        .map(|n| {
            let mut stream = connect(console);
            // Some say nothing, some begin, and some read nothing of a thousand pages.
            match n % 3 {
                0 => {}
                1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").unwrap(),
                // What the server does not read any more it may reset.
                _ => drop(stream.write_all("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(300).as_bytes())),
            }
            stream
        })
        .collect();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(get(console, "/metrics").status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(is_closed(&mut slow[0], Duration::from_secs(5)), "the oldest gives way");
    let grown = server.resident_bytes().saturating_sub(resident);
    assert!(grown < 64 << 20, "{grown} bytes for 64 connections");
    assert_eq!(server.client().line("PING").to_string(), "+PONG");
    // The newest that has begun a request and does not end it is closed when its time is over.
    drop(slow);
    let mut stream = connect(console);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").unwrap();
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!((25..50).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}
