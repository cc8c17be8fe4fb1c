//! BGREWRITEAOF: the log begins anew with a base, beside clients that write, and nothing is lost by it.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::time::{Duration, Instant};
use std::{fs, thread};

use almandine_testkit::{Client, Program, Server, Value};

const LOG: &[&str] = &["--appendonly", "yes", "--ring-dir", "{dir}"];
const PATIENCE: Duration = Duration::from_secs(60);

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[LOG, flags].concat())
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO everything") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).unwrap_or_else(|| panic!("{field}: {text}"))
}

fn number(client: &mut Client, field: &str) -> u64 {
    info(client, field).parse().unwrap()
}

fn await_field(client: &mut Client, field: &str, value: &str) {
    let began = Instant::now();
    while info(client, field) != value {
        assert!(began.elapsed() < PATIENCE, "{field} is {}, not {value}", info(client, field));
        // What is waited for stands behind the workers, which this keeps busy.
        thread::sleep(Duration::from_millis(5));
    }
}

fn simple(text: &str) -> Value {
    Value::Simple(text.as_bytes().to_vec())
}

fn error(value: &Value) -> String {
    let Value::Error(text) = value else { panic!("no error: {value}") };
    String::from_utf8_lossy(text).into_owned()
}

/// Names of the log's files that begin so.
fn files(server: &Server, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(server.directory().join("appendonlydir")).unwrap();
    let mut names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}

fn fill(client: &mut Client, keys: usize) {
    let commands: Vec<Vec<String>> =
        (0..keys).map(|key| vec!["SET".to_owned(), format!("key:{key}"), format!("value:{key}")]).collect();
    for commands in commands.chunks(500) {
        assert!(client.pipeline(commands).unwrap().iter().all(|reply| *reply == Value::ok()));
    }
}

const STARTED: &str = "Background append only file rewriting started";

#[test]
fn a_rewritten_log_has_what_it_had_in_fewer_bytes() {
    let mut server = start(&[]);
    let mut client = server.client();
    for _ in 0..20 {
        fill(&mut client, 2_000);
    }
    client.line("RPUSH list a b c");
    let last_save = client.line("LASTSAVE");
    // What is in the rings does not count yet.
    client.line("WAITAOF 1 0 0");
    let was = number(&mut client, "aof_current_size");
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    await_field(&mut client, "aof_rewrite_in_progress", "0");
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok", "{}", server.log());
    assert_eq!(number(&mut client, "aof_rewrites"), 1);
    assert_eq!(info(&mut client, "aof_current_rewrite_time_sec"), "-1");
    let is = number(&mut client, "aof_current_size");
    assert!(is < was / 4, "{was} bytes have become {is}");
    assert!(number(&mut client, "aof_base_size") <= is);
    assert_eq!(client.line("LASTSAVE"), last_save, "a rewrite is no save");
    assert_eq!((files(&server, "base-"), files(&server, "log-").len()), (vec!["base-00000002.0".to_owned()], 1));
    client.line("RPUSH list d");
    for round in 0..4 {
        if round == 1 {
            client.send(&[["SHUTDOWN"]]).unwrap();
            assert!(server.await_exit(PATIENCE).is_some_and(|status| status.success()), "{}", server.log());
        } else {
            server.kill();
        }
        server.start_again();
        client = server.client();
        assert_eq!(client.line("DBSIZE"), Value::Integer(2_001), "{}", server.log());
        assert_eq!(client.line("LLEN list"), Value::Integer(4 + round));
        client.line("RPUSH list e");
        if round == 2 {
            assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
            await_field(&mut client, "aof_rewrites", "1");
        }
    }
}

