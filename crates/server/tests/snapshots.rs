//! Snapshot files at the start: what a Redis has saved is served, and a file that is not whole refuses the start.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use almandine_testkit::{Client, Program, Server, Value};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-snapshots-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn dump(&self) -> PathBuf {
        self.0.join("dump.rdb")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// A snapshot of redis-server with `keys` strings `key:<number>`.
fn strings(file: &Path, keys: usize) {
    let server = Server::start(&Program::Redis, &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    assert_eq!(client.line(&format!("DEBUG POPULATE {keys}")), ok());
    assert_eq!(client.line("SAVE"), ok());
    fs::copy(server.directory().join("dump.rdb"), file).unwrap();
}

fn info(client: &mut Client, field: &str) -> Option<String> {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
}

#[test]
fn commands_are_refused_while_data_is_loaded() {
    let directory = Directory::new("loading");
    strings(&directory.dump(), 2000);
    let flags = ["--dir", directory.path(), "--key-load-delay", "2000"];
    let mut server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    let loading = Value::Error(b"LOADING Redis is loading the dataset in memory".to_vec());
    assert_eq!((client.line("GET key:1"), client.line("PING")), (loading.clone(), loading.clone()));
    assert_eq!(info(&mut client, "loading").as_deref(), Some("1"));
    assert_eq!(info(&mut client, "async_loading").as_deref(), Some("0"));
    let bytes = fs::metadata(directory.dump()).unwrap().len();
    assert_eq!(info(&mut client, "loading_total_bytes"), Some(bytes.to_string()));
    for field in ["loading_start_time", "loading_loaded_bytes", "loading_loaded_perc", "loading_eta_seconds"] {
        assert!(info(&mut client, field).is_some_and(|value| value.parse::<f64>().is_ok()), "{field}");
    }
    // A transaction with a command that is refused is not executed.
    assert_eq!((client.line("MULTI"), client.line("GET key:1")), (ok(), loading));
    assert!(client.line("EXEC").to_string().contains("EXECABORT"));
    assert!(matches!(client.line("CONFIG SET key-load-delay 0"), Value::Simple(_)));
    while info(&mut client, "loading").as_deref() == Some("1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.line("GET key:1999"), Value::Bulk(b"value:1999".to_vec()));
    assert_eq!(info(&mut client, "loading_total_bytes"), None);
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded").as_deref(), Some("2000"));
    let log = server.log();
    for line in
        ["Done loading RDB, keys loaded: 2000, keys expired: 0.", "Loading RDB produced by version 7.0", "DB loaded from disk:"]
    {
        assert!(log.contains(line), "no '{line}' in {log}");
    }
    server.client().send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    assert!(server.await_exit(Duration::from_secs(20)).is_some());
    // The end can be asked for meanwhile.
    let mut server = Server::start(&Program::Almandine, &flags);
    assert_eq!(info(&mut server.client(), "loading").as_deref(), Some("1"));
    server.client().send(&[["SHUTDOWN"]]).unwrap();
    assert!(server.await_exit(Duration::from_secs(2)).is_some_and(|status| status.success()), "{}", server.log());
    assert_eq!(fs::metadata(directory.dump()).unwrap().len(), bytes);
}

#[test]
fn a_file_that_is_not_whole_refuses_the_start_and_stays_as_it_is() {
    let directory = Directory::new("broken");
    strings(&directory.dump(), 500);
    let whole = fs::read(directory.dump()).unwrap();
    let cut = whole[..whole.len() / 2].to_vec();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (bytes, reason) in [
        (cut, "the file ends too early, at offset"),
        (flipped, "at offset"),
        (b"REDIS0099".to_vec(), "Can't handle RDB format version REDIS 99 at offset 0"),
        (Vec::new(), "the file ends too early, at offset 0"),
    ] {
        fs::write(directory.dump(), &bytes).unwrap();
        let refused = match Server::try_start(&Program::Almandine, &["--dir", directory.path()], &[]) {
            // It may answer before the damage is met.
            Ok(mut server) => {
                assert!(server.await_exit(Duration::from_secs(20)).is_some_and(|status| !status.success()), "{reason}");
                server.log()
            }
            Err(refused) => refused,
        };
        assert!(refused.contains("Fatal error loading the DB") && refused.contains(reason), "{reason}: {refused}");
        assert!(refused.contains("move it away to start without its data"), "{refused}");
        assert_eq!(fs::read(directory.dump()).unwrap(), bytes);
    }
    // Where the checksum is not asked for, what can be read is served.
    let mut unsummed = whole.clone();
    unsummed.truncate(whole.len() - 8);
    unsummed.extend_from_slice(&[1; 8]);
    fs::write(directory.dump(), unsummed).unwrap();
    let server = Server::start(&Program::Almandine, &["--dir", directory.path(), "--rdbchecksum", "no"]);
    let mut client = server.client();
    while info(&mut client, "loading").as_deref() == Some("1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.line("DBSIZE"), Value::Integer(500));
}

#[test]
fn what_does_not_fit_into_memory_goes_to_the_device() {
    let directory = Directory::new("device");
    let server = Server::start(&Program::Redis, &[]);
    let mut client = server.client();
    let value = "v".repeat(4000);
    for key in 0..10_000 {
        assert_eq!(client.call(&["SET", &format!("key:{key}"), &value]).unwrap(), ok());
    }
    assert_eq!(client.line("SAVE"), ok());
    fs::copy(server.directory().join("dump.rdb"), directory.dump()).unwrap();
    drop(server);
    let flags = ["--dir", directory.path(), "--maxmemory", "16mb", "--storage-dir", "{dir}/s"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    while info(&mut client, "loading").as_deref() == Some("1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.line("DBSIZE"), Value::Integer(10_000));
    for key in (0..10_000).step_by(97) {
        assert_eq!(client.line(&format!("GET key:{key}")), Value::Bulk(value.clone().into_bytes()));
    }
}
