//! BGREWRITEAOF without a log, and beside one with `aof-format redis`: an append-only file that redis-server starts from, that
//! never takes the place of what is younger, and of no file that another server has written.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

mod contents;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use almandine_testkit::{Client, Program, Server, Value};

use contents::{assert_equal, contents, fill};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-export-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("appendonlydir")).unwrap();
        Self(path)
    }

    fn files(&self) -> PathBuf {
        self.0.join("appendonlydir")
    }

    /// A server on it.
    fn start(&self, program: &Program, flags: &[&str]) -> Server {
        let path = self.0.to_str().unwrap();
        let of_ours = ["--ring-dir", path, "--object-encoding-names", "7.0"];
        let ours: &[&str] = if matches!(program, Program::Redis) { &[] } else { &of_ours };
        let server = Server::start(program, &[&["--dir", path, "--save", ""], ours, flags].concat());
        await_info(&mut server.client(), "loading", "0");
        server
    }

    fn ours(&self, appendonly: &str) -> Server {
        self.start(&Program::Almandine, &["--appendonly", appendonly])
    }

    /// The same files in another directory.
    fn copy(&self, name: &str) -> Self {
        let copy = Self::new(name);
        for entry in fs::read_dir(self.files()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.files().join(path.file_name().unwrap())).unwrap();
        }
        copy
    }

    /// Those of Redis' form.
    fn of_redis(&self) -> BTreeMap<String, Vec<u8>> {
        let names = fs::read_dir(self.files()).unwrap().map(|entry| entry.unwrap().path());
        let of_redis = names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("appendonly"));
        of_redis.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn await_info(client: &mut Client, field: &str, value: &str) {
    let has = format!("{field}:{value}\r\n");
    for _ in 0..4000 {
        let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
        if String::from_utf8(text).unwrap().contains(&has) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{field} is not {value}");
}

fn rewrite(client: &mut Client, outcome: &str) {
    assert_eq!(client.line("BGREWRITEAOF"), Value::Simple(b"Background append only file rewriting started".to_vec()));
    await_info(client, "aof_rewrite_in_progress", "0");
    await_info(client, "aof_last_bgrewrite_status", outcome);
}

fn ok(client: &mut Client, line: &str) {
    assert_eq!(client.line(line), Value::ok(), "{line}");
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

fn checked(program: &str, file: &Path) {
    let output = Command::new(program).arg(file).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stdout));
}

/// Every type and encoding, times, functions and two databases, in redis-server and in a log of ours that begins with it.
#[test]
fn redis_starts_from_what_is_written_without_a_log() {
    let directory = Directory::new("formats");
    let mut server = directory.ours("no");
    let mut client = server.client();
    let library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)";
    assert_eq!(client.call(&["FUNCTION", "LOAD", library]).unwrap(), bulk("lib"));
    fill(&mut client);
    rewrite(&mut client, "ok");
    ok(&mut client, "SET behind 1");
    rewrite(&mut client, "ok");
    let expected = contents(&mut client);
    let names: Vec<String> = directory.of_redis().into_keys().collect();
    assert_eq!(names, ["appendonly.aof.2.base.rdb", "appendonly.aof.manifest"]);
    checked("redis-check-rdb", &directory.files().join("appendonly.aof.2.base.rdb"));
    checked("redis-check-aof", &directory.files().join("appendonly.aof.manifest"));
    server.kill();
    for program in [Program::Redis, Program::Almandine] {
        let there = directory.copy(if matches!(program, Program::Redis) { "formats-redis" } else { "formats-ours" });
        let server = there.start(&program, &["--appendonly", "yes"]);
        let mut client = server.client();
        assert_equal(&contents(&mut client), &expected);
        assert_eq!(client.line("FCALL f 1 called"), Value::Integer(1));
    }
    // Where appendonly is no, it is not looked at.
    assert_eq!(directory.ours("no").client().line("DBSIZE"), Value::Integer(0));
}