/// INV-BASE-1: what databases consist of changes while the base is made, more than once.
#[test]
fn databases_are_emptied_and_swapped_while_the_log_is_rewritten() {
    let mut server = start(&["--rdb-key-save-delay", "2000", "--databases", "4"]);
    let mut client = server.client();
    fill(&mut client, 5_000);
    client.line("SELECT 1");
    client.line("SET first 1");
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    for round in 0..40 {
        let first = ["SELECT 1", "FLUSHDB", &format!("SET round {round}"), "RPUSH queue a b", "SWAPDB 1 2", "SELECT 2"];
        let second = ["RPUSH queue c", "FLUSHDB", "HSET hash f v", "SELECT 3", "RPUSH queue x", "DEL queue"];
        let commands: Vec<Vec<&str>> = first.iter().chain(&second).map(|line| line.split(' ').collect()).collect();
        let replies = client.pipeline(&commands).unwrap();
        assert!(replies.iter().all(|reply| !reply.is_error()), "{replies:?}");
    }
    client.line("SELECT 2");
    client.line("RPUSH last a");
    assert_eq!(info(&mut client, "aof_rewrite_in_progress"), "1", "the base is made meanwhile");
    await_field(&mut client, "aof_rewrite_in_progress", "0");
    client.line("RPUSH last b");
    let all = |client: &mut Client| -> Vec<Value> {
        let mut all = Vec::new();
        for db in 0..4 {
            client.line(&format!("SELECT {db}"));
            all.extend(["DBSIZE", "GET round", "LRANGE queue 0 -1", "HGETALL hash", "LRANGE last 0 -1"].map(|it| client.line(it)));
        }
        all
    };
    let expected = all(&mut client);
    for _ in 0..2 {
        server.kill();
        server.start_again();
        assert_eq!(all(&mut server.client()), expected, "{}", server.log());
    }
}

#[test]
fn rewrites_and_snapshots_wait_for_each_other_as_in_redis() {
    let server = start(&["--rdb-key-save-delay", "2000"]);
    let mut client = server.client();
    fill(&mut client, 2_000);
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    assert!(error(&client.line("BGREWRITEAOF")).ends_with("rewriting already in progress"));
    assert!(error(&client.line("BGSAVE")).starts_with("ERR Another child process is active (AOF?)"));
    assert_eq!(client.line("BGSAVE SCHEDULE"), simple("Background saving scheduled"));
    assert_eq!(client.line("BGSAVE CANCEL"), simple("Scheduled background saving cancelled"));
    assert_eq!(client.line("BGSAVE SCHEDULE"), simple("Background saving scheduled"));
    // The snapshot would take minutes; the base goes by what was set when it began.
    let began = Instant::now();
    while !server.log().contains("rewriting started by the thread") {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
    }
    client.line("CONFIG SET rdb-key-save-delay 100000");
    await_field(&mut client, "aof_rewrite_in_progress", "0");
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress"), "1");
    assert_eq!(client.line("BGREWRITEAOF"), simple("Background append only file rewriting scheduled"));
    assert_eq!(info(&mut client, "aof_rewrite_scheduled"), "1");
    client.line("CONFIG SET rdb-key-save-delay 0");
    assert_eq!(client.line("BGSAVE CANCEL"), simple("Background saving cancelled"));
    await_field(&mut client, "aof_rewrites", "2");
    assert_eq!(info(&mut client, "aof_rewrite_scheduled"), "0");
}

#[test]
fn a_log_that_has_grown_is_rewritten_by_itself() {
    let server = start(&["--auto-aof-rewrite-percentage", "50", "--auto-aof-rewrite-min-size", "200kb"]);
    let mut client = server.client();
    let began = Instant::now();
    while number(&mut client, "aof_rewrites") < 2 {
        fill(&mut client, 1_000);
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
    }
    assert!(server.log().contains("Starting automatic rewriting of AOF on"), "{}", server.log());
    assert_eq!(client.line("CONFIG SET auto-aof-rewrite-percentage 0"), Value::ok());
}

