//! `fetch`: copies of archives and backups, whose server goes on. For a server with the feature `object-store`, too.

#![cfg(feature = "object-store")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod backups;
mod past;

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use almandine_testkit::{Program, Server, Value};

fn fetch(url: &str, to: &Path) -> (Option<i32>, String) {
    let check = env!("CARGO_BIN_EXE_almandine-check");
    let output = Command::new(check).args(["fetch", url]).arg(to).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn an_archive_is_copied_and_its_server_goes_on() {
    let flags =
        ["--appendonly", "yes", "--appendfsync", "always", "--ring-dir", "{dir}", "--log-object-url", "file://{dir}/objects"];
    let server = Server::start(&Program::Almandine, &flags);
    let (mut client, url) = (server.client(), format!("file://{}/objects", server.directory().display()));
    let info = |field: &str| {
        let Value::Bulk(text) = server.client().line("INFO storage") else { panic!("no INFO") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix(field).map(str::to_owned)).unwrap_or_default()
    };
    for round in 1..=3 {
        for key in 0..50 {
            assert_eq!(client.line(&format!("SET {round}:{key} value")), Value::Simple(b"OK".to_vec()));
        }
        let until = Instant::now() + Duration::from_secs(20);
        while info("log_archive_state:") != "shipping" || info("log_archive_behind_bytes:") != "0" {
            assert!(Instant::now() < until, "{}", server.log());
            sleep(Duration::from_millis(10));
        }
        let copy = server.directory().join(format!("copy{round}"));
        let to = copy.join("appendonlydir");
        let (code, text) = fetch(&url, &to);
        assert!(code == Some(0) && text.contains("goes on with it"), "{code:?} {text}");
        let dir = copy.display().to_string();
        let other = Server::start(&Program::Almandine, &["--appendonly", "yes", "--ring-dir", "none", "--dir", &dir]);
        assert_eq!(other.client().line("DBSIZE"), Value::Integer(50 * round), "{}", other.log());
        drop(other);
        let (code, text) = fetch(&url, &to);
        assert!(code == Some(3) && text.contains("has a log already"), "{code:?} {text}");
        // The copy is no owner.
        let flags = ["--appendonly", "yes", "--ring-dir", "none", "--dir", &dir, "--log-object-url", &url];
        let refused = Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_default();
        assert!(refused.contains("the archive of another log"), "{refused}");
    }
    let nothing = format!("file://{}/nothing", server.directory().display());
    let (code, text) = fetch(&nothing, &server.directory().join("copy"));
    assert!(code == Some(3) && text.contains("no archive"), "{code:?} {text}");
}

/// With data on a device its pages come along; `verify` reads them, and a server starts from them, at a point in time, too.
#[test]
fn an_archive_with_pages_is_copied_with_them() {
    let flags =
        ["--appendonly", "yes", "--appendfsync", "always", "--ring-dir", "{dir}", "--log-object-url", "file://{dir}/objects"];
    let flags = [&flags[..], &["--maxmemory", "16mb", "--storage-dir", "{dir}/s"]].concat();
    let server = Server::start(&Program::Almandine, &flags);
    let (mut client, url) = (server.client(), format!("file://{}/objects", server.directory().display()));
    let info = |section: &str, field: &str| {
        let Value::Bulk(text) = server.client().line(&format!("INFO {section}")) else { panic!("no INFO") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix(field).map(str::to_owned)).unwrap_or_default()
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < until, "{what}: {}", server.log());
            sleep(Duration::from_millis(20));
        }
    };
    let value = "v".repeat(4_000);
    let set =
        |keys: std::ops::Range<u32>| keys.map(|key| ["SET".to_owned(), format!("key:{key}"), value.clone()]).collect::<Vec<_>>();
    (0..10_000).step_by(500).for_each(|from| {
        client.pipeline(&set(from..from + 500)).unwrap();
    });
    client.line("BGREWRITEAOF");
    until("a base", &|| info("persistence", "aof_rewrite_in_progress:") == "0");
    client.pipeline(&set(10_000..10_100)).unwrap();
    sleep(Duration::from_millis(1_100));
    let cut = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    sleep(Duration::from_millis(100));
    client.pipeline(&set(10_100..10_200)).unwrap();
    until("it is shipped", &|| {
        ["log_archive_behind_bytes:", "log_archive_left_pages:"].iter().all(|field| info("storage", field) == "0")
            && info("storage", "log_archive_shipped_pages:") != "0"
    });
    let copy = server.directory().join("copy");
    let (to, storage) = (copy.join("appendonlydir"), copy.join("storage"));
    let run = |args: &[&std::ffi::OsStr]| {
        let output = Command::new(env!("CARGO_BIN_EXE_almandine-check")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = fetch(&url, &to);
    assert!(code == Some(3) && text.contains("its base names data in storage-dir"), "{code:?} {text}");
    let flag = std::ffi::OsStr::new("--storage-dir");
    let (code, text) = run(&["fetch".as_ref(), url.as_ref(), to.as_ref(), flag, storage.as_ref()]);
    assert!(code == Some(0) && text.contains("pages of storage-dir are among them"), "{code:?} {text}");
    let verify = || run(&["verify".as_ref(), to.as_ref(), flag, storage.as_ref()]);
    let (code, text) = verify();
    assert!(code == Some(0) && text.contains("pages in storage-dir"), "{code:?} {text}");
    let at = format!("{cut:.3}");
    let (code, text) = run(&["cut".as_ref(), to.as_ref(), "--at-time".as_ref(), at.as_ref(), "--yes".as_ref()]);
    assert!(code == Some(0), "{code:?} {text}");
    let (dir, storage_dir) = (copy.display().to_string(), storage.display().to_string());
    let flags = ["--appendonly", "yes", "--ring-dir", "none", "--dir", &dir, "--maxmemory", "16mb", "--storage-dir", &storage_dir];
    let mut other = Server::start(&Program::Almandine, &flags);
    assert_eq!(other.client().line("DBSIZE"), Value::Integer(10_100), "{}", other.log());
    for key in (0..10_100).step_by(37) {
        assert_eq!(other.client().line(&format!("GET key:{key}")), Value::Bulk(value.clone().into_bytes()));
    }
    other.kill();
    // A page that was changed is told.
    let segment = std::fs::read_dir(storage.join("log")).unwrap().flatten().map(|entry| entry.path());
    let segment = segment.filter(|path| path.extension().is_some_and(|extension| extension == "segment")).min().unwrap();
    let bytes = std::fs::read(&segment).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'v').unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"w", at as u64).unwrap();
    let (code, text) = verify();
    assert!(code == Some(1), "{code:?} {text}");
}
