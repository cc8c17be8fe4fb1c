//! MEMORY DOCTOR: each advice comes when its problem is there, and no other; a server without problems gets none. The advice about
//! devices is tested in `storage_errors`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

const SOUND: &str = "No memory problem was found.";
/// Bytes of the machine that no limit may exceed.
const MORE_THAN_ANY_MACHINE: &str = "900000gb";

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[&["--workers", "2", "--enable-debug-command", "yes"], flags].concat())
}

fn diagnosis(client: &mut Client) -> String {
    match client.line("MEMORY DOCTOR") {
        Value::Bulk(text) => String::from_utf8(text).expect("a text"),
        other => panic!("{other}"),
    }
}

/// The titles of what is found.
fn titles(client: &mut Client) -> Vec<String> {
    let text = diagnosis(client);
    text.lines().filter_map(|line| Some(line.strip_prefix("* ")?.split_once(':')?.0.to_owned())).collect()
}

/// Waits for the background, which counts memory and frees it.
#[track_caller]
fn eventually(client: &mut Client, wanted: &[&str]) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let found = titles(client);
        if found == wanted {
            return;
        }
        assert!(Instant::now() < end, "{wanted:?} is not what is found: {found:?}\n{}", client.line("INFO memory"));
        sleep(Duration::from_millis(20));
    }
}

fn ok(client: &mut Client, line: &str) {
    assert_eq!(client.line(line), Value::ok(), "{line}");
}

/// Sets keys `from..to` to values of `bytes` bytes. Refusals are answers, too.
fn fill(client: &mut Client, keys: std::ops::Range<usize>, bytes: usize, expiry: &[&str]) {
    let value = "v".repeat(bytes);
    for n in keys.clone().step_by(500) {
        let set = |n: usize| -> Vec<String> {
            let words = ["SET", &format!("key:{n}"), &value];
            words.iter().chain(expiry).map(|word| (*word).to_owned()).collect()
        };
        client.pipeline(&(n..(n + 500).min(keys.end)).map(set).collect::<Vec<_>>()).expect("replies");
    }
}

#[test]
fn a_server_without_problems_is_told_so() {
    let server = start(&["--maxmemory", "1gb"]);
    let mut client = server.client();
    assert!(diagnosis(&mut client).starts_with("This instance is empty or uses very little memory"));
    fill(&mut client, 0..50_000, 200, &[]);
    assert_eq!(diagnosis(&mut client), SOUND);
}

#[test]
fn a_limit_that_is_near_is_told_and_then_refusals() {
    let server = start(&["--maxmemory", "40mb"]);
    let mut client = server.client();
    fill(&mut client, 0..10_000, 2_000, &[]);
    assert_eq!(diagnosis(&mut client), SOUND, "about half");
    ok(&mut client, "CONFIG SET maxmemory 22mb");
    eventually(&mut client, &["Limit"]);
    assert!(diagnosis(&mut client).contains("nine tenths"), "{}", diagnosis(&mut client));
    fill(&mut client, 10_000..20_000, 2_000, &[]);
    eventually(&mut client, &["Limit", "Refusals"]);
    ok(&mut client, "CONFIG RESETSTAT");
    eventually(&mut client, &["Limit"]);
    ok(&mut client, "CONFIG SET maxmemory 10mb");
    eventually(&mut client, &["Limit"]);
    assert!(diagnosis(&mut client).contains("is exceeded"));
}

#[test]
fn a_policy_without_candidates_is_told() {
    let server = start(&["--maxmemory", "40mb", "--maxmemory-policy", "volatile-lru"]);
    let mut client = server.client();
    fill(&mut client, 0..10_000, 2_000, &[]);
    ok(&mut client, "CONFIG SET maxmemory 22mb");
    eventually(&mut client, &["Policy"]);
    fill(&mut client, 0..10_000, 1_900, &["EX", "10000"]);
    eventually(&mut client, &[]);
}

