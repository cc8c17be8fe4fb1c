//! Files of redis-server read, ours read by it.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use almandine_rdb::file::{Entry, EntryMetadata, FileReader, FileWriter, Item, ReadOptions, WriteOptions, WriteVersion};

use super::contents::{Contents, read, read_bytes};
use super::oracle::{Oracle, Random, Reply};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-rdb-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ask(oracle: &mut Oracle, line: &str) -> Reply {
    let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let reply = oracle.ask_all(&[words]).remove(0);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    reply
}

/// Keys of every type and encoding of redis-server 7.0, in two databases.
fn fill(oracle: &mut Oracle) {
    let long = "abc".repeat(50);
    let script = format!(
        "SET int8 12\nSET int16 -1234\nSET int32 123456789\nSET int64 1234567890123\nSET short text\nSET long {long}\n\
         RPUSH packed 1 two 3\nSADD ints 1 2 70000\nSADD members a b c 12\nZADD scores 1.5 a -2 b inf c\n\
         HSET fields a 1 b {long}\nPFADD hll a b c\nSETBIT bits 70000 1\nGEOADD geo 13.361389 38.115556 Palermo\n\
         XADD stream 1-1 a 1 b 2\nXADD stream 1-2 a 3 b 4\nXADD stream 2-1 c {long}\nXADD stream 3-0 d 1\nXDEL stream 1-2\n\
         XGROUP CREATE stream group 0\nXREADGROUP GROUP group one COUNT 2 STREAMS stream >\n\
         XREADGROUP GROUP group two COUNT 1 STREAMS stream >\nXGROUP CREATECONSUMER stream group three\n\
         XGROUP CREATE stream untouched $\nXADD emptied 1-1 a b\nXDEL emptied 1-1\n\
         SET expiring v PXAT 4102444800123\nHSET expiring-hash f v\nPEXPIREAT expiring-hash 4102444800999\n\
         SELECT 5\nSET elsewhere 1"
    );
    script.lines().for_each(|line| drop(ask(oracle, line)));
    ask(oracle, "SELECT 0");
    for n in 0..600 {
        ask(oracle, &format!("RPUSH quicklist element-{n}-{}", "x".repeat(n % 90)));
        ask(oracle, &format!("SADD big-intset {}", n * 7));
        ask(oracle, &format!("SADD big-set member-{n}"));
        ask(oracle, &format!("ZADD big-scores {}.25 member-{n}", n * 3));
        ask(oracle, &format!("HSET big-hash field-{n} value-{n}"));
        ask(oracle, &format!("XADD big-stream {n}-1 field value-{n}"));
    }
    ask(oracle, &format!("RPUSH plain-node {}", "y".repeat(20_000)));
    let code = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(oracle.ask(&[b"FUNCTION", b"LOAD", code.as_bytes()]), Reply::Text(b"lib".to_vec()));
}

/// Where redis-server writes a file.
fn place(oracle: &mut Oracle, directory: &Path, name: &str) -> PathBuf {
    ask(oracle, &format!("CONFIG SET dir {}", directory.display()));
    ask(oracle, &format!("CONFIG SET dbfilename {name}"));
    directory.join(name)
}

