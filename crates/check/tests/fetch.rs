//! `fetch`: a copy of an archive that a server writes, which goes on with it. For a server with the feature `object-store`, too.

#![cfg(feature = "object-store")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

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
