//! Snapshot files at the start: what a Redis has saved is served, and a file that is not whole refuses the start.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

mod contents;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use almandine_testkit::server::free_port;
use almandine_testkit::{Client, Program, Server, Value};

use contents::{assert_equal, contents, fill};

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

fn await_info(client: &mut Client, field: &str, value: &str) {
    for _ in 0..2000 {
        if info(client, field).as_deref() == Some(value) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{field} is {:?} and not {value}", info(client, field));
}

fn end(server: &mut Server, words: &[&str]) {
    server.client().send(&[words]).unwrap();
    assert!(server.await_exit(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", server.log());
}

#[test]
fn what_redis_saved_is_served_and_what_is_saved_redis_serves() {
    let directory = Directory::new("both-ways");
    let redis = Server::start(&Program::Redis, &[]);
    let mut client = redis.client();
    fill(&mut client);
    let expected = contents(&mut client);
    assert!(expected.len() >= 20);
    assert_eq!(client.line("SAVE"), ok());
    fs::copy(redis.directory().join("dump.rdb"), directory.dump()).unwrap();
    // Through ours and back, twice.
    for _ in 0..2 {
        let flags = ["--dir", directory.path(), "--object-encoding-names", "7.0"];
        let mut server = Server::start(&Program::Almandine, &flags);
        await_info(&mut server.client(), "loading", "0");
        assert_equal(&contents(&mut server.client()), &expected);
        fs::remove_file(directory.dump()).unwrap();
        end(&mut server, &["SHUTDOWN", "SAVE"]);
        assert!(server.log().contains("DB saved on disk"), "{}", server.log());
        let check = std::process::Command::new("redis-check-rdb").arg(directory.dump()).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
        let again = Server::start(&Program::Redis, &["--dir", directory.path()]);
        await_info(&mut again.client(), "loading", "0");
        assert_equal(&contents(&mut again.client()), &expected);
    }
}

#[test]
fn snapshots_are_written_when_asked_for() {
    let flags = ["--enable-debug-command", "yes", "--rdb-key-save-delay", "100000"];
    let server = Server::start(&Program::Almandine, &flags);
    let (mut client, dump) = (server.client(), server.directory().join("dump.rdb"));
    assert_eq!(client.line("DEBUG POPULATE 1000"), ok());
    assert_eq!(info(&mut client, "rdb_changes_since_last_save").as_deref(), Some("1000"));
    assert_eq!(client.line("BGSAVE"), Value::Simple(b"Background saving started".to_vec()));
    let runs = Value::Error(b"ERR Background save already in progress".to_vec());
    assert_eq!((client.line("BGSAVE"), client.line("SAVE"), client.line("DEBUG RELOAD")), (runs.clone(), runs.clone(), runs));
    assert_eq!(info(&mut client, "rdb_bgsave_in_progress").as_deref(), Some("1"));
    // Others write meanwhile, and what was there is kept for the snapshot.
    assert_eq!(client.line("SET later 1"), ok());
    let number = |client: &mut Client, field: &str| info(client, field).unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&mut client, "rdb_last_cow_size"), 0);
    for key in 0..1000 {
        assert_eq!(client.line(&format!("SET key:{key} other")), ok());
    }
    while number(&mut client, "current_cow_size") <= 1000 {
        assert_eq!(info(&mut client, "rdb_bgsave_in_progress").as_deref(), Some("1"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let kept = number(&mut client, "current_cow_peak");
    assert!(kept > 1000, "{kept} bytes");
    assert!(!dump.exists());
    assert_eq!(client.line("BGSAVE CANCEL"), Value::Simple(b"Background saving cancelled".to_vec()));
    await_info(&mut client, "rdb_bgsave_in_progress", "0");
    assert_eq!((number(&mut client, "current_cow_size"), number(&mut client, "current_cow_peak")), (0, 0));
    assert!(number(&mut client, "rdb_last_cow_size") >= kept);
    assert_eq!(info(&mut client, "rdb_last_bgsave_status").as_deref(), Some("ok"));
    assert!(client.line("BGSAVE CANCEL").to_string().contains("not in progress"));
    assert!(!dump.exists());
    assert_eq!(client.line("CONFIG SET rdb-key-save-delay 0"), ok());
    assert_eq!(client.line("SAVE"), ok());
    assert_eq!(info(&mut client, "rdb_changes_since_last_save").as_deref(), Some("0"));
    assert_eq!((info(&mut client, "rdb_saves").as_deref(), dump.exists()), (Some("1"), true));
    assert_eq!(client.line("BGSAVE SCHEDULE"), Value::Simple(b"Background saving started".to_vec()));
    await_info(&mut client, "rdb_saves", "2");
    let took_s = number(&mut client, "rdb_last_bgsave_time_sec");
    assert!(took_s < 60, "{took_s} s");
    assert_eq!(client.line("LASTSAVE").to_string(), format!(":{}", info(&mut client, "rdb_last_save_time").unwrap()));
    let names: Vec<_> = fs::read_dir(server.directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("temp-")), "{names:?}");
}

#[test]
fn data_is_saved_by_save_points_and_at_the_end() {
    let directory = Directory::new("points");
    let flags = ["--dir", directory.path(), "--save", "1", "1", "--enable-debug-command", "yes"];
    let mut server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    assert_eq!(client.line("CONFIG GET save").to_string(), "*[$\"save\", $\"1 1\"]");
    assert_eq!(client.line("SET k 1"), ok());
    await_info(&mut client, "rdb_changes_since_last_save", "0");
    assert!(directory.dump().exists() && server.log().contains("1 changes in 1 seconds. Saving..."), "{}", server.log());
    assert_eq!(client.call(&["CONFIG", "SET", "save", "3600 1000"]).unwrap(), ok());
    assert_eq!(client.line("SET k 2"), ok());
    end(&mut server, &["SHUTDOWN"]);
    let mut server = Server::start(&Program::Almandine, &flags);
    await_info(&mut server.client(), "loading", "0");
    assert_eq!(server.client().line("GET k"), Value::Bulk(b"2".to_vec()));
    assert_eq!(info(&mut server.client(), "rdb_changes_since_last_save").as_deref(), Some("0"));
    // A signal saves, too.
    let mut client = server.client();
    assert_eq!(client.call(&["CONFIG", "SET", "save", "3600 1000"]).unwrap(), ok());
    assert_eq!(client.line("SET k 3"), ok());
    assert!(std::process::Command::new("kill").arg(server.pid().to_string()).status().unwrap().success());
    assert!(server.await_exit(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", server.log());
    let mut server = Server::start(&Program::Almandine, &flags);
    await_info(&mut server.client(), "loading", "0");
    assert_eq!(server.client().line("GET k"), Value::Bulk(b"3".to_vec()));
    // FLUSHALL saves that there is nothing.
    let mut client = server.client();
    assert_eq!(client.call(&["CONFIG", "SET", "save", "3600 1000"]).unwrap(), ok());
    assert_eq!(client.line("FLUSHALL"), ok());
    assert_eq!(info(&mut client, "rdb_changes_since_last_save").as_deref(), Some("0"));
    assert_eq!(client.line("SET k 4"), ok());
    end(&mut server, &["SHUTDOWN", "NOSAVE"]);
    let server = Server::start(&Program::Almandine, &flags);
    await_info(&mut server.client(), "loading", "0");
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(0));
}

#[test]
fn without_a_snapshot_writes_are_refused_and_the_server_stays() {
    let mut server = Server::start(&Program::Almandine, &["--save", "3600", "1000"]);
    let (mut client, dump) = (server.client(), server.directory().join("dump.rdb"));
    assert_eq!(client.line("SET k 1"), ok());
    // No file takes the place of a directory that has something in it.
    fs::create_dir_all(dump.join("full")).unwrap();
    // What fails before the client's eyes bars nothing.
    assert!(client.line("SAVE").to_string().contains("could not be written"));
    assert!(client.line("SHUTDOWN").to_string().contains("ERR Errors trying to SHUTDOWN. Check logs."));
    assert_eq!((client.line("SET k 1"), client.line("PING")), (ok(), Value::Simple(b"PONG".to_vec())));
    assert_eq!(info(&mut client, "rdb_last_bgsave_status").as_deref(), Some("ok"));
    assert_eq!(client.line("BGSAVE"), Value::Simple(b"Background saving started".to_vec()));
    await_info(&mut client, "rdb_last_bgsave_status", "err");
    let refused = |reply: Value| matches!(&reply, Value::Error(text) if text.starts_with(b"MISCONF Redis is configured to save"));
    assert!(refused(client.line("SET k 2")) && refused(client.line("PING")) && refused(client.line("DEL k")));
    assert_eq!(client.line("GET k"), Value::Bulk(b"1".to_vec()));
    assert!(client.line("SAVE").to_string().contains("could not be written"));
    assert_eq!(client.line("CONFIG SET stop-writes-on-bgsave-error no"), ok());
    assert_eq!(client.line("SET k 2"), ok());
    assert_eq!(client.line("CONFIG SET stop-writes-on-bgsave-error yes"), ok());
    assert!(client.line("SHUTDOWN").to_string().contains("ERR Errors trying to SHUTDOWN. Check logs."));
    assert_eq!(client.line("GET k"), Value::Bulk(b"2".to_vec()));
    assert!(std::process::Command::new("kill").arg(server.pid().to_string()).status().unwrap().success());
    while server.log().matches("can't exit. SHUTDOWN").count() < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.line("GET k"), Value::Bulk(b"2".to_vec()));
    fs::remove_dir_all(&dump).unwrap();
    assert_eq!(client.line("SAVE"), ok());
    assert_eq!((client.line("SET k 3"), client.line("PING")), (ok(), Value::Simple(b"PONG".to_vec())));
    fs::remove_file(&dump).unwrap();
    fs::create_dir_all(dump.join("full")).unwrap();
    end(&mut server, &["SHUTDOWN", "FORCE"]);
}

#[test]
fn the_data_is_loaded_anew_from_its_snapshot() {
    let server = Server::start(&Program::Almandine, &["--enable-debug-command", "yes"]);
    let mut client = server.client();
    fill(&mut client);
    let expected = contents(&mut client);
    assert_eq!(client.line("DEBUG RELOAD"), ok());
    assert_equal(&contents(&mut client), &expected);
    assert_eq!((client.line("DEL int short"), client.line("SET more 1")), (Value::Integer(2), ok()));
    // Keys that are there would be there twice.
    assert!(client.line("DEBUG RELOAD NOSAVE NOFLUSH").to_string().contains("Error trying to load"));
    assert_eq!(client.line("DEBUG RELOAD NOSAVE NOFLUSH MERGE"), ok());
    assert_eq!((client.line("EXISTS int short more"), client.line("DEBUG RELOAD NOSAVE")), (Value::Integer(3), ok()));
    assert_eq!(client.line("EXISTS more"), Value::Integer(0));
    assert_equal(&contents(&mut client), &expected);
    assert!(client.line("DEBUG RELOAD WHAT").to_string().contains("only supports"));
    assert_eq!((client.line("MULTI"), client.line("DEBUG RELOAD")), (ok(), Value::Simple(b"QUEUED".to_vec())));
    assert!(client.line("EXEC").to_string().contains("not allowed in a transaction"));
}

#[test]
fn libraries_of_functions_go_into_the_snapshot_and_come_from_it() {
    let load = |client: &mut Client, name: &str| {
        let code = format!("#!lua name=lib_{name}\nredis.register_function('{name}', function() return '{name}' end)");
        client.call(&[&b"FUNCTION"[..], b"LOAD", code.as_bytes()]).unwrap()
    };
    let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let directory = Directory::new("functions");
    {
        let server = Server::start(&Program::Redis, &["--dir", directory.path()]);
        let mut client = server.client();
        assert_eq!((load(&mut client, "theirs"), client.line("SAVE")), (bulk("lib_theirs"), ok()));
    }
    let flags = ["--dir", directory.path(), "--enable-debug-command", "yes"];
    {
        let mut server = Server::start(&Program::Almandine, &flags);
        let mut client = server.client();
        assert_eq!((load(&mut client, "ours"), client.line("FCALL theirs 0")), (bulk("lib_ours"), bulk("theirs")));
        assert_eq!((client.line("DEBUG RELOAD"), client.line("FCALL ours 0")), (ok(), bulk("ours")));
        assert!(client.line("DEBUG RELOAD NOSAVE NOFLUSH").to_string().contains("Error trying to load"));
        assert_eq!((load(&mut client, "more"), client.line("DEBUG RELOAD NOSAVE NOFLUSH MERGE")), (bulk("lib_more"), ok()));
        assert_eq!((client.line("FCALL more 0"), client.line("DEBUG RELOAD NOSAVE")), (bulk("more"), ok()));
        assert!(client.line("FCALL more 0").to_string().contains("Function not found"));
        end(&mut server, &["SHUTDOWN", "SAVE"]);
    }
    let flags = ["--dir", directory.path()];
    for program in [Program::Almandine, Program::Redis] {
        let server = Server::start(&program, &flags);
        let mut client = server.client();
        assert_eq!((client.line("FCALL theirs 0"), client.line("FCALL ours 0")), (bulk("theirs"), bulk("ours")));
    }
}

/// A server that may be asked while it loads: the fixture waits for the end of that.
struct Loading {
    child: std::process::Child,
    address: std::net::SocketAddr,
}

impl Loading {
    fn start(directory: &Directory) -> Self {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = fs::File::create(directory.0.join("log")).unwrap();
        let child = std::process::Command::new(almandine_testkit::server::almandine_path())
            .args(["--port", &address.port().to_string(), "--dir", directory.path(), "--key-load-delay", "20000"])
            .stdout(log)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    fn client(&self) -> Client {
        loop {
            if let Ok(client) = Client::connect(self.address) {
                return client;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn commands_are_refused_while_data_is_loaded() {
    let directory = Directory::new("loading");
    strings(&directory.dump(), 2000);
    let mut server = Loading::start(&directory);
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
    for files in ["dir /tmp", "appendonly yes"] {
        assert!(client.line(&format!("CONFIG SET {files}")).to_string().contains("LOADING"), "{files}");
    }
    assert_eq!(client.line("CONFIG SET key-load-delay 0"), ok());
    await_info(&mut client, "loading", "0");
    assert_eq!(client.line("GET key:1999"), Value::Bulk(b"value:1999".to_vec()));
    assert_eq!(info(&mut client, "loading_total_bytes"), None);
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded").as_deref(), Some("2000"));
    let log = fs::read_to_string(directory.0.join("log")).unwrap();
    for line in
        ["Done loading RDB, keys loaded: 2000, keys expired: 0.", "Loading RDB produced by version 7.0", "DB loaded from disk:"]
    {
        assert!(log.contains(line), "no '{line}' in {log}");
    }
    client.send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    assert!(server.child.wait().unwrap().success());
    // The end can be asked for meanwhile: what was not loaded is not saved over what there is.
    let mut server = Loading::start(&directory);
    let mut client = server.client();
    assert_eq!(info(&mut client, "loading").as_deref(), Some("1"));
    client.send(&[["SHUTDOWN", "SAVE"]]).unwrap();
    assert!(server.child.wait().unwrap().success());
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
