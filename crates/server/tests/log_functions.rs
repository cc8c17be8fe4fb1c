//! Libraries of functions in the log: each change is there after a kill, before and behind a rewrite, and from a snapshot at the
//! first start.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[&["--appendonly", "yes", "--ring-dir", "{dir}"], flags].concat())
}

fn library(name: &str, answer: u32) -> String {
    format!("#!lua name={name}\nredis.register_function('f_{name}', function(keys, args) return {answer} end)")
}

fn load(client: &mut Client, name: &str, answer: u32) {
    let loaded = client.call(&["FUNCTION", "LOAD", "REPLACE", &library(name, answer)]).unwrap();
    assert_eq!(loaded, Value::Bulk(name.as_bytes().to_vec()));
}

fn answer(client: &mut Client, name: &str) -> Value {
    client.line(&format!("FCALL f_{name} 0"))
}

fn rewrite(client: &mut Client) {
    assert!(!client.line("BGREWRITEAOF").is_error());
    let began = Instant::now();
    while client
        .line("INFO persistence")
        .bytes()
        .is_some_and(|text| !text.windows(27).any(|it| it == b"aof_rewrite_in_progress:0\r\n"))
    {
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn libraries_are_kept_by_the_log_and_by_its_bases() {
    let mut server = start(&[]);
    for rewrites in [false, true] {
        let mut client = server.client();
        for (name, number) in [("one", 1), ("two", 2), ("three", 3), ("one", 11)] {
            load(&mut client, name, number);
        }
        assert_eq!(client.line("FUNCTION DELETE two"), Value::ok());
        if rewrites {
            rewrite(&mut client);
            load(&mut client, "four", 4);
        }
        for _ in 0..2 {
            server.kill();
            server.start_again();
            client = server.client();
            assert_eq!(answer(&mut client, "one"), Value::Integer(11), "{}", server.log());
            assert_eq!(answer(&mut client, "three"), Value::Integer(3));
            assert!(answer(&mut client, "two").is_error());
            assert_eq!(answer(&mut client, "four").is_error(), !rewrites);
        }
        let Value::Bulk(payload) = client.line("FUNCTION DUMP") else { panic!("no payload") };
        assert_eq!(client.line("FUNCTION FLUSH"), Value::ok());
        server.kill();
        server.start_again();
        client = server.client();
        assert!(answer(&mut client, "one").is_error(), "{}", server.log());
        assert_eq!(client.call(&[&b"FUNCTION"[..], b"RESTORE", &payload]).unwrap(), Value::ok());
        // In a transaction with a key: both or neither.
        for command in ["MULTI", "FUNCTION DELETE three", "SET with:it 1", "EXEC"] {
            assert!(!client.line(command).is_error());
        }
        server.kill();
        server.start_again();
        client = server.client();
        assert_eq!(answer(&mut client, "one"), Value::Integer(11), "{}", server.log());
        assert!(answer(&mut client, "three").is_error());
        assert_eq!(client.line("EXISTS with:it"), Value::Integer(1));
    }
}

#[test]
fn a_log_begins_with_the_libraries_of_the_snapshot() {
    let mut server = Server::start(&Program::Almandine, &["--ring-dir", "{dir}"]);
    let mut client = server.client();
    load(&mut client, "saved", 7);
    assert_eq!(client.line("SAVE"), Value::ok());
    server.kill();
    server.start_again_with(&["--appendonly", "yes"]);
    assert_eq!(answer(&mut server.client(), "saved"), Value::Integer(7), "{}", server.log());
    server.kill();
    server.start_again();
    assert_eq!(answer(&mut server.client(), "saved"), Value::Integer(7), "{}", server.log());
}
