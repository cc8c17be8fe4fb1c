//! Kill -9 in the modes of the log: what was acknowledged is there after the restart.
//!
//! With `ALMANDINE_GOLDEN_SERVER=redis` the proof runs against redis-server.

use std::time::{Duration, Instant};
use std::{fs, thread};

use almandine_testkit::crash::{Plan, prove};
use almandine_testkit::{Client, Program, Server, Value, full, mutants, seed};

fn program() -> Program {
    match std::env::var("ALMANDINE_GOLDEN_SERVER").as_deref() {
        Ok("redis") => Program::Redis,
        _ => Program::Almandine,
    }
}

fn survives(flags: &[&str], rings: &[&str]) {
    survives_beside(flags, rings, None);
}

/// As [`survives`], while the log gets new bases again and again, which take their time.
fn survives_rewrites(mode: &str, rings: &str) {
    let flags = ["--appendonly", "yes", "--appendfsync", mode, "--rdb-key-save-delay", "300"];
    survives_beside(&flags, &["--ring-dir", rings], Some("BGREWRITEAOF"));
}

fn survives_beside(flags: &[&str], rings: &[&str], beside: Option<&str>) {
    let program = program();
    let rounds = if full() { 200 } else { 8 };
    // Rings end with the server's directory, and the machine's memory is not filled by servers that are killed.
    let rings: &[&str] = if program == Program::Redis { &[] } else { rings };
    let flags = &[flags, rings].concat()[..];
    let mut acknowledged = 0;
    // On a busy machine little is done in a short life.
    for seed in seed()..seed() + 5 {
        match prove(Plan { beside, ..Plan::of(&program, flags, rounds, seed) }) {
            Ok(seen) => {
                println!("{flags:?}: {seen:?}");
                acknowledged += seen.acknowledged;
            }
            Err(report) => panic!("{flags:?}, seed {seed}: {report}"),
        }
        if acknowledged > 1_000 {
            return;
        }
    }
    panic!("{flags:?}: the proof has seen too little: {acknowledged} acknowledged commands");
}

/// INV-OPLOG-1.
#[test]
fn what_is_acknowledged_after_the_sync_survives_kills() {
    survives(&["--appendonly", "yes", "--appendfsync", "always"], &["--ring-dir", "{dir}"]);
}

#[test]
fn what_is_acknowledged_survives_kills_with_a_sync_each_second() {
    survives(&["--appendonly", "yes", "--appendfsync", "everysec"], &["--ring-dir", "{dir}"]);
}

#[test]
fn what_is_acknowledged_survives_kills_without_a_sync() {
    survives(&["--appendonly", "yes", "--appendfsync", "no"], &["--ring-dir", "{dir}"]);
}

#[test]
fn what_is_acknowledged_survives_kills_where_rings_do_not() {
    survives(&["--appendonly", "yes", "--appendfsync", "everysec"], &["--ring-dir", "none"]);
}

/// As in a container.
#[test]
fn what_is_acknowledged_survives_kills_while_the_log_is_rewritten_and_rings_lie_with_it() {
    survives_rewrites("everysec", "log");
}

#[test]
fn what_is_acknowledged_after_the_sync_survives_kills_while_the_log_is_rewritten() {
    survives_rewrites("always", "{dir}");
}

#[test]
fn what_is_acknowledged_survives_kills_while_the_log_is_rewritten_with_a_sync_each_second() {
    survives_rewrites("everysec", "{dir}");
}

#[test]
fn what_is_acknowledged_survives_kills_while_the_log_is_rewritten_without_a_sync() {
    survives_rewrites("no", "{dir}");
}

#[test]
fn what_is_acknowledged_survives_kills_while_the_log_is_rewritten_and_rings_do_not() {
    survives_rewrites("everysec", "none");
}

/// INV-RETAIN-1: data leaves memory all the time, and bases name where it lies.
#[test]
fn what_is_acknowledged_survives_kills_while_data_lies_on_a_device() {
    let device = ["--storage-dir", "{dir}/pages", "--maxmemory", "16mb", "--storage-garbage-max", "10"];
    let flags = [&["--appendonly", "yes", "--enable-debug-command", "yes"][..], &device].concat();
    survives_beside(&flags, &["--ring-dir", "{dir}"], Some("DEBUG STORAGE EVICT|BGREWRITEAOF|DEBUG STORAGE EVICT"));
}

/// INV-BASE-1: where a base is named before the log is durable to the end of its walk, something is lost, or the server does not
/// start again. How soon depends on the moments of the kills.
#[test]
fn a_base_that_is_named_too_early_is_noticed() {
    let flags = ["--appendonly", "yes", "--rdb-key-save-delay", "30", "--ring-dir", "{dir}"];
    let plan =
        Plan { mutant: Some("SyncThrough"), beside: Some("BGREWRITEAOF"), ..Plan::of(&Program::Mutants, &flags, 1000, seed()) };
    match std::panic::catch_unwind(|| prove(plan)) {
        Ok(Ok(seen)) => panic!("SyncThrough was not noticed: {seen:?}"),
        Ok(Err(report)) => println!("SyncThrough: {}", report.lines().next().unwrap_or_default()),
        Err(_) => println!("SyncThrough: the server does not start again"),
    }
}