/// All of a file's items in our own words.
fn rewritten(file: &[u8], options: WriteOptions) -> Vec<u8> {
    let mut reader = FileReader::open(file, ReadOptions::default()).unwrap();
    let mut writer = FileWriter::new(Vec::new(), options);
    let (mut database, mut content) = (0, Vec::new());
    while let Some(item) = reader.read_item().unwrap() {
        match item {
            Item::Aux { name, value } => writer.aux(std::str::from_utf8(&name).unwrap(), &value).unwrap(),
            Item::Function(code) => writer.function(&code).unwrap(),
            Item::Database(number) => database = number,
            Item::Sizes { keys, expiring } => writer.database(database, keys, expiring).unwrap(),
            Item::Entry(Entry { key, value_type, value, metadata, .. }) => {
                content.clear();
                content.push(value_type);
                content.extend_from_slice(value);
                writer.entry(&key, &content, metadata).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    writer.finish().unwrap()
}

/// What redis-check-rdb says; it passes.
fn check(path: &Path) {
    let output = Command::new("redis-check-rdb").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("RDB looks OK!"), "{text}");
}

/// A signature of all data.
fn digest(oracle: &mut Oracle) -> Reply {
    ask(oracle, "DEBUG DIGEST")
}

fn start() -> Oracle {
    let mut oracle = Oracle::start_with(&["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]);
    ask(&mut oracle, "FLUSHALL");
    oracle
}

#[test]
fn files_of_redis_are_read_and_ours_are_loaded_by_it() {
    let (mut oracle, directory) = (start(), Directory::new("both-ways"));
    fill(&mut oracle);
    let expected = digest(&mut oracle);
    let mut last: Option<Contents> = None;
    for (compression, policy) in [("yes", "noeviction"), ("no", "allkeys-lfu"), ("yes", "allkeys-lru")] {
        ask(&mut oracle, &format!("CONFIG SET rdbcompression {compression}"));
        ask(&mut oracle, &format!("CONFIG SET maxmemory-policy {policy}"));
        let path = place(&mut oracle, &directory.0, "theirs.rdb");
        ask(&mut oracle, "SAVE");
        let theirs = fs::read(&path).unwrap();
        let contents = read_bytes(&theirs).unwrap();
        assert_eq!((contents.version, contents.keys.len()), (10, 26));
        assert!(contents.aux["redis-ver"].starts_with("7.0") && contents.functions[0].starts_with("#!lua name=lib"));
        assert_eq!(contents.keys[&(0, "expiring".into())].expiry_ms, Some(4_102_444_800_123));
        assert_eq!(contents.keys[&(5, "elsewhere".into())].value, "1");
        assert_eq!(contents.keys[&(0, "int8".into())].frequency.is_some(), policy == "allkeys-lfu");
        assert_eq!(contents.keys[&(0, "int8".into())].idle_s.is_some(), policy == "allkeys-lru");
        if let Some(last) = last {
            assert!(last.keys.iter().all(|(name, key)| contents.keys[name].value == key.value));
        }
        for compression in [false, true] {
            let options = WriteOptions { version: WriteVersion::Redis10, checksum: compression, compression };
            let ours = rewritten(&theirs, options);
            assert_eq!(read_bytes(&ours).unwrap(), contents);
            let path = place(&mut oracle, &directory.0, "ours.rdb");
            fs::write(&path, &ours).unwrap();
            check(&path);
            ask(&mut oracle, "FLUSHALL");
            ask(&mut oracle, "FUNCTION FLUSH");
            ask(&mut oracle, "DEBUG RELOAD NOSAVE");
            assert_eq!(digest(&mut oracle), expected);
            assert_eq!(ask(&mut oracle, "FCALL f 0"), Reply::Integer(1));
        }
        last = Some(contents);
    }
}

/// Strings of all sorts through our compression, restored by redis-server.
#[test]
fn redis_decompresses_what_we_compress() {
    let (mut oracle, directory) = (start(), Directory::new("compression"));
    let mut random = Random(11);
    let options = WriteOptions { version: WriteVersion::Redis10, checksum: true, compression: true };
    let mut writer = FileWriter::new(Vec::new(), options);
    writer.database(0, 400, 0).unwrap();
    let mut values = Vec::new();
    for n in 0..400 {
        let alphabet = random.of(&[&b"a"[..], b"ab", b"abcdefgh", b"\x00\xff 0123456789abcdef"]);
        let len_max = random.of(&[30, 300, 20_000]);
        let value = random.text(len_max, alphabet);
        let mut content = vec![0];
        almandine_rdb::write_string(&value, &mut content);
        writer.entry(format!("key-{n}-{}", "k".repeat(n % 60)).as_bytes(), &content, EntryMetadata::default()).unwrap();
        values.push(value);
    }
    let path = place(&mut oracle, &directory.0, "compressed.rdb");
    fs::write(&path, writer.finish().unwrap()).unwrap();
    check(&path);
    ask(&mut oracle, "DEBUG RELOAD NOSAVE");
    for (n, value) in values.iter().enumerate() {
        let key = format!("key-{n}-{}", "k".repeat(n % 60));
        assert_eq!(oracle.ask(&[b"GET", key.as_bytes()]), Reply::Text(value.clone()));
    }
    let contents = read(fs::File::open(&path).unwrap(), ReadOptions::default()).unwrap();
    assert_eq!(contents.keys.len(), 400);
}
