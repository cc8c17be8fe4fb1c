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

/// Bytes of units in the log, when all of them are in its files.
fn payload(client: &mut Client) -> u64 {
    assert_eq!(client.line("COMMITAOF"), Value::Simple(b"AOF file committed".to_vec()));
    let Value::Bulk(text) = client.line("INFO storage") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| line.strip_prefix("oplog_payload_bytes:")).unwrap().parse().unwrap()
}

/// Twice as many changes take twice as many bytes of the log, by LOAD, DELETE and RESTORE.
#[test]
fn the_log_has_of_a_change_what_has_changed() {
    for way in ["load", "delete", "restore"] {
        let [few, many] = [100, 200].map(|count| {
            let server = start(&[]);
            let mut client = server.client();
            let before = payload(&mut client);
            (0..count).for_each(|number| load(&mut client, &format!("l{number:03}"), number));
            let loaded = payload(&mut client);
            match way {
                "load" => return loaded - before,
                "delete" => (0..count).for_each(|it| assert_eq!(client.line(&format!("FUNCTION DELETE l{it:03}")), Value::ok())),
                _ => {
                    let Value::Bulk(one) = dump_of(&library("again", 1)) else { panic!("no payload") };
                    for _ in 0..count {
                        let restored = client.call(&[&b"FUNCTION"[..], b"RESTORE", &one, b"REPLACE"]).unwrap();
                        assert_eq!(restored, Value::ok());
                    }
                }
            }
            payload(&mut client) - loaded
        });
        // The heads of slices and the length of numbers are not the same for all.
        assert!(few > 0 && many * 10 <= few * 21, "{way}: {few} bytes, {many} for twice as many");
    }
}

fn dump_of(library: &str) -> Value {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    assert!(!client.call(&["FUNCTION", "LOAD", library]).unwrap().is_error());
    client.line("FUNCTION DUMP")
}

/// Clients that change libraries at once: what they were told is there after a kill, a rewrite meanwhile or not.
#[test]
fn changes_of_several_clients_are_kept() {
    let mut server = start(&["--workers", "2"]);
    for round in 0..6 {
        let address = server.address();
        let clients: Vec<_> = (0..4)
            .map(|client| {
                std::thread::spawn(move || {
                    let mut connection = Client::connect(address).unwrap();
                    for number in 0..20 {
                        let name = format!("c{client}_{}", number % 5);
                        load(&mut connection, &name, round * 100 + number);
                        if number % 4 == 3 {
                            assert_eq!(connection.line(&format!("FUNCTION DELETE {name}")), Value::ok());
                        }
                    }
                })
            })
            .collect();
        if round % 2 == 1 {
            rewrite(&mut server.client());
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        let before = server.client().line("FUNCTION LIST WITHCODE");
        server.kill();
        server.start_again();
        assert_eq!(server.client().line("FUNCTION LIST WITHCODE"), before, "{}", server.log());
    }
}

/// Redis takes names in quotes.
#[test]
fn a_library_whose_name_is_quoted_is_kept() {
    let mut server = start(&["--save", ""]);
    let code = "#!lua name=\"quoted\"\nredis.register_function('f', function() return 5 end)";
    for command in [
        &["FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('g', function() return 1 end)"][..],
        &["FUNCTION", "LOAD", code],
    ] {
        assert!(!server.client().call(command).unwrap().is_error());
    }
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("FCALL f 0"), Value::Integer(5), "{}", server.log());
    assert_eq!(server.client().line("FUNCTION DELETE quoted"), Value::ok());
    server.kill();
    server.start_again();
    assert!(server.client().line("FCALL f 0").is_error());
    assert!(!server.client().call(&["FUNCTION", "LOAD", code]).unwrap().is_error());
    assert_eq!(server.client().line("SAVE"), Value::ok());
    server.kill();
    server.start_again_with(&["--appendonly", "no"]);
    assert_eq!(server.client().line("FCALL f 0"), Value::Integer(5), "{}", server.log());
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
