//! What is there, and what a start says of it, in each state of a log.

use super::writers::Writer;
use super::*;

/// Writes what does not fit memory, some of it again, so that pages are given up.
fn fill(client: &mut Client, round: u32) {
    let mut writers = Writer::all(9_000);
    for writer in &mut writers {
        writer.keys.iter_mut().for_each(|key| key.1 = round);
        writer.load(client);
    }
    client.line("SELECT 0");
}

#[test]
fn a_log_that_has_ended_is_not_taken_for_what_lies_there() {
    let mut server = start(&["--appendonly", "yes"]);
    let mut client = server.client();
    (0..2).for_each(|round| fill(&mut client, round));
    client.line("BGREWRITEAOF");
    await_base(&mut client);
    let label = labels(&server);
    assert!(label.iter().all(|label| label.starts_with("log ")), "{label:?}");
    set(&mut client, "appendonly no");
    assert_eq!((labels(&server), number(&mut client, "storage_retained_bytes")), (["whole".into(), "whole".into()], 0));
    (2..4).for_each(|round| fill(&mut client, round));
    assert_eq!(number(&mut client, "storage_retained_bytes"), 0, "as without a log");
    server.kill();
    // What it needs may have been given up: it is not served, and no start without it makes it good.
    let refused = refusal(&server, &["--appendonly", "yes"]);
    assert!(refused.contains("holds nothing of") && refused.contains("appenddirname"), "{refused}");
    server.start_again_with(&["--appendonly", "no"]);
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(0));
    server.kill();
    let refused = refusal(&server, &["--appendonly", "yes"]);
    assert!(refused.contains("holds nothing of"), "{refused}");
    // What a server without a log writes there is a log's when that has its base.
    server.start_again_with(&["--appendonly", "no"]);
    let mut client = server.client();
    fill(&mut client, 7);
    let keys = client.line("DBSIZE");
    turn_on(&mut client);
    assert_ne!(labels(&server), label, "another log");
    server.kill();
    let refused = refusal(&server, &["--appendonly", "no"]);
    assert!(refused.contains("which would be deleted"), "{refused}");
    server.start_again_with(&["--appendonly", "yes"]);
    assert!(client_has(&server, keys.integer().unwrap()), "{}", server.log());
}

/// But for what has expired meanwhile.
fn client_has(server: &Server, keys: i64) -> bool {
    let found = server.client().line("DBSIZE").integer().unwrap();
    (keys * 9 / 10..=keys).contains(&found)
}

/// A start finds what says that the storage belongs to the log, and the base that says so of the log, in each order.
#[test]
fn label_and_base_may_be_a_crash_apart() {
    let mut server = start(&[]);
    let mut client = server.client();
    fill(&mut client, 0);
    turn_on(&mut client);
    let (keys, [label, _]) = (client.line("DBSIZE").integer().unwrap(), labels(&server));
    server.kill();
    for (begun, is_named) in [(1, true), (1_000, false)] {
        relabel(&server, &format!("begins at base {begun} of {label}"));
        if is_named {
            let refused = refusal(&server, &["--appendonly", "no"]);
            assert!(refused.contains("which would be deleted"), "the base is named: {refused}");
            server.start_again_with(&["--appendonly", "yes"]);
            assert!(client_has(&server, keys), "{}", server.log());
            assert_eq!(labels(&server), [label.clone(), label.clone()], "it goes on as any other");
            server.kill();
        } else {
            let refused = refusal(&server, &["--appendonly", "yes"]);
            assert!(refused.contains("holds nothing of"), "the base that is named is an older one: {refused}");
            server.start_again_with(&["--appendonly", "no"]);
            assert_eq!(server.client().line("DBSIZE"), Value::Integer(0), "what no base names is deleted");
        }
    }
}

/// What a base that fails has kept goes back, and it is tried again until it is written.
#[test]
fn a_first_base_that_fails_keeps_nothing_and_is_tried_again() {
    let server = start(&[]);
    let mut client = server.client();
    let log = server.directory().join("appendonlydir");
    fs::write(&log, "no directory").unwrap();
    assert!(client.line("CONFIG SET appendonly yes").is_error());
    assert_eq!(
        (info(&mut client, "aof_enabled"), client.line("CONFIG GET appendonly").to_string().contains("no")),
        ("0".into(), true)
    );
    fs::remove_file(&log).unwrap();
    fill(&mut client, 0);
    set(&mut client, "rdb-key-save-delay 1000");
    set(&mut client, "appendonly yes");
    // Where the first bases would be.
    let in_the_way = (1..200).map(|number| log.join(format!("base-{number:08}.1"))).collect::<Vec<_>>();
    in_the_way.iter().for_each(|path| fs::create_dir(path).unwrap());
    set(&mut client, "rdb-key-save-delay 0");
    let began = Instant::now();
    while info(&mut client, "aof_last_bgrewrite_status") != "err" {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    fill(&mut client, 1);
    assert_eq!(labels(&server), ["whole", "whole"]);
    // But for a try that is under way.
    while number(&mut client, "storage_retained_bytes") != 0 {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
    in_the_way.iter().for_each(|path| drop(fs::remove_dir(path)));
    while info(&mut client, "aof_last_bgrewrite_status") != "ok" {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    assert!(labels(&server).iter().all(|label| label.starts_with("log ")));
}

/// The first base names what lies on a device that is full, and needs no room there.
#[test]
fn a_log_begins_on_a_full_device_and_on_several_directories() {
    let directories = ["--storage-dir", "{dir}/one {dir}/two", "--storage-dir-size", "48mb"];
    let mut server = start(&directories);
    let mut client = server.client();
    let value = "v".repeat(4_000);
    let written = (0..).take_while(|key| !client.call(&["SET", &format!("key:{key}"), &value]).unwrap().is_error()).count();
    assert!(written > 10_000, "{written}");
    let keys = client.line("DBSIZE");
    turn_on(&mut client);
    server.kill();
    server.start_again_with(&["--appendonly", "yes"]);
    let mut client = server.client();
    assert_eq!(client.line("DBSIZE"), keys);
    for key in 0..written {
        assert_eq!(client.call(&["GET", &format!("key:{key}")]).unwrap(), Value::Bulk(value.clone().into_bytes()), "{key}");
    }
}

/// A second CONFIG SET while the first base is written, and one that gives that up.
#[test]
fn it_is_turned_on_again_and_off_while_the_first_base_is_written() {
    let mut server = start(&[]);
    let mut client = server.client();
    fill(&mut client, 0);
    set(&mut client, "rdb-key-save-delay 10000");
    set(&mut client, "appendonly yes");
    set(&mut client, "appendonly yes");
    assert_eq!(info(&mut client, "aof_rewrite_in_progress"), "1");
    fill(&mut client, 1);
    set(&mut client, "appendonly no");
    let began = Instant::now();
    while info(&mut client, "aof_rewrite_in_progress") != "0" || info(&mut client, "storage_retained_bytes") != "0" {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(labels(&server), ["whole", "whole"]);
    set(&mut client, "appendonly yes");
    set(&mut client, "appendonly no");
    set(&mut client, "appendonly yes");
    server.kill();
    // No base was named: there is nothing to begin with, and nothing is kept.
    server.start_again_with(&["--appendonly", "yes"]);
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(0), "{}", server.log());
}
