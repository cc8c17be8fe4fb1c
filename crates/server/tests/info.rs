//! INFO beside redis-server's: the same fields in the same sections, of the same kind, and true after a workload that both have
//! had.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::Write as _;

use almandine_testkit::{Client, Program, Server, Value};

/// Fields that Redis has and we have not, because we do not know what they say.
const ABSENT: [&str; 5] = [
    "gcc_version",
    "expire_cycle_cpu_milliseconds",
    "total_eviction_exceeded_time",
    "current_eviction_exceeded_time",
    "dump_payload_sanitizations",
];

type Fields = BTreeMap<(String, String), String>;

fn info(client: &mut Client, sections: &[&str]) -> (Vec<String>, Fields) {
    let words = [&["INFO"], sections].concat();
    let Value::Bulk(text) = client.call(&words).unwrap() else { panic!("INFO") };
    let text = String::from_utf8(text).unwrap();
    let (mut titles, mut fields) = (Vec::new(), Fields::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            titles.push(title.to_owned());
        } else if let Some((name, value)) = line.split_once(':') {
            let key = (titles.last().unwrap().clone(), name.to_owned());
            assert!(fields.insert(key, value.to_owned()).is_none(), "{name} twice");
        }
    }
    (titles, fields)
}

/// What a program that reads the field takes it for.
fn kind(value: &str) -> &'static str {
    if value.parse::<i64>().is_ok() {
        "integer"
    } else if value.trim_end_matches('%').parse::<f64>().is_ok() {
        if value.ends_with('%') { "percent" } else { "decimal" }
    } else {
        "text"
    }
}

/// The same for both: writes, hits, misses, errors, expiries, two kinds of subscriptions, a watched key.
fn work(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for number in 0..50 {
        client.line(&format!("SET key:{number} {number}"));
    }
    for number in 0..80 {
        client.line(&format!("GET key:{number}"));
    }
    client.line("SET brief x PX 1");
    client.line("LPUSH key:1 x");
    client.line("SELECT 3");
    client.line("HSET h f v");
    clients[0].line("SUBSCRIBE a");
    clients[0].line("SUBSCRIBE b");
    clients[1].line("PSUBSCRIBE a*");
    clients[2].line("WATCH key:1");
    // The key goes by itself, at a turn of the background.
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        if client.line("INFO stats").bytes().is_some_and(|text| String::from_utf8_lossy(text).contains("expired_keys:1\r\n")) {
            break;
        }
    }
    clients.push(client);
    clients
}

#[test]
fn info_has_what_redis_has_and_says_the_same_of_the_same() {
    let (ours, theirs) = (Server::start(&Program::Almandine, &[]), Server::start(&Program::Redis, &[]));
    let (mut at_ours, mut at_theirs) = (work(&ours), work(&theirs));
    let (mut our, mut their) = (at_ours.pop().unwrap(), at_theirs.pop().unwrap());
    for sections in
        [&[][..], &["default"], &["modules"], &["server", "cpu", "SERVER", "nosuch"], &["nosuch"], &["commandstats", "stats"]]
    {
        let titles = |client: &mut Client| info(client, sections).0;
        assert_eq!(titles(&mut our), titles(&mut their), "{sections:?}");
    }
    let (our_titles, our_fields) = info(&mut our, &["everything"]);
    let (their_titles, their_fields) = info(&mut their, &["everything"]);
    assert_eq!(our_titles.into_iter().filter(|title| title != "Storage").collect::<Vec<_>>(), their_titles);
    for ((section, name), value) in &their_fields {
        let our = our_fields.get(&(section.clone(), name.clone()));
        assert_eq!(our.is_none(), ABSENT.contains(&name.as_str()), "{section} {name}");
        // Identifications of the build are free text.
        let free = ["redis_version", "redis_build_id", "redis_git_sha1", "redis_git_dirty"].contains(&name.as_str());
        if let Some(our) = our.filter(|_| !free) {
            assert_eq!(kind(our), kind(value), "{section} {name}: {our} {value}");
        }
    }
    for (section, names) in [
        ("Server", &["redis_mode", "os", "arch_bits", "process_supervised", "config_file", "configured_hz"][..]),
        ("Clients", &["connected_clients", "maxclients", "blocked_clients", "tracking_clients", "cluster_connections"]),
        ("Memory", &["maxmemory", "maxmemory_human", "maxmemory_policy", "total_system_memory", "mem_clients_slaves"]),
        ("Persistence", &["loading", "aof_enabled", "rdb_bgsave_in_progress", "rdb_last_bgsave_status", "aof_last_write_status"]),
        (
            "Stats",
            &[
                "keyspace_hits",
                "keyspace_misses",
                "expired_keys",
                "evicted_keys",
                "pubsub_channels",
                "pubsub_patterns",
                "total_error_replies",
                "rejected_connections",
            ],
        ),
        ("Replication", &["role", "connected_slaves", "master_failover_state", "master_repl_offset"]),
        ("Errorstats", &["errorstat_WRONGTYPE"]),
        ("Cluster", &["cluster_enabled"]),
        ("Keyspace", &["db0", "db3"]),
    ] {
        for name in names {
            let of = |fields: &Fields| fields.get(&(section.to_owned(), (*name).to_owned())).cloned();
            assert!(of(&our_fields).is_some(), "{section} {name}");
            assert_eq!(of(&our_fields), of(&their_fields), "{section} {name}");
        }
    }
    let calls = |fields: &Fields, command: &str| {
        let value = &fields[&("Commandstats".to_owned(), format!("cmdstat_{command}"))];
        value.split(',').next().unwrap().to_owned()
    };
    for command in ["get", "set", "hset", "lpush", "select", "subscribe", "psubscribe", "watch"] {
        assert_eq!(calls(&our_fields, command), calls(&their_fields, command), "{command}");
    }
}

