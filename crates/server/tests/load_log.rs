//! DEBUG LOADAOF: what the files of the log have takes the place of the data, or nothing changes.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

mod contents;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use almandine_testkit::{Client, Program, Server, Value};

use contents::{assert_equal, contents, fill};

fn start(flags: &[&str]) -> Server {
    let own = ["--ring-dir", "{dir}", "--save", "", "--enable-debug-command", "yes", "--object-encoding-names", "7.0"];
    Server::start(&Program::Almandine, &[&own, flags].concat())
}

fn ok(client: &mut Client, line: &str) {
    assert_eq!(client.line(line), Value::ok(), "{line}");
}

fn await_info(client: &mut Client, field: &str, value: &str) {
    let has = format!("{field}:{value}\r\n");
    loop {
        let Value::Bulk(text) = client.line("INFO persistence") else { continue };
        if String::from_utf8(text).unwrap().contains(&has) {
            return;
        }
    }
}

fn refused(client: &mut Client) {
    let reply = client.line("DEBUG LOADAOF");
    assert!(reply.to_string().contains("Error trying to load the AOF files"), "{reply}");
}

/// All types, times, functions, tags and two databases; then the log goes on with them.
#[test]
fn what_was_logged_is_there_again() {
    for fsync in ["everysec", "always"] {
        let mut server = start(&["--appendonly", "yes", "--appendfsync", fsync]);
        let mut client = server.client();
        let library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)";
        assert_eq!(client.call(&["FUNCTION", "LOAD", library]).unwrap(), Value::Bulk("lib".into()));
        ok(&mut client, "SET before-base 1");
        assert!(!client.line("BGREWRITEAOF").is_error());
        await_info(&mut client, "aof_rewrite_in_progress", "0");
        fill(&mut client);
        for line in ["SWAPDB 5 6", "SWAPDB 5 6", "SET gone 1 PX 1", "DEL before-base"] {
            client.line(line);
        }
        while client.line("EXISTS gone") != Value::Integer(0) {}
        let expected = contents(&mut client);
        for _ in 0..2 {
            ok(&mut client, "DEBUG LOADAOF");
            assert_equal(&contents(&mut client), &expected);
        }
        assert_eq!(client.line("FCALL f 1 called"), Value::Integer(1));
        server.kill();
        server.start_again();
        let mut client = server.client();
        await_info(&mut client, "loading", "0");
        assert_eq!(client.line("GETDEL called"), Value::Bulk("1".into()));
        assert_equal(&contents(&mut client), &expected);
    }
}

/// Without a log it is what BGREWRITEAOF has written.
#[test]
fn without_a_log_it_is_what_was_rewritten() {
    let server = start(&[]);
    let mut client = server.client();
    ok(&mut client, "SET k 1");
    refused(&mut client);
    assert_eq!(client.line("GET k"), Value::Bulk("1".into()), "it stays");
    fill(&mut client);
    assert!(!client.line("BGREWRITEAOF").is_error());
    await_info(&mut client, "aof_rewrite_in_progress", "0");
    let expected = contents(&mut client);
    ok(&mut client, "SET k 2");
    ok(&mut client, "SET behind 1");
    ok(&mut client, "DEBUG LOADAOF");
    assert_equal(&contents(&mut client), &expected);
    for line in ["MULTI", "DEBUG LOADAOF"] {
        client.line(line);
    }
    assert!(client.line("EXEC").to_string().contains("not allowed in a transaction"));
}

/// Files that cannot be read change nothing.
#[test]
fn what_is_damaged_leaves_the_data_alone() {
    let server = start(&["--appendonly", "yes"]);
    let mut client = server.client();
    for key in 0..100 {
        ok(&mut client, &format!("SET key:{key} {key}"));
    }
    assert!(!client.line("BGREWRITEAOF").is_error());
    await_info(&mut client, "aof_rewrite_in_progress", "0");
    let base = server.directory().join("appendonlydir/base-00000002.0");
    let whole = fs::read(&base).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&base, damaged).unwrap();
    refused(&mut client);
    assert!(server.log().contains("base-00000002.0"), "{}", server.log());
    fs::remove_file(&base).unwrap();
    refused(&mut client);
    assert_eq!(client.line("DBSIZE"), Value::Integer(100));
    fs::write(&base, whole).unwrap();
    ok(&mut client, "DEBUG LOADAOF");
    assert_eq!(client.line("DBSIZE"), Value::Integer(100));
    assert_eq!(client.line("GET key:7"), Value::Bulk("7".into()));
}

/// What clients do at that moment is not lost: it is in the log, or is answered with an error.
#[test]
fn nothing_that_is_acknowledged_meanwhile_is_lost() {
    let server = start(&["--appendonly", "yes", "--workers", "2"]);
    let (done, mut client) = (AtomicBool::new(false), server.client());
    let acknowledged = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (done, mut client) = (&done, server.client());
                scope.spawn(move || {
                    let (key, mut count) = (format!("count:{writer}"), 0);
                    let commands = vec![vec!["INCR".to_owned(), key]; 16];
                    while !done.load(Relaxed) {
                        let replies = client.pipeline(&commands).unwrap();
                        count += replies.iter().filter(|reply| reply.integer().is_some()).count();
                    }
                    count
                })
            })
            .collect();
        for _ in 0..20 {
            ok(&mut client, "DEBUG LOADAOF");
        }
        done.store(true, Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    for (writer, count) in acknowledged.into_iter().enumerate() {
        assert_eq!(client.line(&format!("GET count:{writer}")), Value::Bulk(count.to_string().into()));
    }
}
