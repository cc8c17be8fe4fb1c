//! `log-key-file` with `storage-dir`: nothing of what clients wrote is readable in any file, pages are read with the keys that they
//! were written with, and a start without one of these is refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use almandine_oplog::LogKeys;
use almandine_oplog::directory::{base_path, read_manifest};
use almandine_testkit::{Client, Program, Server, Value};

const ONE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const TWO: &str = "two 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const PLANTED: &str = "what-nobody-is-to-read";
/// Keys of a name, which are more than memory has room for.
const KEYS: u64 = 12_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// A directory of one test, that is removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-encryption-storage-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        // Rings are memory, which is not encrypted.
        fs::create_dir_all(path.join("data")).unwrap();
        Self(path)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn keys(&self) -> String {
        self.0.join("log.keys").to_string_lossy().into_owned()
    }

    fn write_keys(&self, text: &str) {
        fs::write(self.keys(), text).unwrap();
        fs::set_permissions(self.keys(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn flags(&self, log: bool, keys: bool) -> Vec<String> {
        let (data, storage) = (self.data(), self.data().join("storage"));
        let mut flags = vec!["--dir", data.to_str().unwrap(), "--ring-dir", self.0.to_str().unwrap(), "--save", ""];
        flags.extend(["--storage-dir", storage.to_str().unwrap(), "--maxmemory", "16mb", "--storage-segment-size", "16mb"]);
        flags.extend(["--appendonly", if log { "yes" } else { "no" }, "--log-segment-size", "4mb"]);
        let file = self.keys();
        flags.extend(if keys { vec!["--log-key-file", &file] } else { Vec::new() });
        flags.into_iter().map(str::to_owned).collect()
    }

    fn start(&self, keys: bool) -> Server {
        start(&self.flags(true, keys))
    }

    fn refusal(&self, keys: bool) -> String {
        let flags = self.flags(true, keys);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_else(|| panic!("it started"))
    }

    /// All files below the directory of the data, and the time of their last change.
    fn files(&self) -> BTreeMap<PathBuf, (u64, std::time::SystemTime)> {
        let (mut files, mut directories) = (BTreeMap::new(), vec![self.data()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    directories.push(entry.path());
                } else if entry.file_name() != "almandine.lock" && entry.file_name() != "LOCK" {
                    files.insert(entry.path(), (metadata.len(), metadata.modified().unwrap()));
                }
            }
        }
        files
    }

    /// The files in which keys or values of clients are found.
    fn planted(&self) -> Vec<PathBuf> {
        let has = |bytes: &[u8]| bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes());
        // One may be removed meanwhile, by a server that runs.
        self.files().into_keys().filter(|path| fs::read(path).is_ok_and(|bytes| has(&bytes))).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(flags: &[String]) -> Server {
    Server::start(&Program::Almandine, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO everything") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).unwrap_or_else(|| panic!("no {field}"))
}

fn rewrite(client: &mut Client) {
    let (before, began) = (info(client, "aof_rewrites"), Instant::now());
    // One may be under way, for the space that the one before keeps.
    while client.line("BGREWRITEAOF").is_error() || info(client, "aof_rewrites") == before {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    while info(client, "aof_rewrite_in_progress") != "0" {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
}

fn value(name: &str, number: u64) -> String {
    let len = match number % 400 {
        0 => 300_000,
        1..4 => 20_000,
        _ => 100 + number as usize * 37 % 4_000,
    };
    format!("{PLANTED}={name}={number};").chars().cycle().take(len).collect()
}

fn pipeline(client: &mut Client, commands: &[Vec<String>]) -> Vec<Value> {
    let replies = commands.chunks(100).flat_map(|part| client.pipeline(part).unwrap());
    replies.inspect(|reply| assert!(!reply.is_error(), "{reply}")).collect()
}

fn plant(client: &mut Client, name: &str) {
    let sets: Vec<Vec<String>> = (0..KEYS)
        .map(|number| vec!["SET".to_owned(), format!("{PLANTED}:{name}:{number}"), value(name, number)])
        .chain((0..KEYS / 10).map(|number| {
            let (key, field) = (format!("{PLANTED}:hash:{name}:{}", number / 20), format!("{PLANTED}{number}"));
            vec!["HSET".to_owned(), key, field, number.to_string()]
        }))
        .collect();
    pipeline(client, &sets);
    client.line("WAITAOF 1 0 10000");
}

fn assert_planted(client: &mut Client, names: &[&str]) {
    for name in names {
        let gets: Vec<Vec<String>> = (0..KEYS).map(|number| vec!["GET".to_owned(), format!("{PLANTED}:{name}:{number}")]).collect();
        for (number, found) in (0..).zip(pipeline(client, &gets)) {
            assert!(found == Value::Bulk(value(name, number).into()), "{name} {number}: {} bytes", found.to_string().len());
        }
        for hash in 0..KEYS / 200 {
            assert_eq!(client.line(&format!("HLEN {PLANTED}:hash:{name}:{hash}")), Value::Integer(20), "{name} {hash}");
        }
    }
}

/// Pages that a key has, as INFO says.
fn pages_of(client: &mut Client, key: &str) -> u64 {
    let keys = info(client, "storage_keys");
    let of = |word: &str| word.split_once('=').filter(|(name, _)| *name == key).map(|(_, pages)| pages.parse().unwrap());
    keys.split(',').find_map(of).unwrap_or(0)
}

/// From plain pages to those of a key, to those of another one, by kills and restarts.
#[test]
fn what_clients_wrote_is_in_no_file_and_keys_are_exchanged() {
    let folder = Folder::new("planted");
    folder.write_keys(ONE);
    let mut server = folder.start(true);
    let mut client = server.client();
    plant(&mut client, "one");
    assert!(pages_of(&mut client, "one") > 5 && pages_of(&mut client, "plain") == 0, "{}", info(&mut client, "storage_keys"));
    rewrite(&mut client);
    assert_planted(&mut client, &["one"]);
    server.kill();
    assert_eq!(folder.planted(), Vec::<PathBuf>::new());
    server.start_again();
    let mut client = server.client();
    assert_planted(&mut client, &["one"]);
    plant(&mut client, "again");

    // Another key.
    folder.write_keys(&format!("{TWO}{ONE}"));
    let keys = folder.keys();
    let set = |client: &mut Client| client.call(&["CONFIG", "SET", "log-key-file", &keys]).unwrap();
    assert_eq!(set(&mut client), Value::Simple(b"OK".to_vec()));
    plant(&mut client, "two");
    rewrite(&mut client);
    assert!(pages_of(&mut client, "one") > 0 && pages_of(&mut client, "two") > 5, "{}", info(&mut client, "storage_keys"));
    folder.write_keys(TWO);
    let refused = set(&mut client).to_string();
    assert!(refused.contains("'one'") && refused.contains("storage_keys"), "{refused}");
    folder.write_keys(&format!("{TWO}{ONE}"));
    plant(&mut client, "behind");
    server.kill();
    assert_eq!(folder.planted(), Vec::<PathBuf>::new());

    // Not without the former one.
    let before = folder.files();
    for (text, why) in
        [(TWO.to_owned(), "'one', which the key file does not have"), (TWO.replace("two", "one") + TWO, "another key 'one'")]
    {
        folder.write_keys(&text);
        let told = folder.refusal(true);
        assert!(told.contains(why), "{told}");
    }
    assert!(folder.refusal(false).contains("no key file is given"));
    assert!(folder.files() == before, "nothing was changed");
    folder.write_keys(&format!("{TWO}{ONE}"));
    server.start_again();
    assert_planted(&mut server.client(), &["one", "again", "two", "behind"]);
    drop(server);

    // What lies there is checked without a key, but for the large values.
    let log = folder.data().join("appendonlydir");
    let manifest = read_manifest(&log).unwrap().unwrap();
    let table = base_path(&log, manifest.base.unwrap().number, 1);
    let keys = Arc::new(LogKeys::read(Path::new(&folder.keys())).unwrap());
    let read = |keys| almandine_server::read_pages(&table, &[folder.data().join("storage")], (manifest.id, keys)).unwrap();
    let (with, without) = (read(Some(keys)), read(None));
    assert_eq!((with.pages, with.opaque), (without.pages, 0));
    assert!(without.opaque > 0 && with.bytes > without.bytes, "{with:?} {without:?}");
}

/// Pages stay as they were written.
#[test]
fn a_storage_that_was_plain_becomes_encrypted_page_by_page_and_back() {
    let folder = Folder::new("later");
    folder.write_keys(ONE);
    let server = folder.start(false);
    plant(&mut server.client(), "plain");
    rewrite(&mut server.client());
    drop(server);
    assert!(!folder.planted().is_empty(), "the scan finds it");
    let mut server = folder.start(true);
    let mut client = server.client();
    plant(&mut client, "encrypted");
    rewrite(&mut client);
    assert!(pages_of(&mut client, "one") > 0 && pages_of(&mut client, "plain") > 0, "{}", info(&mut client, "storage_keys"));
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_planted(&mut client, &["plain", "encrypted"]);
    assert_eq!(client.call(&["CONFIG", "SET", "log-key-file", ""]).unwrap(), Value::Simple(b"OK".to_vec()));
    let before = pages_of(&mut client, "plain");
    plant(&mut client, "off");
    rewrite(&mut client);
    assert!(pages_of(&mut client, "plain") > before && pages_of(&mut client, "one") > 0);
    server.kill();
    drop(server);
    assert!(folder.refusal(false).contains("'one'"), "its pages need the key");
    assert_planted(&mut folder.start(true).client(), &["plain", "encrypted", "off"]);
}

/// What is copied is what lies there, and a restored server goes on beside its original.
#[test]
fn a_backup_is_encrypted_and_needs_the_key() {
    let (folder, restored) = (Folder::new("backup"), Folder::new("restored"));
    folder.write_keys(ONE);
    let server = folder.start(true);
    let mut client = server.client();
    plant(&mut client, "before");
    assert_eq!(client.line("BACKUP START"), Value::Simple(b"OK".to_vec()));
    let began = Instant::now();
    while !client.line("BACKUP STATUS").to_string().contains("incrementing") {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
    plant(&mut client, "later");
    assert!(!client.line("BACKUP SEAL").is_error());
    let Value::Array(files) = client.line("BACKUP LIST") else { panic!("no files") };
    for file in files {
        let Value::Bulk(file) = file else { panic!("no file") };
        let file = PathBuf::from(String::from_utf8(file).unwrap());
        let at = file.iter().position(|part| part == "storage");
        let to = at.map_or_else(
            || restored.data().join("appendonlydir").join(file.file_name().unwrap()),
            |at| restored.data().join(file.iter().skip(at).collect::<PathBuf>()),
        );
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&file, to).unwrap();
    }
    assert!(restored.files().keys().any(|path| path.ends_with("000000000000.segment")), "{:?}", restored.files());
    assert_eq!(restored.planted(), Vec::<PathBuf>::new());
    assert!(restored.refusal(false).contains("'one'"));
    restored.write_keys(ONE);
    let second = restored.start(true);
    assert_planted(&mut second.client(), &["before", "later"]);
    plant(&mut second.client(), "second");
    plant(&mut client, "first");
    assert_eq!((folder.planted(), restored.planted()), (Vec::new(), Vec::new()));
    assert_planted(&mut client, &["before", "later", "first"]);
}

#[test]
fn without_a_log_what_leaves_memory_is_encrypted_too() {
    let folder = Folder::new("volatile");
    folder.write_keys(ONE);
    for keys in [false, true] {
        let server = start(&folder.flags(false, keys));
        let mut client = server.client();
        plant(&mut client, "passing");
        assert_planted(&mut client, &["passing"]);
        assert_eq!(folder.planted().is_empty(), keys);
        assert!(pages_of(&mut client, if keys { "one" } else { "plain" }) > 0);
    }
}

/// Its base names pages, which a start is to read.
#[test]
fn a_log_that_begins_needs_the_keys_of_pages() {
    let folder = Folder::new("begins");
    folder.write_keys(ONE);
    let mut server = start(&folder.flags(false, true));
    let mut client = server.client();
    plant(&mut client, "one");
    folder.write_keys(TWO);
    let refused = client.line("CONFIG SET appendonly yes").to_string();
    assert!(refused.contains("'one'") && info(&mut client, "aof_enabled") == "0", "{refused}");
    folder.write_keys(&format!("{TWO}{ONE}"));
    assert_eq!(client.line("CONFIG SET appendonly yes"), Value::ok());
    plant(&mut client, "two");
    rewrite(&mut client);
    assert!(pages_of(&mut client, "one") > 0 && pages_of(&mut client, "two") > 5, "{}", info(&mut client, "storage_keys"));
    server.kill();
    assert_eq!(folder.planted(), Vec::<PathBuf>::new());
    drop(server);
    assert_planted(&mut folder.start(true).client(), &["one", "two"]);
}
