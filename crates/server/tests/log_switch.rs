//! CONFIG SET appendonly while the server runs: what was acknowledged behind it is there after a kill, and what was off is off.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[&["--ring-dir", "{dir}"], flags].concat())
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).unwrap_or_default()
}

fn await_base(client: &mut Client) {
    let began = Instant::now();
    while info(client, "aof_rewrite_in_progress") != "0" {
        std::thread::sleep(Duration::from_millis(5));
        assert!(began.elapsed() < PATIENCE, "the first base is not written");
    }
    assert_eq!(info(client, "aof_last_bgrewrite_status"), "ok");
}

fn set(client: &mut Client, parameter: &str) {
    assert_eq!(client.line(&format!("CONFIG SET {parameter}")), Value::ok());
}

fn await_exit(server: &mut Server) {
    assert!(server.await_exit(PATIENCE).is_some_and(|status| status.success()), "{}", server.log());
}

#[test]
fn a_log_is_turned_on_off_and_on_again() {
    let mut server = start(&["--save", ""]);
    let mut client = server.client();
    for key in 0..300 {
        client.line(&format!("SET before:{key} value"));
    }
    for (round, mode) in ["everysec", "always", "no"].into_iter().enumerate() {
        set(&mut client, &format!("appendonly yes appendfsync {mode}"));
        assert_eq!(info(&mut client, "aof_enabled"), "1");
        client.line(&format!("RPUSH list first:{round}"));
        await_base(&mut client);
        client.line(&format!("RPUSH list second:{round}"));
        set(&mut client, "appendonly no");
        assert_eq!((info(&mut client, "aof_enabled").as_str(), info(&mut client, "aof_current_size").as_str()), ("0", ""));
        client.line(&format!("SET off:{round} 1"));
    }
    set(&mut client, "appendonly yes");
    await_base(&mut client);
    client.line("SWAPDB 0 1");
    client.line("SELECT 1");
    client.line("RPUSH list last");
    server.kill();
    server.start_again_with(&["--appendonly", "yes"]);
    let mut client = server.client();
    client.line("SELECT 1");
    assert_eq!(client.line("DBSIZE"), Value::Integer(304), "{}", server.log());
    assert_eq!(client.line("LLEN list"), Value::Integer(7));
    client.line("RPUSH list more");
    set(&mut client, "appendonly no");
    client.line("SET unlogged 1");
    client.line("SHUTDOWN");
    await_exit(&mut server);
    server.start_again();
    let mut client = server.client();
    client.line("SELECT 1");
    assert_eq!(client.line("LLEN list"), Value::Integer(8), "{}", server.log());
    assert_eq!(client.line("EXISTS unlogged"), Value::Integer(0), "what was not logged is not there");
    assert_eq!(client.line("EXISTS off:0"), Value::Integer(1), "what was done while the log was off is in the next base");
}

/// Until the first base is written, the directory has what it had.
#[test]
fn a_log_counts_from_its_first_base_on() {
    let mut server = start(&["--appendonly", "yes", "--save", ""]);
    let mut client = server.client();
    client.line("SET old 1");
    set(&mut client, "appendonly no");
    client.line("SET new 1");
    for key in 0..500 {
        client.line(&format!("SET key:{key} value"));
    }
    set(&mut client, "rdb-key-save-delay 100000");
    set(&mut client, "appendonly yes");
    client.line("SET newer 1");
    assert_eq!(info(&mut client, "aof_rewrite_in_progress"), "1");
    // As in Redis, a server whose data is nowhere yet does not end for the asking.
    assert!(client.line("SHUTDOWN").is_error());
    assert!(server.log().contains("Writing initial AOF, can't exit"), "{}", server.log());
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!((client.line("EXISTS old"), client.line("EXISTS new")), (Value::Integer(1), Value::Integer(0)), "{}", server.log());
    // One that is given up leaves nothing behind.
    set(&mut client, "appendonly no");
    for key in 0..500 {
        client.line(&format!("SET key:{key} value"));
    }
    set(&mut client, "rdb-key-save-delay 100000");
    set(&mut client, "appendonly yes");
    set(&mut client, "appendonly no");
    let segments = fs::read_dir(server.directory().join("appendonlydir")).unwrap();
    let names: Vec<String> = segments.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // One of each run that the log has.
    assert_eq!(names.iter().filter(|name| name.starts_with("log-")).count(), 2, "{names:?}");
    client.line("SHUTDOWN NOSAVE");
    await_exit(&mut server);
}

