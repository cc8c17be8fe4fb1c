//! The program on logs that are encrypted, with their keys, with others and without any.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod locked;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use almandine_oplog::Fault;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::{Directory, read_manifest, segment_path};
use almandine_oplog::read::{BodyAccess, read_with};
use almandine_oplog::{LogKeys, RingId, UnitHead};
use almandine_testkit::{Program, Server, Value as Reply};
use locked::until_free;
use serde_json::Value;

const ONE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const TWO: &str = "two 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-check-encryption-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        folder.keys("one", ONE);
        folder.keys("two", TWO);
        folder
    }

    /// A key file beside the log.
    fn keys(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// A log of two runs with five groups of two units each in the last segment.
    fn filled(name: &str) -> Self {
        let folder = Self::new(name);
        drop(begin(&folder.log()));
        let mut log = begin(&folder.log());
        for epoch in 1..=5 {
            let units = [unit(epoch, 1), unit(epoch, 2)].concat();
            log.append(epoch, true, &mut |group| group.push(RingId(3), &units)).unwrap();
        }
        log.seal(true).unwrap();
        folder
    }

    /// A command on the log, and the key file by its name.
    fn run(&self, arguments: &[&str], keys: Option<&str>) -> (i32, Value) {
        let mut all = vec![arguments[0].to_owned(), self.log().to_string_lossy().into_owned()];
        all.extend(arguments[1..].iter().map(|&argument| argument.to_owned()));
        self.run_with(&all, keys)
    }

    fn run_with(&self, arguments: &[String], keys: Option<&str>) -> (i32, Value) {
        until_free(|| self.run_once(arguments, keys), |(_, said)| said["fault"]["kind"] == "locked")
    }

    fn run_once(&self, arguments: &[String], keys: Option<&str>) -> (i32, Value) {
        let keys = keys.map(|name| ["--key-file".to_owned(), self.0.join(name).to_string_lossy().into_owned()]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
        let output = command.arg("--json").args(keys.into_iter().flatten()).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (output.status.code().unwrap(), value)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn begin(path: &Path) -> Appender {
    let keys = Arc::new(LogKeys::parse(ONE.as_bytes()).unwrap());
    let directory = until_free(|| Directory::take(path), |taken| matches!(taken, Err(Fault::Locked(_)))).unwrap();
    let manifest = directory.manifest().unwrap();
    let end = read_with((path, BodyAccess::Keys(&keys)), &manifest, 0, &mut |_| Ok(())).unwrap();
    let options = LogOptions { segment_bytes: 64 << 10, keys, ..LogOptions::default() };
    Appender::begin(directory, manifest, &end, &options, &[], Box::new(|| {})).unwrap()
}

fn unit(epoch: u64, count: u64) -> Vec<u8> {
    [&UnitHead { number: (epoch << 18) + count, bytes: 7, entries: 1 }.encode()[..], b"entries"].concat()
}

#[test]
fn a_whole_log_is_verified_and_shown_with_its_key_and_by_its_sums() {
    let folder = Folder::filled("whole");
    for keys in [None, Some("one")] {
        let (code, said) = folder.run(&["verify"], keys);
        assert_eq!((code, &said["units"], &said["groups"], &said["keys"][0]), (0, &10.into(), &5.into(), &"one".into()));
        assert_eq!(said["decrypted"].is_null(), keys.is_some());
        let (code, said) = folder.run(&["show", "--units"], keys);
        assert_eq!((code, said["groups_found"].as_array().unwrap().len()), (0, 6));
        assert_eq!(said["groups_found"][4]["units"], 2);
        assert_eq!(said["units_found"].as_array().map_or(0, Vec::len), if keys.is_some() { 10 } else { 0 });
        assert_eq!(folder.run(&["cut"], keys).0, 0);
        assert_eq!(folder.run(&["repair"], keys).0, 0);
    }
    for command in ["verify", "show", "cut", "repair"] {
        let (code, said) = folder.run(&[command], Some("two"));
        assert_eq!((code, &said["fault"]["kind"]), (3, &"key".into()), "{command}: {said}");
    }
    fs::set_permissions(folder.0.join("one"), fs::Permissions::from_mode(0o604)).unwrap();
    let (code, said) = folder.run(&["verify"], Some("one"));
    assert!(code == 3 && said["fault"]["text"].as_str().unwrap().contains("mode 604"), "{said}");
}

#[test]
fn a_damaged_group_is_found_and_cut_with_the_key_and_without() {
    for keys in [None, Some("one")] {
        let folder = Folder::filled(keys.unwrap_or("none"));
        let path = segment_path(&folder.log(), 2);
        let mut bytes = fs::read(&path).unwrap();
        bytes[2 * 4096 + 200] ^= 1;
        fs::write(&path, bytes).unwrap();
        let (code, said) = folder.run(&["verify"], keys);
        assert_eq!((code, &said["fault"]["kind"], &said["fault"]["offset"]), (1, &"damaged".into(), &8192.into()));
        let (code, said) = folder.run(&["cut", "--yes"], keys);
        assert_eq!((code, &said["done"]), (0, &Value::Bool(true)));
        let (code, said) = folder.run(&["verify"], Some("one"));
        assert_eq!((code, &said["units"], &said["clean"]), (0, &4.into(), &Value::Bool(true)));
        assert_eq!(read_manifest(&folder.log()).unwrap().unwrap().segments.last().unwrap().key.is_some(), keys.is_some());
    }
}

#[test]
fn a_manifest_is_made_anew_with_the_keys_of_its_segments() {
    let folder = Folder::filled("manifest");
    let whole = read_manifest(&folder.log()).unwrap().unwrap();
    fs::remove_file(folder.log().join("MANIFEST")).unwrap();
    assert_eq!(folder.run(&["repair", "--yes"], Some("two")).1["fault"]["kind"], "key");
    assert_eq!(folder.run(&["repair", "--yes"], None).0, 0);
    let made = read_manifest(&folder.log()).unwrap().unwrap();
    assert_eq!(made.segments.last(), whole.segments.last());
    assert_eq!(folder.run(&["verify"], Some("one")).1["units"], 10);
}

/// A snapshot becomes a log that is encrypted, and that a snapshot again with the key alone.
#[test]
fn a_log_is_converted_with_its_key() {
    let folder = Folder::new("convert");
    let path = folder.0.to_str().unwrap();
    let server = Server::start(&Program::Almandine, &["--dir", path, "--save", ""]);
    assert_eq!(server.client().line("MSET planted-key planted-value b 2"), Reply::Simple(b"OK".to_vec()));
    assert_eq!(server.client().line("SAVE"), Reply::Simple(b"OK".to_vec()));
    drop(server);
    let convert = |from: &str, to: &str, form: &str, keys: Option<&str>| {
        let path = |name: &str| folder.0.join(name).to_string_lossy().into_owned();
        folder.run_with(&["convert".to_owned(), "--form".to_owned(), form.to_owned(), path(from), path(to)], keys)
    };
    assert_eq!(convert("dump.rdb", "log", "log", Some("one")).0, 0);
    let base = fs::read(folder.log().join("base-00000001.0")).unwrap();
    assert!(!base.windows(7).any(|bytes| bytes == b"planted"));
    assert_eq!(folder.run(&["verify"], None).1["base_keys"], 2);
    assert_eq!(folder.run(&["verify"], Some("one")).1["base_keys"], 2);
    let (code, said) = convert("log", "none.rdb", "rdb", None);
    assert!(code != 0 && said["fault"]["text"].as_str().unwrap().contains("'one'"), "{said}");
    assert_ne!(convert("log", "none.rdb", "rdb", Some("two")).0, 0);
    assert!(!folder.0.join("none.rdb").exists());
    let (code, said) = convert("log", "again.rdb", "rdb", Some("one"));
    assert_eq!((code, &said["keys"]), (0, &2.into()), "{said}");
}

/// Pages in `storage-dir` have their checksums without the key; large values are found with it.
#[test]
fn pages_of_a_storage_are_checked_with_and_without_the_key() {
    let folder = Folder::new("storage");
    let (path, keys, storage) = (folder.0.to_str().unwrap(), folder.0.join("one"), folder.0.join("storage"));
    let (keys, storage) = (keys.to_str().unwrap(), storage.to_str().unwrap());
    let flags = ["--dir", path, "--ring-dir", path, "--appendonly", "yes", "--appenddirname", "log", "--save", ""];
    let more = ["--storage-dir", storage, "--maxmemory", "16mb", "--log-key-file", keys];
    let mut server = Server::start(&Program::Almandine, &[&flags[..], &more].concat());
    let mut client = server.client();
    let sets = (0..9_000_usize).map(|key| {
        let len = if key % 50 == 0 { 40_000 } else { 3_000 };
        ["SET".to_owned(), format!("key:{key}"), "v".repeat(len)]
    });
    for part in sets.collect::<Vec<_>>().chunks(100) {
        assert!(client.pipeline(part).unwrap().iter().all(|reply| !reply.is_error()));
    }
    let field = |client: &mut almandine_testkit::Client, name: &str| {
        let Reply::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned)).unwrap()
    };
    let before = field(&mut client, "aof_rewrites");
    while client.line("BGREWRITEAOF").is_error() || field(&mut client, "aof_rewrites") == before {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    while field(&mut client, "aof_rewrite_in_progress") != "0" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.kill();
    drop(server);

    let (code, plain) = folder.run(&["verify"], None);
    assert_eq!((code, &plain["storage_keys"][0]), (0, &Value::from("one")), "{plain}");
    let verify = |keys| folder.run(&["verify", "--storage-dir", storage], keys);
    let ((code, without), (with_code, with)) = (verify(None), verify(Some("one")));
    assert_eq!((code, with_code), (0, 0), "{without} {with}");
    assert!(
        without["storage_pages"].as_u64().unwrap() > 5 && without["storage_pages"] == with["storage_pages"],
        "{without} {with}"
    );
    assert!(without["storage_pages_opaque"].as_u64().unwrap() > 0 && with["storage_pages_opaque"].is_null(), "{without} {with}");
    assert_ne!(verify(Some("two")).0, 0);
    // A block that is not what was written is found without the key.
    let segments = folder.0.join("storage/log");
    let segment = fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|end| end == "segment")).min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    // The base need not name the page that was written last.
    bytes.chunks_mut(2 << 20).for_each(|page| page[100] ^= 1);
    fs::write(&segment, &bytes).unwrap();
    assert_ne!(verify(None).0, 0, "a damaged block");
}