#[test]
fn what_info_says_of_the_process_is_so() {
    let server = Server::start(&Program::Almandine, &["--workers", "1", "--unixsocket", "{dir}/s.sock"]);
    let clients = work(&server);
    let mut client = server.client();
    let (_, fields) = info(&mut client, &["everything"]);
    let field = |section: &str, name: &str| fields[&(section.to_owned(), name.to_owned())].clone();
    let number = |section: &str, name: &str| field(section, name).parse::<u64>().unwrap();
    assert_eq!(number("Server", "process_id"), u64::from(server.pid()));
    assert_eq!(number("Server", "tcp_port"), u64::from(server.address().port()));
    let program = std::fs::canonicalize(almandine_testkit::server::almandine_path()).unwrap();
    assert_eq!(field("Server", "executable"), program.display().to_string());
    let port = server.address().port();
    assert_eq!(field("Server", "listener0"), format!("name=tcp,bind=127.0.0.1,port={port}"));
    assert_eq!(field("Server", "listener1"), format!("name=unix,bind={}/s.sock", server.directory().display()));
    assert_eq!(number("Server", "workers"), 1);
    assert!(field("Server", "run_id").len() == 40 && number("Server", "uptime_in_seconds") < 60);
    assert_eq!(number("Clients", "connected_clients"), clients.len() as u64 + 1);
    assert_eq!((number("Clients", "pubsub_clients"), number("Clients", "watching_clients")), (2, 1));
    assert_eq!(number("Clients", "total_watched_keys"), 1);
    let resident = server.resident_bytes();
    assert!(number("Memory", "used_memory_rss").abs_diff(resident) < resident / 4, "{resident}");
    assert!(number("Memory", "used_memory") <= number("Memory", "used_memory_peak"));
    assert_eq!(number("Memory", "used_memory"), number("Memory", "used_memory_overhead") + number("Memory", "used_memory_dataset"));
    drop(clients);
    let value = "v".repeat(1 << 20);
    for number in 0..20 {
        client.call(&["SET", &format!("large:{number}"), &value]).unwrap();
    }
    let (_, after) = info(&mut client, &["memory"]);
    let used = |fields: &Fields| fields[&("Memory".to_owned(), "used_memory".to_owned())].parse::<u64>().unwrap();
    let grown = used(&after) - used(&fields);
    // The clients that have gone gave a little back.
    assert!(((20 << 20) - (64 << 10)..22 << 20).contains(&grown), "{grown}");
}

/// Waits until a field of the statistics has the value; says what it has otherwise.
fn comes_to(client: &mut Client, name: &str, value: &str) {
    let key = ("Stats".to_owned(), name.to_owned());
    let mut found = String::new();
    for _ in 0..500 {
        found = info(client, &["stats"]).1[&key].clone();
        if found == value {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{name} is {found}");
}

#[test]
fn connections_that_a_limit_closes_are_counted_until_the_statistics_begin_anew() {
    let flags = [
        "--client-query-buffer-limit",
        "1048576",
        "--client-output-buffer-limit",
        "normal 1048576 0 0",
        "--maxclients",
        "4",
        "--workers",
        "1",
    ];
    let server = Server::start(&Program::Almandine, &flags);
    let mut admin = server.client();
    let fields = ["client_query_buffer_limit_disconnections", "client_output_buffer_limit_disconnections", "rejected_connections"];
    fields.iter().for_each(|name| comes_to(&mut admin, name, "0"));
    let mut announces = server.client();
    // The rest of the bytes may find the connection closed.
    let _ =
        announces.stream().try_clone().unwrap().write_all(&[&b"*2\r\n$4\r\nECHO\r\n$2000000\r\n"[..], &[b'x'; 1_500_000]].concat());
    comes_to(&mut admin, fields[0], "1");
    assert!(matches!(announces.receive(), Ok(Value::Closed) | Err(_)));
    drop(announces);
    assert_eq!(admin.line("SETRANGE large 20000000 x").to_string(), ":20000001");
    let mut reads_nothing = server.client();
    reads_nothing.send(&[["GET", "large"]; 4]).unwrap();
    comes_to(&mut admin, fields[1], "1");
    drop(reads_nothing);
    let others: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let mut refused = server.client();
    assert!(refused.line("PING").is_error());
    comes_to(&mut admin, fields[2], "1");
    assert_eq!(admin.line("CONFIG RESETSTAT"), Value::ok());
    let (_, after) = info(&mut admin, &["stats"]);
    for name in fields {
        assert_eq!(after[&("Stats".to_owned(), name.to_owned())], "0", "{name}");
    }
    drop(others);
}

#[test]
fn a_pause_is_told() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    let mut paused = || {
        let (_, fields) = info(&mut client, &["clients"]);
        let field = |name: &str| fields[&("Clients".to_owned(), format!("paused_{name}"))].clone();
        (field("reason"), field("actions"), field("timeout_milliseconds").parse::<u64>().unwrap())
    };
    let texts = |reason: &str, actions: &str| (reason.to_owned(), actions.to_owned());
    let (reason, actions, left_ms) = paused();
    assert_eq!(((reason, actions), left_ms), (texts("none", "none"), 0));
    assert_eq!(server.client().line("CLIENT PAUSE 60000 WRITE"), Value::ok());
    let (reason, actions, left_ms) = paused();
    assert_eq!((reason, actions), texts("client_pause", "write"));
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
    assert_eq!(server.client().line("CLIENT UNPAUSE"), Value::ok());
    assert_eq!(paused().0, "none");
}
