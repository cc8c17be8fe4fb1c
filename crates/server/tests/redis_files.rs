//! An append-only file of Redis at the first start with `appendonly yes`: what it has is served, and it stays as it is.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

mod contents;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use almandine_testkit::{Client, Program, Server, Value};

use contents::{assert_equal, contents, fill};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-redis-aof-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("appendonlydir")).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// A file of Redis.
    fn part(&self, name: &str) -> PathBuf {
        self.0.join("appendonlydir").join(name)
    }

    /// An incremental file with these commands, and the manifest that names it.
    fn write(&self, bytes: &[u8]) {
        fs::write(self.part("appendonly.aof.1.incr.aof"), bytes).unwrap();
        fs::write(self.part("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n").unwrap();
    }

    /// Removes what is ours.
    fn forget_log(&self) {
        for entry in fs::read_dir(self.0.join("appendonlydir")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let starts = ["MANIFEST", "LOCK", "IMPORTED", "base-", "log-", "spare-"];
            if starts.iter().any(|start| name.starts_with(start)) {
                fs::remove_file(path).unwrap();
            }
        }
    }

    /// The files of Redis, with what is in them.
    fn of_redis(&self) -> BTreeMap<String, Vec<u8>> {
        let names = fs::read_dir(self.0.join("appendonlydir")).unwrap().map(|entry| entry.unwrap().path());
        let of_redis = names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("appendonly"));
        of_redis.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
    }

    fn flags<'f>(&'f self, more: &[&'f str]) -> Vec<&'f str> {
        let log = ["--dir", self.path(), "--ring-dir", self.path(), "--appendonly", "yes", "--object-encoding-names", "7.0"];
        [&log, more].concat()
    }

    fn start(&self, flags: &[&str]) -> Server {
        let server = Server::start(&Program::Almandine, &self.flags(flags));
        await_info(&mut server.client(), "loading", "0");
        server
    }

    fn refusal(&self, flags: &[&str]) -> String {
        let refused = Server::try_start(&Program::Almandine, &self.flags(flags), &[]);
        refused.err().unwrap_or_else(|| panic!("it has started"))
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

fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

fn await_info(client: &mut Client, field: &str, value: &str) {
    let has = format!("{field}:{value}\r\n");
    for _ in 0..4000 {
        let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
        if String::from_utf8(text).unwrap().contains(&has) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{field} is not {value}");
}

fn commands(lines: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
    }
    bytes
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// All types, scripts, functions, transactions, times that pass before the start; before and behind a rewrite; with a base of each
/// format. Then again and again, for it is our log that counts.
#[test]
fn what_redis_logged_is_served_and_its_files_stay_as_they_are() {
    for preamble in ["yes", "no"] {
        let directory = Directory::new(&format!("preamble-{preamble}"));
        let flags = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--aof-timestamp-enabled", "yes"];
        let mut redis = Server::start(&Program::Redis, &flags);
        let mut client = redis.client();
        let library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)";
        assert_eq!(client.call(&["FUNCTION", "LOAD", library]).unwrap(), bulk("lib"));
        client.line("SET before-base 1");
        client.line("RPUSH short a");
        assert!(!matches!(client.line("BGREWRITEAOF"), Value::Error(_)));
        await_info(&mut client, "aof_rewrite_in_progress", "0");
        await_info(&mut client, "aof_rewrite_scheduled", "0");
        fill(&mut client);
        for line in [
            "SELECT 0",
            "PEXPIRE short 1",
            "MULTI",
            "SET unit 1",
            "INCR unit",
            "EXEC",
            "FCALL f 1 called",
            "EVAL return{redis.call('SET',KEYS[1],'1'),redis.call('PEXPIREAT',KEYS[1],'4102444800000')} 1 scripted",
            "SPOP big-intset 3",
            "RENAME int renamed",
            "COPY short-lived nothing",
            "SELECT 5",
            "SWAPDB 5 6",
            "SWAPDB 5 6",
            "GETDEL nothing",
            "XAUTOCLAIM stream group two 0 0",
        ] {
            client.line(line);
        }
        client.line("SELECT 0");
        // It goes while Redis serves, and the file has both its time and its end.
        while client.line("EXISTS short") != Value::Integer(0) {}
        let expected = contents(&mut client);
        assert!(expected.len() >= 23, "{}", expected.len());
        redis.kill();
        copy(&redis.directory().join("appendonlydir"), &directory.0.join("appendonlydir"));
        let files = directory.of_redis();

        let mut server = directory.start(&[]);
        assert_equal(&contents(&mut server.client()), &expected);
        assert_eq!(server.client().line("FCALL f 1 called"), Value::Integer(2));
        assert_eq!(server.client().line("SET called 1"), ok());
        for _ in 0..2 {
            server.kill();
            server.start_again();
            await_info(&mut server.client(), "loading", "0");
            assert_equal(&contents(&mut server.client()), &expected);
        }
        assert_eq!(directory.of_redis(), files);
        drop(server);

        // A Redis that goes on with its files makes them others.
        let mut redis = Server::start(&Program::Redis, &["--dir", directory.path(), "--appendonly", "yes"]);
        assert_eq!(redis.client().line("SET younger 1"), ok());
        redis.client().send(&[["SHUTDOWN"]]).unwrap();
        redis.await_exit(Duration::from_secs(20)).unwrap();
        let refused = directory.refusal(&[]);
        assert!(refused.contains("Which of both counts is not known"), "{refused}");
        directory.forget_log();
        assert_eq!(directory.start(&[]).client().line("GET younger"), bulk("1"));
    }
}

/// A key past its time is met alive by what follows in the file, as when that was done.
#[test]
fn times_pass_behind_the_file_only() {
    let directory = Directory::new("times");
    let lines = "RPUSH list a\nPEXPIREAT list 1000\nRPUSH list b\nSET kept 1\nPEXPIREAT kept 1000\nPERSIST kept\n\
                 SET relative 1 EX 1000\nMULTI\nSET m 1\nEXPIRE m 500\nEXEC\nSETEX s 300 1\nMULTI\nRPUSH list c\nEXEC";
    directory.write(&commands(lines));
    let server = directory.start(&[]);
    let mut client = server.client();
    assert_eq!(client.line("EXISTS list"), Value::Integer(0));
    assert_eq!(client.line("TTL kept"), Value::Integer(-1));
    for (key, most) in [("relative", 1000), ("m", 500), ("s", 300)] {
        let left = client.line(&format!("TTL {key}")).integer().unwrap();
        assert!((most - 100..=most).contains(&left), "{key}: {left}");
    }
}

#[test]
fn a_single_file_of_an_older_redis_is_loaded() {
    let directory = Directory::new("single");
    let redis = Server::start(&Program::Redis, &[]);
    redis.client().line("SET saved 1");
    redis.client().line("SAVE");
    let mut bytes = fs::read(redis.directory().join("dump.rdb")).unwrap();
    bytes.extend(commands("SELECT 0\nINCR saved\nEVAL redis.call('SET',KEYS[1],ARGV[1]) 1 verbatim 7"));
    fs::write(directory.0.join("appendonly.aof"), &bytes).unwrap();
    // The log counts, and not the snapshot that lies there, too.
    fs::copy(redis.directory().join("dump.rdb"), directory.0.join("dump.rdb")).unwrap();
    let mut server = directory.start(&[]);
    assert_eq!(server.client().line("GET saved"), bulk("2"));
    assert_eq!(server.client().line("GET verbatim"), bulk("7"));
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("GET saved"), bulk("2"));
    drop(server);
    bytes.extend(commands("INCR saved"));
    fs::write(directory.0.join("appendonly.aof"), bytes).unwrap();
    let refused = directory.refusal(&[]);
    assert!(refused.contains("../appendonly.aof"), "{refused}");
}

/// Where the file ends within a command or a transaction, that is left out, or the start is refused: as the settings say.
#[test]
fn an_end_that_is_missing_is_left_out_when_that_is_allowed() {
    let whole = commands("SET a 1\nINCR a");
    let cut = [&commands("INCR a")[..10], &commands("MULTI\nINCR a\nINCR a"), &commands("MULTI\nINCR a\nEXEC")[..40]];
    for rest in cut {
        let directory = Directory::new("cut");
        directory.write(&[&whole, rest].concat());
        let files = directory.of_redis();
        let refused = directory.refusal(&["--aof-load-truncated", "no"]);
        assert!(refused.contains("Unexpected end of file reading the append only file"), "{refused}");
        assert!(refused.contains(&format!("from offset {} on", whole.len())), "{refused}");
        let server = directory.start(&[]);
        assert_eq!(server.client().line("GET a"), bulk("2"));
        assert!(server.log().contains(&format!("its last {} bytes", rest.len())), "{}", server.log());
        assert_eq!(directory.of_redis(), files);
        drop(server);
        // Only of the last file.
        directory.forget_log();
        fs::write(directory.part("appendonly.aof.2.incr.aof"), commands("INCR a")).unwrap();
        let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\nfile appendonly.aof.2.incr.aof seq 2 type i\n";
        fs::write(directory.part("appendonly.aof.manifest"), manifest).unwrap();
        let refused = directory.refusal(&[]);
        assert!(refused.contains("it is not the last of the manifest's files"), "{refused}");
    }
}

#[test]
fn what_cannot_be_loaded_refuses_the_start_and_stays() {
    let sound = commands("SET a 1\nRPUSH l x");
    for (rest, what) in [
        (b"!!!".to_vec(), "Bad file format reading the append only file"),
        (vec![0; 100], "as a power cut leaves them"),
        (commands("BLA foo"), "Unknown command 'BLA' reading the append only file"),
        (commands("INCR l"), "the command INCR at offset 56"),
        (commands("MULTI\nINCR a\nINCR l\nEXEC"), "WRONGTYPE"),
        (commands("SELECT 16"), "DB index is out of range"),
        (commands("BLPOP nothing 0"), "waits for another client"),
        (commands("EXEC"), "EXEC without MULTI"),
    ] {
        let directory = Directory::new("refused");
        directory.write(&[&sound[..], &rest].concat());
        let files = directory.of_redis();
        for _ in 0..2 {
            let refused = directory.refusal(&[]);
            assert!(refused.contains(what), "{refused}");
        }
        assert_eq!(directory.of_redis(), files);
    }
    let directory = Directory::new("tail");
    directory.write(&[&sound[..], b"!!!"].concat());
    let server = directory.start(&["--aof-load-corrupt-tail-max-size", "3"]);
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(2));
    drop(server);
    let directory = Directory::new("other-name");
    fs::write(directory.part("other.aof.manifest"), "file other.aof.1.incr.aof seq 1 type i\n").unwrap();
    let refused = directory.refusal(&[]);
    assert!(refused.contains("other.aof.manifest"), "{refused}");
}