/// Units of work are in the log whole: clients write transactions all the time, and the first base is made beside them.
/// A transaction is a unit of work, and the log begins between units: the server would wait for itself.
#[test]
fn a_transaction_does_not_turn_the_log_on_and_what_it_asks_to_be_written_is_scheduled() {
    let server = start(&["--save", ""]);
    let mut client = server.client();
    let transaction =
        ["MULTI", "SET key 1", "CONFIG SET appendonly no", "CONFIG SET appendonly yes", "BGREWRITEAOF", "BGSAVE SCHEDULE", "EXEC"];
    let replies: Vec<Value> = transaction.iter().map(|line| client.line(line)).collect();
    let Some(Value::Array(replies)) = replies.last() else { panic!("{replies:?}") };
    assert_eq!(replies[..2], [Value::ok(), Value::ok()]);
    assert!(replies[2].to_string().contains("within a transaction"), "{replies:?}");
    assert_eq!(replies[3], Value::Simple(b"Background append only file rewriting scheduled".to_vec()));
    assert_eq!(replies[4], Value::Simple(b"Background saving scheduled".to_vec()));
    set(&mut client, "appendonly yes");
    await_base(&mut client);
}

/// Counts two keys in transactions until the server is gone, and says how far it came. `begun`: of the writers, those that have
/// counted once.
fn count_pairs(address: SocketAddr, number: usize, begun: &AtomicUsize) -> i64 {
    let Ok(mut client) = Client::connect(address) else { return 0 };
    let mut last = 0;
    let (first, second) = (format!("INCR a:{number}"), format!("INCR b:{number}"));
    while let (Ok(_), Ok(_), Ok(_), Ok(Value::Array(replies))) = (
        client.call(&["MULTI"]),
        client.call(&first.split(' ').collect::<Vec<_>>()),
        client.call(&second.split(' ').collect::<Vec<_>>()),
        client.call(&["EXEC"]),
    ) {
        let counts: Vec<Option<i64>> = replies.iter().map(Value::integer).collect();
        assert_eq!(counts[0], counts[1]);
        let count = counts[0].unwrap_or(last);
        if last == 0 && count != 0 {
            begun.fetch_add(1, Ordering::Relaxed);
        }
        last = count;
    }
    last
}

#[test]
fn transactions_are_whole_in_a_log_that_begins_beside_them() {
    const WRITERS: usize = 4;
    let mut server = start(&["--save", "", "--workers", "2"]);
    let address = server.address();
    let mut control = server.client();
    for round in 0..6 {
        let begun = AtomicUsize::new(0);
        let acknowledged: Vec<i64> = std::thread::scope(|scope| {
            let begun = &begun;
            let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || count_pairs(address, number, begun))).collect();
            for _ in 0..round {
                set(&mut control, "appendonly yes");
                set(&mut control, "appendonly no");
            }
            set(&mut control, "appendonly yes");
            await_base(&mut control);
            std::thread::sleep(Duration::from_millis(50));
            // What a writer has counted is looked for, and without the kill none ends.
            let waited = Instant::now();
            while begun.load(Ordering::Relaxed) < WRITERS && waited.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            server.kill();
            assert_eq!(begun.load(Ordering::Relaxed), WRITERS, "a writer has counted nothing");
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        server.start_again_with(&["--appendonly", "yes"]);
        control = server.client();
        for (number, acknowledged) in acknowledged.into_iter().enumerate() {
            let [a, b] = ["a", "b"].map(|key| control.line(&format!("GET {key}:{number}")));
            assert_eq!(a, b, "a transaction is there in part");
            let found: i64 = String::from_utf8(a.bytes().unwrap().to_vec()).unwrap().parse().unwrap();
            assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged} acknowledged, {found} found");
        }
        set(&mut control, "appendonly no");
    }
}
