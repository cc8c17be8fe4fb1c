//! A small log of a server, with a base: every byte of it is changed, and its files are cut off at every length. `verify` and
//! `convert` refuse it then, naming the file, or it is as it was: never less without a word.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use almandine_testkit::{Client, Program, Server, Value, full};

/// Bytes of a segment's file that have groups of this test.
const GROUPS_BYTES: u64 = 24 << 10;

struct Log(PathBuf);

impl Log {
    /// The log of a server that has written a base, and more behind it, and has ended cleanly.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-damage-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let text = path.to_str().unwrap();
        let mut server =
            Server::start(&Program::Almandine, &["--dir", text, "--ring-dir", text, "--appendonly", "yes", "--save", ""]);
        let mut client = server.client();
        run(&mut client, &["SET a 1", "HSET h f v", "RPUSH l x y", "SET with:expiry v EX 5000", "BGREWRITEAOF"]);
        while !info(&mut client).contains("aof_rewrites:1\r\n") || info(&mut client).contains("aof_rewrite_in_progress:1") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        run(&mut client, &["INCR a", "ZADD z 1 m", "DEL l"]);
        client.send(&[["SHUTDOWN"]]).unwrap();
        assert!(server.await_exit(std::time::Duration::from_secs(60)).is_some_and(|status| status.success()));
        Self(path)
    }

    fn directory(&self) -> PathBuf {
        self.0.join("appendonlydir")
    }

    /// Its files, the manifest, the base and the segments, with the bytes of each that matter.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.directory()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name == "MANIFEST" || name.starts_with("base-") || name.starts_with("log-") {
                let file = fs::File::open(&path).unwrap();
                let mut bytes = vec![0; file.metadata().unwrap().len().min(GROUPS_BYTES) as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                files.push((path, bytes));
            }
        }
        files.sort();
        assert!(files.len() >= 3, "{files:?}");
        files
    }

    /// What `verify` says: the exit code, the fault if there is one, and what was found.
    fn verify(&self) -> (i32, String, String) {
        let output = check(&["verify".as_ref(), self.directory().as_path()]);
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = ["units", "groups", "end", "base_keys", "torn_bytes", "clean"].map(|field| said[field].to_string());
        (output.status.code().unwrap(), said["fault"].to_string(), found.join(" "))
    }

    /// The exit code of `repair`, and what it says of the keys of the base.
    fn repair(&self) -> (i32, [Option<u64>; 2]) {
        let output = check(&["repair".as_ref(), self.directory().as_path(), "--yes".as_ref()]);
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), ["base_keys_read", "base_keys_announced"].map(|field| said[field].as_u64()))
    }

    /// The exit code of `convert`.
    fn convert(&self) -> i32 {
        let to = self.0.join("converted.rdb");
        let output = check(&["convert".as_ref(), "--form".as_ref(), "rdb".as_ref(), self.directory().as_path(), &to]);
        let _ = fs::remove_file(&to);
        output.status.code().unwrap()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check(arguments: &[&Path]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_almandine-check")).arg("--json").args(arguments).output().unwrap()
}

fn run(client: &mut Client, commands: &[&str]) {
    for command in commands {
        assert!(!matches!(client.line(command), Value::Error(_)), "{command}");
    }
}

fn info(client: &mut Client) -> String {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    String::from_utf8(text).unwrap()
}

#[test]
fn a_byte_that_is_another_is_refused_or_changes_nothing() {
    let log = Log::new("byte");
    let whole = log.verify();
    assert_eq!((whole.0, log.convert()), (0, 0), "{whole:?}");
    let (mut same, mut refused) = (0, 0);
    for (path, bytes) in log.files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_segment = name.starts_with("log-");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        // Of a segment the heads and what is behind them; of the padding a byte here and there.
        let of_all = bytes.iter().enumerate().filter(|(at, _)| !is_segment || (at % 4096 < 220 && at % 2 == 0) || at % 509 == 0);
        // Neighbours are alike; each is looked at in long runs.
        for (round, (at, byte)) in of_all.step_by(if full() { 1 } else { 4 }).enumerate() {
            file.write_all_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
            let (code, fault, found) = log.verify();
            if code == 0 {
                assert_eq!(found, whole.2, "{name}, byte {at}");
                assert!(is_segment, "{name}, byte {at}: each byte of it is summed");
                same += 1;
            } else {
                assert!([1, 3].contains(&code) && fault.contains(&*path.to_string_lossy()), "{name}, byte {at}: {fault}");
                refused += 1;
            }
            if round.is_multiple_of(23) {
                assert_eq!(log.convert() == 0, code == 0, "{name}, byte {at}: {fault}");
            }
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
    assert!(refused > 150 && same > 5, "{refused} refused, {same} the same");
    assert_eq!(log.verify(), whole);
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    let log = Log::new("length");
    let whole = log.verify();
    for (path, bytes) in log.files() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (all, step) = (fs::metadata(&path).unwrap().len(), if name.starts_with("log-") { 1021 } else { 1 });
        let kept = log.0.join("kept");
        fs::rename(&path, &kept).unwrap();
        for (round, len) in (0..bytes.len()).step_by(if full() { step } else { step * 7 }).enumerate() {
            fs::write(&path, &bytes[..len]).unwrap();
            let (code, fault, _) = log.verify();
            // A manifest without its version may be one of a later version.
            let is_refused = code == 1 || (code == 3 && name == "MANIFEST");
            assert!(is_refused && fault.contains(&*path.to_string_lossy()), "{name}, {len} of {all} bytes: {code} {fault}");
            assert!(!round.is_multiple_of(29) || log.convert() != 0, "{name}, {len} of {all} bytes");
        }
        fs::remove_file(&path).unwrap();
        let (code, fault, _) = log.verify();
        assert!(code == 1 && fault.contains(&*path.to_string_lossy()) || name == "MANIFEST" && code == 3, "{name}: {code} {fault}");
        fs::rename(&kept, &path).unwrap();
    }
    assert_eq!(log.verify(), whole);
}

/// `repair` mends no base: it says what is out of reach, and changes nothing.
#[test]
fn a_damaged_base_is_no_log_that_was_repaired() {
    let log = Log::new("base");
    assert_eq!(log.repair(), (0, [None, None]));
    let (path, bytes) = log.files().into_iter().find(|(path, _)| path.to_string_lossy().contains("/base-")).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let announced: Vec<Option<u64>> = (0..bytes.len())
        .step_by(if full() { 1 } else { 5 })
        .map(|at| {
            file.write_all_at(&[bytes[at] ^ 1 << (at % 8)], at as u64).unwrap();
            let (code, [read, announced]) = log.repair();
            assert!([1, 3].contains(&code), "byte {at}: {code}");
            assert!(read.is_some_and(|read| read <= 4), "byte {at}: {read:?}");
            assert_eq!(fs::read(&path).unwrap()[at], bytes[at] ^ 1 << (at % 8), "byte {at}: nothing is changed");
            file.write_all_at(&[bytes[at]], at as u64).unwrap();
            announced
        })
        .collect();
    assert!(announced.contains(&Some(4)), "most damages leave the end as it is: {announced:?}");
    assert_eq!(log.repair().0, 0);
}