/// Begins to rewrite the log, and waits until the walk has begun: there is a further base then.
fn begin_rewrite(server: &Server, client: &mut Client) {
    let bases = || {
        let names = fs::read_dir(server.directory().join("appendonlydir")).expect("the log's directory");
        names.filter_map(Result::ok).filter(|entry| entry.file_name().to_string_lossy().starts_with("base-")).count()
    };
    let (before, ends) = (bases(), Instant::now() + Duration::from_secs(60));
    client.line("BGREWRITEAOF");
    while bases() == before {
        assert!(Instant::now() < ends, "{}", server.log());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Lists grow all the time while the base is made: each element is in the base or behind it, not in both.
fn has_each_element_once(server: &mut Server) -> Result<(), String> {
    const LISTS: usize = 100;
    let mut client = server.client();
    let push: Vec<Vec<String>> = (0..LISTS).map(|list| vec!["RPUSH".into(), format!("list:{list}"), "element".into()]).collect();
    let (mut pushed, ends) = (0, Instant::now() + Duration::from_secs(60));
    let mut grow = |client: &mut Client| {
        pushed += 1;
        assert!(client.pipeline(&push).expect("replies").iter().all(|reply| *reply == Value::Integer(pushed)));
    };
    grow(&mut client);
    begin_rewrite(server, &mut client);
    while client.line("INFO persistence").to_string().contains("aof_rewrite_in_progress:1") {
        thread::sleep(Duration::from_millis(5));
        assert!(Instant::now() < ends, "{}", server.log());
        grow(&mut client);
    }
    server.kill();
    server.start_again();
    let mut client = server.client();
    let wrong = (0..LISTS).filter(|list| client.line(&format!("LLEN list:{list}")) != Value::Integer(pushed)).count();
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} lists have not their {pushed} elements")) }
}

#[test]
fn what_a_base_has_is_not_done_again() {
    let mut server = Server::start(&Program::Almandine, SLOW);
    has_each_element_once(&mut server).unwrap();
}

/// INV-BASE-1: nor where the base does not say what it has.
#[test]
fn a_base_that_says_not_what_it_has_is_noticed() {
    assert!(has_each_element_once(&mut mutants::start("FloorAtCut", SLOW)).is_err(), "FloorAtCut is not noticed");
}

/// A database is emptied twice while the base is made, and has keys of its last contents in the base.
fn keeps_what_came_behind_a_flush(server: &mut Server) -> Result<(), String> {
    let mut client = server.client();
    let set = |client: &mut Client, keys: usize| {
        let commands: Vec<Vec<String>> = (0..keys).map(|key| vec!["SET".into(), format!("key:{key}"), "value".into()]).collect();
        assert!(client.pipeline(&commands).expect("replies").iter().all(|reply| *reply == Value::ok()));
    };
    set(&mut client, 500);
    begin_rewrite(server, &mut client);
    client.line("SELECT 1");
    for _ in 0..2 {
        client.line("SET before 1");
        client.line("FLUSHDB");
    }
    set(&mut client, 500);
    let ends = Instant::now() + Duration::from_secs(60);
    while client.line("INFO persistence").to_string().contains("aof_rewrite_in_progress:1") {
        assert!(Instant::now() < ends, "{}", server.log());
        // What is waited for stands behind the workers, which this keeps busy.
        thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    server.start_again();
    let mut client = server.client();
    client.line("SELECT 1");
    match client.line("DBSIZE") {
        Value::Integer(500) => Ok(()),
        keys => Err(format!("of 500 keys {keys} are there")),
    }
}

const SLOW: &[&str] = &["--appendonly", "yes", "--rdb-key-save-delay", "2000", "--ring-dir", "{dir}"];

#[test]
fn what_comes_behind_a_flush_is_kept_by_a_rewrite() {
    let mut server = Server::start(&Program::Almandine, SLOW);
    keeps_what_came_behind_a_flush(&mut server).unwrap();
}

#[test]
fn a_start_that_empties_databases_again_is_noticed() {
    assert!(keeps_what_came_behind_a_flush(&mut mutants::start("SkipMapped", SLOW)).is_err(), "SkipMapped is not noticed");
}

/// The proof notices what it is for.
#[test]
fn a_server_without_a_log_is_noticed() {
    let program = program();
    let report = prove(Plan { clients: 2, ..Plan::of(&program, &[], 2, seed()) });
    assert!(report.is_err_and(|report| report.contains("no number between")), "a server that loses everything passes");
}
