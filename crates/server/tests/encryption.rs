//! `log-key-file`: nothing of what clients wrote is readable in the log's files, keys are exchanged while writers write, and a log
//! is refused, and left as it is, without its key.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

const ONE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const TWO: &str = "two 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const PLANTED: &str = "a-value-that-nobody-is-to-read";

/// A directory of one test, that is removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-encryption-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn log(&self) -> PathBuf {
        self.0.join("appendonlydir")
    }

    fn keys(&self) -> String {
        self.0.join("log.keys").to_string_lossy().into_owned()
    }

    fn write_keys(&self, text: &str, mode: u32) {
        fs::write(self.keys(), text).unwrap();
        fs::set_permissions(self.keys(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn flags<'f>(&'f self, more: &[&'f str]) -> Vec<&'f str> {
        let path = self.0.to_str().unwrap();
        [&["--appendonly", "yes", "--ring-dir", path, "--dir", path, "--log-segment-size", "4mb"], more].concat()
    }

    fn start(&self) -> Server {
        let keys = self.keys();
        Server::start(&Program::Almandine, &self.flags(&["--log-key-file", &keys]))
    }

    fn start_plain(&self) -> Server {
        Server::start(&Program::Almandine, &self.flags(&[]))
    }

    fn refusal(&self, more: &[&str]) -> String {
        Server::try_start(&Program::Almandine, &self.flags(more), &[]).err().unwrap_or_else(|| panic!("{more:?} started"))
    }

    fn contents(&self) -> BTreeMap<std::ffi::OsString, Vec<u8>> {
        let entries = fs::read_dir(self.log()).unwrap().map(|entry| entry.unwrap());
        // One may be removed meanwhile, by a server that runs.
        let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let read = |path: PathBuf| fs::read(path).map(Some).or_else(|error| if is_gone(&error) { Ok(None) } else { Err(error) });
        entries.filter_map(|entry| Some((entry.file_name(), read(entry.path()).unwrap()?))).collect()
    }

    /// The files of the log in which what clients have written is found.
    fn planted(&self) -> Vec<String> {
        let has = |bytes: &[u8]| bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes());
        self.contents().into_iter().filter(|(_, bytes)| has(bytes)).map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }

    /// The names of the keys that the manifest tells.
    fn named(&self) -> Vec<String> {
        let manifest = fs::read_to_string(self.log().join("MANIFEST")).unwrap();
        let name = |line: &str| line.split_once(" key ").map(|(_, key)| key.split(' ').next().unwrap().to_owned());
        let mut names: Vec<String> = manifest.lines().filter_map(name).collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn error(value: &Value) -> String {
    let Value::Error(text) = value else { panic!("no error: {value}") };
    String::from_utf8_lossy(text).into_owned()
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).unwrap_or_default()
}

/// A new base; how that ended.
fn rewrite(client: &mut Client) -> String {
    let ended = |client: &mut Client| (info(client, "aof_rewrites"), info(client, "aof_rewrites_consecutive_failures"));
    let before = ended(client);
    assert!(matches!(client.line("BGREWRITEAOF"), Value::Simple(_)));
    let until = Instant::now() + Duration::from_secs(60);
    while info(client, "aof_rewrite_in_progress") != "0" || info(client, "aof_rewrite_scheduled") != "0" || ended(client) == before
    {
        assert!(Instant::now() < until, "no end of the rewriting");
        thread::sleep(Duration::from_millis(5));
    }
    info(client, "aof_last_bgrewrite_status")
}

fn plant(client: &mut Client, name: &str) {
    for number in 0..50 {
        assert_eq!(client.call(&["SET", &format!("{PLANTED}:{name}:{number}"), PLANTED]).unwrap(), ok());
        assert!(matches!(client.call(&["HSET", &format!("hash:{name}"), &format!("{number}"), PLANTED]), Ok(Value::Integer(_))));
    }
    assert!(matches!(client.call(&["SET", &format!("large:{name}"), &PLANTED.repeat(50_000)]), Ok(Value::Simple(_))));
    client.line("WAITAOF 1 0 10000");
}

fn assert_planted(client: &mut Client, names: &[&str]) {
    for name in names {
        assert_eq!(client.line(&format!("GET {PLANTED}:{name}:49")), Value::Bulk(PLANTED.into()), "{name}");
        assert_eq!(client.line(&format!("HLEN hash:{name}")), Value::Integer(50), "{name}");
        assert_eq!(client.line(&format!("STRLEN large:{name}")), Value::Integer(i64::try_from(PLANTED.len() * 50_000).unwrap()));
    }
}

/// In bases, segments, what the rings of a killed server left, and behind what was plain before.
#[test]
fn what_clients_wrote_is_in_no_file_of_an_encrypted_log() {
    let folder = Folder::new("planted");
    folder.write_keys(ONE, 0o600);
    let mut plain = folder.start_plain();
    plant(&mut plain.client(), "plain");
    plain.kill();
    assert!(!folder.planted().is_empty(), "the scan finds it");
    assert_eq!(folder.named(), Vec::<String>::new());
    drop(plain);
    let mut server = folder.start();
    assert_planted(&mut server.client(), &["plain"]);
    plant(&mut server.client(), "log");
    assert_eq!(rewrite(&mut server.client()), "ok", "{}", server.log());
    assert_eq!((folder.planted(), folder.named()), (Vec::new(), vec!["one".to_owned()]), "{}", server.log());
    plant(&mut server.client(), "behind");
    for name in ["killed", "again"] {
        plant(&mut server.client(), name);
        server.kill();
        assert_eq!(folder.planted(), Vec::<String>::new());
        server.start_again();
    }
    assert_planted(&mut server.client(), &["plain", "log", "behind", "killed", "again"]);
    // Off again.
    let mut client = server.client();
    assert_eq!(client.call(&["CONFIG", "SET", "log-key-file", ""]).unwrap(), ok());
    plant(&mut client, "off");
    assert_eq!(rewrite(&mut client), "ok");
    assert_eq!(folder.named(), Vec::<String>::new());
    server.kill();
    drop(server);
    let server = folder.start_plain();
    assert_planted(&mut server.client(), &["plain", "log", "behind", "killed", "again", "off"]);
}

#[test]
fn without_its_key_a_log_is_refused_and_left_as_it_is() {
    let folder = Folder::new("refused");
    folder.write_keys(ONE, 0o600);
    let mut server = folder.start();
    plant(&mut server.client(), "log");
    server.kill();
    drop(server);
    let before = folder.contents();
    let keys = folder.keys();
    let told = folder.refusal(&[]);
    assert!(told.contains("encrypted with the key 'one'") && told.contains("no key file is given"), "{told}");
    folder.write_keys(TWO, 0o600);
    let told = folder.refusal(&["--log-key-file", &keys]);
    assert!(told.contains("encrypted with the key 'one', which the key file does not have"), "{told}");
    folder.write_keys(&TWO.replace("two", "one"), 0o400);
    let told = folder.refusal(&["--log-key-file", &keys]);
    assert!(told.contains("another key 'one'"), "{told}");
    folder.write_keys(ONE, 0o640);
    let told = folder.refusal(&["--log-key-file", &keys]);
    assert!(told.contains("mode 640") && told.contains("chmod 600"), "{told}");
    folder.write_keys("one 0123", 0o600);
    let told = folder.refusal(&["--log-key-file", &keys]);
    assert!(told.contains("line 1 is no key") && !told.contains("0123"), "{told}");
    let told = folder.refusal(&["--log-key-file", "/nowhere/log.keys"]);
    assert!(told.contains("/nowhere/log.keys"), "{told}");
    assert!(folder.contents() == before, "nothing was changed");
    folder.write_keys(ONE, 0o600);
    assert_planted(&mut folder.start().client(), &["log"]);
}

/// Clients that count in a key each, until they are told to stop: how far they were told.
fn count(server: &Server, stop: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<i64>> {
    let clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let count = |number: usize, mut client: Client, stop: &AtomicBool| {
        let mut told = 0;
        while !stop.load(Ordering::Relaxed) {
            match client.line(&format!("INCR count:{number}")) {
                Value::Integer(now) => told = now,
                other => panic!("{other}"),
            }
        }
        told
    };
    let threads = clients.into_iter().enumerate().map(|(number, client)| {
        let stop = Arc::clone(stop);
        thread::spawn(move || count(number, client, &stop))
    });
    threads.collect()
}

#[test]
fn keys_are_exchanged_while_writers_write_and_the_former_ones_go() {
    let folder = Folder::new("rotation");
    let keys = folder.keys();
    folder.write_keys(ONE, 0o600);
    let mut server = folder.start();
    let mut client = server.client();
    let stop = Arc::new(AtomicBool::new(false));
    let counters = count(&server, &stop);
    plant(&mut client, "one");
    let set = |client: &mut Client| client.call(&["CONFIG", "SET", "log-key-file", &keys]).unwrap();
    // Without the former key a restart would be refused.
    folder.write_keys(TWO, 0o600);
    let told = error(&set(&mut client));
    assert!(told.contains("'one'") && told.contains("Keep the former keys behind the new one"), "{told}");
    assert_eq!(rewrite(&mut client), "err", "a base that was asked for reads the file, too");
    folder.write_keys(&format!("{TWO}{ONE}"), 0o644);
    assert!(error(&set(&mut client)).contains("mode 644"));
    assert_eq!(folder.named(), ["one"]);
    folder.write_keys(&format!("{TWO}{ONE}"), 0o600);
    assert_eq!(set(&mut client), ok());
    plant(&mut client, "both");
    assert_eq!(folder.named(), ["one", "two"]);
    // The base and what is behind it need the new key alone.
    assert_eq!(rewrite(&mut client), "ok", "{}", server.log());
    assert_eq!(folder.named(), ["two"]);
    folder.write_keys(TWO, 0o600);
    assert_eq!(set(&mut client), ok());
    // By BGREWRITEAOF alone.
    folder.write_keys(&format!("{ONE}{TWO}"), 0o600);
    assert_eq!(rewrite(&mut client), "ok", "{}", server.log());
    assert_eq!(folder.named(), ["one"]);
    folder.write_keys(ONE, 0o600);
    stop.store(true, Ordering::Relaxed);
    let told: Vec<i64> = counters.into_iter().map(|counter| counter.join().unwrap()).collect();
    server.kill();
    assert_eq!(folder.planted(), Vec::<String>::new());
    server.start_again();
    let mut client = server.client();
    for (number, told) in told.into_iter().enumerate() {
        assert_eq!(client.line(&format!("GET count:{number}")), Value::Bulk(told.to_string().into_bytes()));
        assert!(told > 0);
    }
    assert_planted(&mut client, &["one", "both"]);
    // By a restart.
    folder.write_keys(&format!("{TWO}{ONE}"), 0o600);
    server.kill();
    server.start_again();
    assert_planted(&mut server.client(), &["one", "both"]);
    assert_eq!(folder.named(), ["one", "two"]);
}

/// A log that is begun while the server runs, and a restored backup beside its original.
#[test]
fn a_log_that_begins_later_and_a_backup_are_encrypted() {
    let (folder, restored) = (Folder::new("later"), Folder::new("restored"));
    let keys = folder.keys();
    folder.write_keys(ONE, 0o600);
    let path = folder.0.to_str().unwrap();
    let server = Server::start(
        &Program::Almandine,
        &["--ring-dir", path, "--dir", path, "--enable-debug-command", "yes", "--log-key-file", &keys],
    );
    let mut client = server.client();
    plant(&mut client, "before");
    assert_eq!(client.line("CONFIG SET appendonly yes"), ok());
    let until = Instant::now() + Duration::from_secs(60);
    while info(&mut client, "aof_rewrite_in_progress") != "0" || folder.named().is_empty() {
        assert!(Instant::now() < until, "{}", server.log());
        thread::sleep(Duration::from_millis(5));
    }
    plant(&mut client, "log");
    assert_eq!(folder.planted(), Vec::<String>::new());
    assert_eq!(client.line("DEBUG LOADAOF"), ok(), "{}", server.log());
    assert_eq!(client.line("BACKUP START"), ok());
    while !client.line("BACKUP STATUS").to_string().contains("incrementing") {
        assert!(Instant::now() < until, "{}", server.log());
        thread::sleep(Duration::from_millis(5));
    }
    plant(&mut client, "backup");
    assert!(!matches!(client.line("BACKUP SEAL"), Value::Error(_)));
    let Value::Array(files) = client.line("BACKUP LIST") else { panic!("no files") };
    fs::create_dir_all(restored.log()).unwrap();
    for file in files {
        let Value::Bulk(file) = file else { panic!("no file") };
        let file = PathBuf::from(String::from_utf8(file).unwrap());
        fs::copy(&file, restored.log().join(Path::new(file.file_name().unwrap()))).unwrap();
    }
    assert!(restored.refusal(&[]).contains("'one'"));
    restored.write_keys(ONE, 0o600);
    let second = restored.start();
    assert_planted(&mut second.client(), &["before", "log", "backup"]);
    plant(&mut second.client(), "second");
    plant(&mut client, "first");
    assert_eq!((folder.planted(), restored.planted()), (Vec::new(), Vec::new()));
}
