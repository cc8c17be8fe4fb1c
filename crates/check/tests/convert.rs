//! `convert`, with redis-server, redis-check-aof and redis-check-rdb as the oracle: all types, encodings, times and functions go
//! from a Redis into a log and back.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "../../server/tests/contents/mod.rs"]
mod contents;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use almandine_testkit::{Client, Program, Server, Value};

use contents::{assert_equal, contents, fill};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-convert-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn start(&self, program: &Program, flags: &[&str]) -> Server {
        let path = self.0.to_str().unwrap();
        let own: &[&str] = match program {
            Program::Redis => &[],
            _ => &["--ring-dir", path, "--object-encoding-names", "7.0"],
        };
        let server = Server::start(program, &[&["--dir", path, "--save", ""], own, flags].concat());
        await_info(&mut server.client(), "loading", "0");
        server
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn await_info(client: &mut Client, field: &str, value: &str) {
    let has = format!("{field}:{value}\r\n");
    loop {
        let Value::Bulk(text) = client.line("INFO persistence") else { continue };
        if String::from_utf8(text).unwrap().contains(&has) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn convert(from: &Path, to: &Path, form: &str) -> (i32, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
    let output = command.args(["--json", "convert", "--form", form]).arg(from).arg(to).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (output.status.code().unwrap(), said)
}

#[track_caller]
fn converted(from: &Path, to: &Path, form: &str) {
    let (code, said) = convert(from, to, form);
    assert_eq!(code, 0, "{said}");
    assert!(said["keys"].as_u64().unwrap() >= 20 && said["functions"] == 1, "{said}");
}

fn checked(program: &str, file: &Path) {
    let output = Command::new(program).arg(file).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_redis_becomes_a_log_and_a_redis_again() {
    let origin = Directory::new("origin");
    let mut redis = origin.start(&Program::Redis, &["--appendonly", "yes"]);
    let mut client = redis.client();
    let library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)";
    assert_eq!(client.call(&["FUNCTION", "LOAD", library]).unwrap(), Value::Bulk("lib".into()));
    client.line("SET before-base 1");
    client.line("BGREWRITEAOF");
    await_info(&mut client, "aof_rewrite_in_progress", "0");
    await_info(&mut client, "aof_rewrite_scheduled", "0");
    fill(&mut client);
    client.line("MULTI");
    client.line("SET in-unit 1");
    client.line("EXEC");
    let expected = contents(&mut client);
    redis.kill();

    let ours = Directory::new("ours");
    converted(&origin.path("appendonlydir"), &ours.path("appendonlydir"), "log");
    let mut server = ours.start(&Program::Almandine, &["--appendonly", "yes"]);
    assert_equal(&contents(&mut server.client()), &expected);
    let (code, said) = convert(&ours.path("appendonlydir"), &origin.path("locked"), "rdb");
    assert_eq!((code, said["whole"].as_bool()), (3, Some(false)), "{said}");
    // What it did not come to write lies in its rings.
    server.client().line("SET in-ring 1");
    let expected = contents(&mut server.client());
    server.kill();

    for (form, target) in [("aof", "appendonlydir"), ("rdb", "dump.rdb")] {
        let back = Directory::new(form);
        converted(&ours.path("appendonlydir"), &back.path(target), form);
        let (program, file) = if form == "aof" {
            ("redis-check-aof", back.path("appendonlydir/appendonly.aof.manifest"))
        } else {
            ("redis-check-rdb", back.path(target))
        };
        checked(program, &file);
        // Value by value: the same, and Redis' own opinion of it.
        let anew = Directory::new(&format!("{form}-anew"));
        converted(&back.path(target), &anew.path("dump.rdb"), "rdb");
        converted(&back.path(target), &anew.path("appendonlydir"), "aof");
        checked("redis-check-rdb", &anew.path("dump.rdb"));
        for is_aof in ["no", "yes"] {
            let redis = anew.start(&Program::Redis, &["--appendonly", is_aof]);
            assert_equal(&contents(&mut redis.client()), &expected);
        }
        let redis = back.start(&Program::Redis, &["--appendonly", if form == "aof" { "yes" } else { "no" }]);
        assert_equal(&contents(&mut redis.client()), &expected);
        assert_eq!(redis.client().line("FCALL f 1 called"), Value::Integer(1));
        drop(redis);
        // Nothing is written over.
        let (code, said) = convert(&ours.path("appendonlydir"), &back.path(target), form);
        assert_eq!(code, 3, "{said}");
        let again = Directory::new(&format!("{form}-log"));
        if form == "rdb" {
            converted(&back.path(target), &again.path("appendonlydir"), "log");
            let server = again.start(&Program::Almandine, &["--appendonly", "yes"]);
            assert_equal(&contents(&mut server.client()), &expected);
        }
    }
}

#[test]
fn what_is_damaged_is_refused_and_nothing_is_left() {
    let directory = Directory::new("damaged");
    let mut server = directory.start(&Program::Almandine, &["--appendonly", "yes"]);
    server.client().line("SET k 1");
    server.client().send(&[["SHUTDOWN"]]).unwrap();
    server.await_exit(std::time::Duration::from_secs(60)).unwrap();
    let (log, target) = (directory.path("appendonlydir"), directory.path("target.rdb"));
    let (code, said) = convert(&log, &target, "rdb");
    assert_eq!((code, &said["keys"]), (0, &serde_json::json!(1)), "{said}");
    fs::remove_file(&target).unwrap();
    let base = log.join("base-00000001.0");
    let mut bytes = fs::read(&base).unwrap();
    bytes[70] ^= 1;
    fs::write(&base, bytes).unwrap();
    let (code, said) = convert(&log, &target, "rdb");
    assert_eq!((code, said["whole"].as_bool()), (1, Some(false)), "{said}");
    assert!(said["fault"]["text"].as_str().unwrap().contains("base-00000001.0"), "{said}");
    assert!(!target.exists());
    let (code, _) = convert(&directory.path("nothing"), &target, "rdb");
    assert_eq!(code, 1);
}

/// What follows a snapshot is not left out.
#[test]
fn commands_behind_a_snapshot_are_converted_too() {
    let directory = Directory::new("behind");
    let mut server = directory.start(&Program::Almandine, &["--dbfilename", "dump.rdb"]);
    server.client().line("SET k 1");
    assert_eq!(server.client().line("SAVE"), Value::ok());
    server.kill();
    let (from, target) = (directory.path("dump.rdb"), directory.path("target.rdb"));
    for (behind, keys) in [("", 1), ("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$1\r\n2\r\n", 2), ("*1\r\n$3\r\nxyz\r\n", 0)] {
        let whole = [fs::read(directory.path("dump.rdb")).unwrap(), behind.as_bytes().to_vec()].concat();
        let path = directory.path("appendonly.aof");
        fs::write(&path, whole).unwrap();
        let (code, said) = convert(&path, &target, "rdb");
        assert_eq!((code, said["keys"].as_u64().unwrap_or(0)), (i32::from(keys == 0), keys), "{said}");
        assert_eq!(fs::remove_file(&target).is_ok(), keys > 0);
    }
    // What cannot be read as a whole leaves nothing.
    let bytes = fs::read(&from).unwrap();
    fs::write(&from, &bytes[..bytes.len() - 9]).unwrap();
    let (code, said) = convert(&from, &target, "rdb");
    assert!(code == 1 && !target.exists() && said["fault"]["text"].as_str().unwrap().contains("dump.rdb"), "{said}");
    assert!(!fs::read_dir(&directory.0).unwrap().any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("temp-")));
}