/// Of it and a snapshot the one that was written behind the other counts, whatever the clock says.
#[test]
fn what_is_younger_counts_at_a_start() {
    for snapshot_is_younger in [true, false] {
        let directory = Directory::new(&format!("younger-{snapshot_is_younger}"));
        let mut server = directory.ours("no");
        let mut client = server.client();
        ok(&mut client, "SAVE");
        ok(&mut client, "SET k old");
        if snapshot_is_younger {
            rewrite(&mut client, "ok");
            ok(&mut client, "SET k young");
            ok(&mut client, "SAVE");
        } else {
            ok(&mut client, "SAVE");
            ok(&mut client, "SET k young");
            rewrite(&mut client, "ok");
        }
        server.kill();
        let files = directory.of_redis();
        let mut server = directory.ours("yes");
        assert_eq!(server.log().contains("the log begins with the snapshot"), snapshot_is_younger, "{}", server.log());
        for value in ["young", "younger", "youngest"] {
            assert_eq!(server.client().line("GET k"), bulk(value));
            ok(&mut server.client(), &format!("SET k {}", if value == "young" { "younger" } else { "youngest" }));
            server.kill();
            server.start_again();
            await_info(&mut server.client(), "loading", "0");
        }
        assert_eq!(directory.of_redis(), files, "they stay");
    }
}

#[test]
fn what_another_server_has_written_is_not_replaced() {
    let directory = Directory::new("foreign");
    fs::write(directory.files().join("appendonly.aof.1.incr.aof"), "").unwrap();
    fs::write(directory.files().join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n").unwrap();
    let files = directory.of_redis();
    let server = directory.ours("no");
    rewrite(&mut server.client(), "err");
    assert!(server.log().contains("that this server has not written"), "{}", server.log());
    assert_eq!(directory.of_redis(), files);
    drop(server);
    // A file alone would not be looked at any more beside a manifest.
    let directory = Directory::new("foreign-alone");
    fs::write(directory.0.join("appendonly.aof"), "").unwrap();
    rewrite(&mut directory.ours("no").client(), "err");
    assert!(directory.of_redis().is_empty());
}

#[test]
fn beside_a_log_it_is_older_and_behind_one_it_is_for_the_operator_to_say() {
    let directory = Directory::new("beside");
    let flags = ["--appendonly", "yes", "--aof-format", "redis"];
    let mut server = directory.start(&Program::Almandine, &flags);
    ok(&mut server.client(), "SET k 1");
    rewrite(&mut server.client(), "ok");
    ok(&mut server.client(), "SET k 2");
    for _ in 0..2 {
        server.kill();
        server.start_again();
        await_info(&mut server.client(), "loading", "0");
        assert_eq!(server.client().line("GET k"), bulk("2"));
        rewrite(&mut server.client(), "ok");
    }
    let copy = directory.copy("beside-redis");
    assert_eq!(copy.start(&Program::Redis, &["--appendonly", "yes"]).client().line("GET k"), bulk("2"));
    // The log ends, and the file is younger from then on.
    let mut client = server.client();
    ok(&mut client, "CONFIG SET appendonly no");
    ok(&mut client, "SET k 3");
    rewrite(&mut client, "ok");
    server.kill();
    let refused = Server::try_start(&Program::Almandine, &[&["--dir", directory.0.to_str().unwrap()], &flags[..]].concat(), &[]);
    let refused = refused.err().unwrap_or_else(|| panic!("it has started"));
    assert!(refused.contains("Which of both counts is not known"), "{refused}");
}

/// A log that begins in a server that runs counts, and not what was written before.
#[test]
fn a_log_that_begins_later_counts() {
    let directory = Directory::new("later");
    let mut server = directory.ours("no");
    let mut client = server.client();
    for (on, value) in [("yes", "1"), ("no", "2"), ("yes", "3")] {
        ok(&mut client, &format!("SET k {value}"));
        rewrite(&mut client, "ok");
        ok(&mut client, &format!("CONFIG SET appendonly {on}"));
        await_info(&mut client, "aof_rewrite_in_progress", "0");
        await_info(&mut client, "aof_last_bgrewrite_status", "ok");
    }
    ok(&mut client, "SET k 4");
    server.kill();
    let server = directory.ours("yes");
    assert_eq!(server.client().line("GET k"), bulk("4"));
}

/// A rewrite that is given up, here by the end of a log, ends at once and leaves no file.
#[test]
fn one_that_is_given_up_leaves_nothing() {
    let directory = Directory::new("given-up");
    let server = directory.ours("yes");
    let mut client = server.client();
    ok(&mut client, "SET k 1");
    ok(&mut client, "CONFIG SET rdb-key-save-delay 100000000");
    assert!(!client.line("BGREWRITEAOF").is_error());
    ok(&mut client, "CONFIG SET appendonly no");
    await_info(&mut client, "aof_rewrite_in_progress", "0");
    assert!(server.log().contains("Killing running AOF rewrite child"), "{}", server.log());
    ok(&mut client, "CONFIG SET rdb-key-save-delay 0");
    rewrite(&mut client, "ok");
    assert_eq!(directory.of_redis().len(), 2);
}