#[test]
fn further_databases_are_in_a_new_base() {
    let mut server = start(&["--databases", "4"]);
    server.client().line("SET key 1");
    server.kill();
    for databases in ["8", "16"] {
        server.start_again_with(&["--databases", databases]);
        let mut client = server.client();
        assert_eq!(client.line("GET key"), Value::Bulk(b"1".to_vec()));
        client.line("SELECT 7");
        client.line(&format!("SET further {databases}"));
        server.kill();
    }
    server.start_again();
    let mut client = server.client();
    client.line("SELECT 7");
    assert_eq!(client.line("GET further"), Value::Bulk(b"16".to_vec()), "{}", server.log());
}

/// One that is given up, or whose server ends, leaves the log as it was.
#[test]
fn the_end_of_the_server_does_not_wait_for_a_base() {
    let mut server = start(&["--rdb-key-save-delay", "100000"]);
    let mut client = server.client();
    fill(&mut client, 2_000);
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    client.send(&[["SHUTDOWN"]]).unwrap();
    assert!(server.await_exit(PATIENCE).is_some_and(|status| status.success()), "{}", server.log());
    server.start_again();
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(2_000), "{}", server.log());
    assert_eq!(files(&server, "base-"), ["base-00000001.0"]);
}

/// Of what lies on a device a base names only what was there when it began. All of the memory goes there meanwhile here, and
/// changes: it is copied, and read page by page.
#[test]
fn what_leaves_memory_under_a_base_is_copied_by_pages() {
    const KEYS: usize = 24_000;
    const CHANGED: usize = 16;
    let flags = ["--storage-dir", "{dir}/s", "--maxmemory", "64mb", "--rdb-key-save-delay", "50", "--enable-debug-command", "yes"];
    let mut server = start(&[&flags[..], &["--auto-aof-rewrite-percentage", "0"]].concat());
    let mut client = server.client();
    let value = "v".repeat(1000);
    let commands: Vec<Vec<String>> =
        (0..KEYS).map(|key| vec!["SET".to_owned(), format!("key:{key}"), format!("{key}{value}")]).collect();
    for commands in commands.chunks(500) {
        assert!(client.pipeline(commands).unwrap().iter().all(|reply| *reply == Value::ok()));
    }
    let reads = number(&mut client, "storage_reads");
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    await_field(&mut client, "aof_rewrite_in_progress", "1");
    assert!(server.make_cold());
    for key in (0..KEYS).step_by(CHANGED) {
        assert_eq!(client.line(&format!("APPEND key:{key} more")), Value::Integer((key.to_string().len() + 1004) as i64));
    }
    await_field(&mut client, "aof_rewrite_in_progress", "0");
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok", "{}", server.log());
    let reads = number(&mut client, "storage_reads") - reads;
    assert!(reads < (KEYS / CHANGED * 3) as u64, "{reads} reads for {} changes and a base", KEYS / CHANGED);
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(KEYS as i64));
    for key in (0..KEYS).step_by(997).chain((0..KEYS).step_by(CHANGED)) {
        let more = if key % CHANGED == 0 { "more" } else { "" };
        assert_eq!(client.line(&format!("GET key:{key}")), Value::Bulk(format!("{key}{value}{more}").into_bytes()));
    }
}

