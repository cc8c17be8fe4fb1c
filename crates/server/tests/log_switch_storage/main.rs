//! CONFIG SET appendonly while a server with `storage-dir` runs: what lies there is in the log when its first base is named, and
//! belongs to none when it has ended (INV-RETAIN-2).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kills;
mod states;
mod writers;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

const PATIENCE: Duration = Duration::from_secs(180);

fn start(flags: &[&str]) -> Server {
    let storage =
        ["--ring-dir", "{dir}", "--storage-dir", "{dir}/storage", "--maxmemory", "16mb", "--storage-segment-size", "16mb"];
    Server::start(&Program::Almandine, &[&storage, flags].concat())
}

/// What a start with these flags says instead of serving.
fn refusal(server: &Server, flags: &[&str]) -> String {
    let directory = server.directory().to_str().unwrap();
    let own = ["--dir", directory, "--ring-dir", directory, "--maxmemory", "16mb"];
    let storage = server.directory().join("storage");
    let flags = [&own, &["--storage-dir", storage.to_str().unwrap()][..], flags].concat();
    Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_else(|| panic!("it has started"))
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO everything") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).unwrap_or_else(|| panic!("no {field}"))
}

fn number(client: &mut Client, field: &str) -> u64 {
    info(client, field).parse().unwrap()
}

fn set(client: &mut Client, parameter: &str) {
    assert_eq!(client.line(&format!("CONFIG SET {parameter}")), Value::ok());
}

/// Turns the log on, and waits until it counts.
fn turn_on(client: &mut Client) {
    set(client, "appendonly yes");
    await_base(client);
}

fn await_base(client: &mut Client) {
    let began = Instant::now();
    while info(client, "aof_rewrite_in_progress") != "0" || info(client, "aof_last_bgrewrite_status") != "ok" {
        thread::sleep(Duration::from_millis(5));
        assert!(began.elapsed() < PATIENCE, "the first base is not written");
    }
}

/// Files of `storage-dir` that say what it belongs to.
fn formats(server: &Server) -> [PathBuf; 2] {
    ["log", "values"].map(|part| server.directory().join("storage").join(part).join("almandine.format"))
}

fn labels(server: &Server) -> [String; 2] {
    formats(server).map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().find_map(|line| line.strip_prefix("label ")).unwrap().to_owned()
    })
}

fn relabel(server: &Server, label: &str) {
    for path in formats(server) {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| if line.starts_with("label ") { format!("label {label}") } else { line.to_owned() });
        fs::write(path, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    }
}