#[test]
fn large_values_within_a_small_limit_are_told() {
    let server = start(&["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    fill(&mut client, 0..40_000, 2_000, &[]);
    eventually(&mut client, &[]);
    fill(&mut client, 0..1_000, 200_000, &[]);
    eventually(&mut client, &["Large values"]);
}

#[test]
fn a_limit_beyond_the_machine_is_told() {
    let server = start(&["--maxmemory", MORE_THAN_ANY_MACHINE]);
    eventually(&mut server.client(), &["Limit"]);
    assert!(diagnosis(&mut server.client()).contains("more than the machine has"));
}

#[test]
fn a_peak_is_told() {
    let server = start(&[]);
    let mut client = server.client();
    ok(&mut client, "DEBUG POPULATE 100000 kept 200");
    ok(&mut client, "SELECT 1");
    ok(&mut client, "DEBUG POPULATE 200000 gone 200");
    assert_eq!(diagnosis(&mut client), SOUND);
    ok(&mut client, "FLUSHDB");
    eventually(&mut client, &["Peak memory"]);
    ok(&mut client, "CONFIG RESETSTAT");
    eventually(&mut client, &[]);
}

#[test]
fn dead_space_is_told() {
    let server = start(&["--compaction-garbage-percent", "99"]);
    let mut client = server.client();
    ok(&mut client, "DEBUG POPULATE 1000000 key 200");
    for first in (0..1_000_000).step_by(1000) {
        let unlink: Vec<[String; 2]> =
            (first..first + 1000).step_by(2).map(|n| ["UNLINK".to_owned(), format!("key:{n}")]).collect();
        client.pipeline(&unlink).expect("replies");
    }
    ok(&mut client, "CONFIG RESETSTAT");
    eventually(&mut client, &["High fragmentation"]);
}

#[test]
fn memory_of_the_process_that_is_not_counted_is_told() {
    let server = start(&["--script-memory-limit", "1gb"]);
    let mut client = server.client();
    // Asked from within, so that the memory is held for certain.
    let script = "local held = {} for n = 1, 40 do held[n] = string.rep(tostring(n % 10), 10000000) end \
                  local text = redis.call('MEMORY', 'DOCTOR') return {#held, text.string or text}";
    let reply = client.call(&["EVAL", script, "0"]).expect("a reply").to_string();
    assert!(reply.contains("* High process RSS overhead: "), "{reply}");
    eventually(&mut client, &[]);
}

#[test]
fn big_buffers_of_clients_are_told() {
    let server = start(&[]);
    let mut client = server.client();
    fill(&mut client, 0..50_000, 200, &[]);
    assert_eq!(diagnosis(&mut client), SOUND);
    let mut transaction = server.client();
    ok(&mut transaction, "MULTI");
    for _ in 0..20 {
        transaction.call(&["SET", "k", &"x".repeat(500_000)]).expect("a reply");
    }
    eventually(&mut client, &["Big client buffers"]);
    ok(&mut transaction, "DISCARD");
    ok(&mut client, "CONFIG RESETSTAT");
    eventually(&mut client, &[]);
}

#[test]
fn many_scripts_are_told() {
    let server = start(&[]);
    let mut client = server.client();
    let load = |n: usize| ["SCRIPT".to_owned(), "LOAD".to_owned(), format!("return {n}")];
    client.pipeline(&(0..1000).map(load).collect::<Vec<_>>()).expect("replies");
    assert_eq!(titles(&mut client), [""; 0]);
    client.call(&load(1000)).expect("a reply");
    assert_eq!(titles(&mut client), ["Many scripts"]);
    ok(&mut client, "SCRIPT FLUSH");
    eventually(&mut client, &[]);
}

#[test]
fn libraries_that_keep_much_are_told() {
    let server = start(&[]);
    let mut client = server.client();
    let library = "#!lua name=big\nlocal kept = {} for n = 1, 10 do kept[n] = string.rep(tostring(n - 1), 1000000) end\n\
                   redis.register_function('f', function() return #kept end)";
    assert!(matches!(client.call(&["FUNCTION", "LOAD", library]).expect("a reply"), Value::Bulk(_)));
    eventually(&mut client, &["Big libraries"]);
    ok(&mut client, "FUNCTION FLUSH");
    eventually(&mut client, &[]);
}

#[test]
fn a_full_table_of_tracked_keys_is_told() {
    let server = start(&["--tracking-table-max-keys", "10"]);
    let (mut client, mut tracking) = (server.client(), server.client());
    tracking.line("HELLO 3");
    ok(&mut tracking, "CLIENT TRACKING ON");
    for n in 0..9 {
        tracking.line(&format!("GET key:{n}"));
    }
    assert_eq!(titles(&mut client), [""; 0]);
    for n in 9..30 {
        tracking.line(&format!("GET key:{n}"));
    }
    eventually(&mut client, &["Full tracking table"]);
}