/// What was in memory when the last base was written is there soon behind a start, before a client asks for it.
#[test]
fn what_was_in_memory_is_read_ahead_behind_a_start() {
    const KEYS: usize = 24_000;
    const WARM: usize = 12;
    let flags = ["--storage-dir", "{dir}/s", "--maxmemory", "64mb", "--enable-debug-command", "yes"];
    let mut server = start(&[&flags[..], &["--auto-aof-rewrite-percentage", "0"]].concat());
    let mut client = server.client();
    let value = "v".repeat(200);
    let commands: Vec<Vec<String>> =
        (0..KEYS).map(|key| vec!["SET".to_owned(), format!("key:{key}"), format!("{key}{value}")]).collect();
    for commands in commands.chunks(500) {
        assert!(client.pipeline(commands).unwrap().iter().all(|reply| *reply == Value::ok()));
    }
    assert!(server.make_cold());
    let read_warm = |client: &mut Client| {
        let commands: Vec<Vec<String>> = (0..KEYS).step_by(WARM).map(|key| vec!["GET".to_owned(), format!("key:{key}")]).collect();
        for commands in commands.chunks(100) {
            assert!(client.pipeline(commands).unwrap().iter().all(|reply| matches!(reply, Value::Bulk(_))));
        }
    };
    (0..6).for_each(|_| read_warm(&mut client));
    let cached = number(&mut client, "storage_cached_records");
    assert!(cached >= (KEYS / WARM * 9 / 10) as u64, "{cached} copies");
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    await_field(&mut client, "aof_rewrites", "1");
    await_field(&mut client, "aof_rewrite_in_progress", "0");
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert!(server.log().contains("keys of storage-dir that were in memory are read in the background"), "{}", server.log());
    await_field(&mut client, "storage_read_ahead_left", "0");
    // The last ones are on their way.
    let began = Instant::now();
    while number(&mut client, "storage_cached_records") < cached * 9 / 10 {
        assert!(began.elapsed() < PATIENCE, "{} of {cached}", number(&mut client, "storage_cached_records"));
    }
    let reads = number(&mut client, "storage_reads");
    read_warm(&mut client);
    let reads = number(&mut client, "storage_reads") - reads;
    assert!(reads < cached / 5, "{reads} reads for {} keys", KEYS / WARM);
}

/// Space on the device that is dead comes back while no client writes, with one base: neither the growth of the log nor a quarter
/// of what `storage-dir` may hold asks for that one.
#[test]
fn an_idle_server_gives_space_back() {
    const KEYS: usize = 24_000;
    const LENGTH: usize = 4_000;
    const BEGUN: &str = "of the storage are kept for the one before";
    let flags = ["--storage-dir", "{dir}/s", "--maxmemory", "64mb", "--storage-dir-size", "4gb", "--storage-garbage-max", "10"];
    let server = start(&[&flags[..], &["--auto-aof-rewrite-percentage", "0"]].concat());
    let mut client = server.client();
    let write = |client: &mut Client, keys: std::ops::Range<usize>| {
        let set = |key| vec!["SET".to_owned(), format!("key:{}", key % KEYS), format!("{key:LENGTH$}")];
        let commands: Vec<_> = keys.map(set).collect();
        assert!(client.pipeline(&commands).unwrap().iter().all(|reply| *reply == Value::ok()));
    };
    (0..KEYS).step_by(200).for_each(|first| write(&mut client, first..first + 200));
    assert_eq!(client.line("BGREWRITEAOF"), simple(STARTED));
    await_field(&mut client, "aof_rewrites", "1");
    // As much as is worth a base, and less than one has, so that none is begun beside a client.
    let mut next = KEYS;
    while number(&mut client, "storage_retained_bytes") < 24 << 20 {
        write(&mut client, next..next + 200);
        next += 200;
    }
    assert!(number(&mut client, "aof_base_size") > 40 << 20, "{}", number(&mut client, "aof_base_size"));
    assert!(!server.log().contains(BEGUN), "{}", server.log());
    // It would be awake for questions.
    let began = Instant::now();
    while !server.log().contains(BEGUN) {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        thread::sleep(Duration::from_millis(50));
    }
    await_field(&mut client, "aof_rewrites", "2");
    let (device, live) = (number(&mut client, "storage_device_bytes"), number(&mut client, "storage_live_bytes"));
    let retained = number(&mut client, "storage_retained_bytes");
    assert!(retained <= 16 << 20 && device <= live * 10 / 9 + retained + (8 << 20), "{device} bytes, {live} live, {retained} kept");
    // It looks again for each of these.
    for round in 0..20 {
        assert_eq!(client.line(&format!("CONFIG SET auto-aof-rewrite-min-size {}mb", 64 + round)), Value::ok());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((number(&mut client, "aof_rewrites"), server.log().matches(BEGUN).count()), (2, 1), "{}", server.log());
}
