//! Rings that lie with the files of their log, as in a container.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use almandine_testkit::{Program, Server, Value};

const FLAGS: &[&str] = &["--appendonly", "yes", "--appendfsync", "no", "--ring-dir", "log", "--save", ""];

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[FLAGS, flags].concat())
}

fn increment(server: &Server, times: usize) {
    let commands: Vec<Vec<String>> = (0..times).map(|key| vec!["INCR".to_owned(), format!("key:{}", key % 100)]).collect();
    let replies = server.client().pipeline(&commands).unwrap();
    assert!(replies.iter().all(|reply| matches!(reply, Value::Integer(_))));
}

fn sum(server: &Server) -> u64 {
    let keys: Vec<Vec<String>> = (0..100).map(|key| vec!["GET".to_owned(), format!("key:{key}")]).collect();
    let value = |reply: &Value| match reply {
        Value::Bulk(digits) => std::str::from_utf8(digits).unwrap().parse::<u64>().unwrap(),
        other => panic!("{other}"),
    };
    server.client().pipeline(&keys).unwrap().iter().map(value).sum()
}

fn rings(log: &Path) -> usize {
    fs::read_dir(log.join("rings")).map_or(0, Iterator::count)
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// INV-RINGS-1.
#[test]
fn what_was_acknowledged_is_where_the_log_is() {
    let mut server = start(&[]);
    let log = server.directory().join("appendonlydir");
    increment(&server, 10_000);
    assert!(rings(&log) > 0);
    server.kill();
    let (copied, moved) = (server.directory().join("copied"), server.directory().join("moved"));
    copy(&log, &copied);
    fs::rename(&log, &moved).unwrap();
    for directory in ["copied", "moved"] {
        let path = server.directory().display().to_string();
        let mut other = start(&["--dir", &path, "--appenddirname", directory]);
        assert_eq!(sum(&other), 10_000, "{directory}: {}", other.log());
        increment(&other, 100);
        other.kill();
        other.start_again();
        assert_eq!(sum(&other), 10_100, "{directory}: {}", other.log());
        other.client().send(&[["SHUTDOWN"]]).unwrap();
        assert!(other.await_exit(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", other.log());
        assert!(!server.directory().join(directory).join("rings").exists(), "a clean end leaves none");
    }
}

/// A log that begins while the server runs, ends, and begins again.
#[test]
fn rings_are_there_as_long_as_their_log() {
    let mut server = Server::start(&Program::Almandine, &["--ring-dir", "log", "--save", ""]);
    let mut client = server.client();
    for (round, mode) in ["yes", "no", "yes"].into_iter().enumerate() {
        assert_eq!(client.line(&format!("CONFIG SET appendonly {mode}")), Value::ok());
        while client.line("INFO persistence").to_string().contains("aof_rewrite_in_progress:1") {}
        increment(&server, 1000);
        assert_eq!(sum(&server), 1000 * (round as u64 + 1));
    }
    server.kill();
    let path = server.directory().display().to_string();
    let again = start(&["--dir", &path]);
    assert_eq!(sum(&again), 3000, "{}", again.log());
}

/// The logs whose rings lie below a directory.
fn owners(directory: &Path) -> BTreeSet<String> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.extension().is_some_and(|extension| extension == "ring") {
        true => BTreeSet::from([path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned()]),
        false if path.is_dir() => owners(&path),
        false => BTreeSet::new(),
    };
    paths.flat_map(of).collect()
}

fn set(server: &Server, parameter: &str) -> Value {
    server.client().line(&format!("CONFIG SET {parameter}"))
}

fn lacks_base(server: &Server) -> bool {
    server.client().line("INFO persistence").to_string().contains("aof_rewrite_in_progress:1")
}

/// Turns the log on, and kills the server before it has a base.
fn kill_before_the_base(server: &mut Server) {
    assert_eq!(set(server, "rdb-key-save-delay 100000"), Value::ok());
    assert_eq!(set(server, "appendonly yes"), Value::ok());
    increment(server, 100);
    assert!(lacks_base(server));
    server.kill();
}

/// A log that begins takes the rings of the one before when it counts, and leaves none when it never does.
#[test]
fn rings_of_the_log_before_are_there_until_another_one_counts() {
    for place in ["log", "{dir}"] {
        let mut server = Server::start(&Program::Almandine, &["--ring-dir", place, "--save", "", "--appendfsync", "no"]);
        increment(&server, 1000);
        kill_before_the_base(&mut server);
        server.start_again_with(&["--appendonly", "yes"]);
        assert_eq!((server.client().line("DBSIZE"), owners(server.directory()).len()), (Value::Integer(0), 1), "{place}");
        increment(&server, 2000);
        let former = owners(server.directory());
        for _ in 0..2 {
            server.kill();
            server.start_again_with(&["--appendonly", "no"]);
            increment(&server, 300);
            kill_before_the_base(&mut server);
            server.start_again_with(&["--appendonly", "yes"]);
            assert_eq!(sum(&server), 2000, "{place}: {}", server.log());
        }
        server.kill();
        server.start_again_with(&["--appendonly", "no"]);
        increment(&server, 300);
        assert_eq!(set(&server, "appendonly yes"), Value::ok());
        while lacks_base(&server) {}
        increment(&server, 100);
        let left = owners(server.directory());
        assert!(left.is_disjoint(&former) && (place != "log" || left.len() == 1), "{place}: {left:?}, and {former:?} before");
        server.kill();
        server.start_again_with(&["--appendonly", "yes"]);
        assert_eq!(sum(&server), 400, "{place}: {}", server.log());
    }
}

/// A start looks for them with the log; a directory that was moved has those of this process.
#[test]
fn rings_that_lie_elsewhere_are_not_those_of_a_log_that_begins() {
    let server = start(&["--enable-protected-configs", "yes"]);
    let (log, moved) = (server.directory().join("appendonlydir"), server.directory().join("moved"));
    assert_eq!(set(&server, "appendonly no"), Value::ok());
    fs::rename(&log, &moved).unwrap();
    let refused = set(&server, "appendonly yes").to_string();
    assert!(refused.contains("not there any more") && !log.exists(), "{refused}");
    fs::rename(&moved, &log).unwrap();
    fs::create_dir(&moved).unwrap();
    assert_eq!(set(&server, &format!("dir {}", moved.display())), Value::ok());
    let refused = set(&server, "appendonly yes").to_string();
    assert!(refused.contains("lie with another log"), "{refused}");
    assert_eq!(set(&server, &format!("dir {}", server.directory().display())), Value::ok());
    assert_eq!(set(&server, "appendonly yes"), Value::ok());
    increment(&server, 100);
    assert_eq!(sum(&server), 100);
}

/// A ring that is not whole refuses the start, for what was acknowledged may be in it.
#[test]
fn a_damaged_ring_is_told() {
    let mut server = start(&[]);
    increment(&server, 1000);
    server.kill();
    let place = server.directory().join("appendonlydir").join("rings");
    for entry in fs::read_dir(&place).unwrap().filter_map(Result::ok) {
        let mut bytes = fs::read(entry.path()).unwrap();
        bytes[16 * 8 + 6] ^= 0x55;
        fs::write(entry.path(), bytes).unwrap();
    }
    let path = server.directory().display().to_string();
    let flags = [FLAGS, &["--dir", &path]].concat();
    let refused = Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap();
    assert!(refused.contains("rings") && refused.contains("damaged"), "{refused}");
}

/// What is to be encrypted does not lie on the disk as it is.
#[test]
fn rings_with_the_log_do_not_go_with_keys() {
    let server = start(&[]);
    let keys = server.directory().join("keys");
    fs::write(&keys, format!("one {}\n", "a1".repeat(32))).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let Value::Error(text) = server.client().line(&format!("CONFIG SET log-key-file {}", keys.display())) else { panic!() };
    assert!(String::from_utf8_lossy(&text).contains("would not encrypt them"));
    increment(&server, 100);
    let flags = [FLAGS, &["--log-key-file", keys.to_str().unwrap()]].concat();
    let refused = Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap();
    assert!(refused.contains("would not encrypt them"), "{refused}");
    let other = [FLAGS, &["--log-key-file", keys.to_str().unwrap(), "--ring-dir", "auto"]].concat();
    let other = Server::start(&Program::Almandine, &other);
    increment(&other, 100);
    assert_eq!((sum(&other), rings(&other.directory().join("appendonlydir"))), (100, 0));
}
