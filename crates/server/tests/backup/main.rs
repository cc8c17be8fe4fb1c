//! BACKUP: what a log had when it was sealed, in files that another server starts from.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use almandine_testkit::{Client, Program, Server, Value};

mod storage;
mod without_log;

const PATIENCE: Duration = Duration::from_secs(60);

fn error(value: &Value) -> String {
    let Value::Error(text) = value else { panic!("no error: {value}") };
    String::from_utf8_lossy(text).into_owned()
}

fn texts(value: Value) -> Vec<String> {
    let Value::Array(values) = value else { panic!("no array: {value}") };
    let text = |value| match value {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("no text: {other}"),
    };
    values.into_iter().map(text).collect()
}

/// State, error, when it was begun and when it was sealed.
fn status(client: &mut Client) -> [String; 4] {
    let words = texts(client.line("BACKUP STATUS"));
    assert_eq!([&words[0], &words[2], &words[4], &words[6]], ["state", "error", "start_time", "end_time"]);
    [&words[1], &words[3], &words[5], &words[7]].map(String::clone)
}

fn await_state(client: &mut Client, state: &str) {
    let began = Instant::now();
    while status(client)[0] != state {
        let now = status(client);
        assert!(began.elapsed() < PATIENCE && (now[0] != "failed" || state == "failed"), "{now:?}, not {state}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn list(client: &mut Client) -> Vec<PathBuf> {
    texts(client.line("BACKUP LIST")).into_iter().map(PathBuf::from).collect()
}

/// A directory of one test, that is removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("almandine-backup-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Copies files to where a server has its log and its storage below this directory, as docs/durability.md does.
    fn restore(&self, files: &[PathBuf]) {
        for file in files {
            let mut parts = file.iter().rev().map(PathBuf::from);
            let [name, part, above] = [(); 3].map(|()| parts.next().unwrap());
            let directory = self.0.join(if above.ends_with("storage") { above.join(part) } else { "appendonlydir".into() });
            fs::create_dir_all(&directory).unwrap();
            fs::copy(file, directory.join(name)).unwrap();
        }
    }

    fn flags<'f>(&'f self, rings: &'f Path) -> Vec<&'f str> {
        vec!["--appendonly", "yes", "--dir", self.0.to_str().unwrap(), "--ring-dir", rings.to_str().unwrap()]
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The value of `last`, which says how many keys were written; all of them are there, and no other.
fn has_a_prefix(client: &mut Client) -> u64 {
    let Value::Bulk(last) = client.line("GET last") else { panic!("no last key") };
    let last: u64 = String::from_utf8(last).unwrap().parse().unwrap();
    for number in 1..=last {
        let value = client.line(&format!("GET key:{number}"));
        assert_eq!(value, Value::Bulk(number.to_string().into_bytes()), "key {number} of {last}");
    }
    assert_eq!(client.line("DBSIZE"), Value::Integer(i64::try_from(last + 1).unwrap()));
    last
}

/// Writes keys of rising numbers, each with the one that says how many there are, until it is told to end.
struct Writer {
    done: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Writer {
    fn start(server: &Server) -> Self {
        let (done, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (mut client, is_done, count) = (server.client(), Arc::clone(&done), Arc::clone(&written));
        let thread = thread::spawn(move || {
            for number in 1_u64.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                let set = [vec!["MULTI".to_owned()], vec!["SET".to_owned(), format!("key:{number}"), number.to_string()]];
                let last = [vec!["SET".to_owned(), "last".to_owned(), number.to_string()], vec!["EXEC".to_owned()]];
                let replies = client.pipeline(&[set, last].concat()).unwrap();
                assert!(replies.iter().all(|reply| !reply.is_error()), "{replies:?}");
                count.store(number, Ordering::SeqCst);
            }
        });
        Self { done, written, thread }
    }

    fn count(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    fn await_more(&self, more: u64) {
        let (least, began) = (self.count() + more, Instant::now());
        while self.count() < least {
            assert!(began.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.written.load(Ordering::SeqCst)
    }
}

/// A server that is restored beside the one that was backed up has what was done when the backup was sealed, as one moment; both
/// outlive a kill, though their logs are one.
#[test]
fn a_backup_taken_beside_writers_is_of_one_moment() {
    for fsync in ["everysec", "always"] {
        let (home, elsewhere, rings) = (Folder::new("home"), Folder::new("elsewhere"), Folder::new("rings"));
        let flags = |folder: &Folder| {
            let flags: Vec<String> = folder.flags(&rings.0).into_iter().map(str::to_owned).collect();
            [flags, vec!["--appendfsync".to_owned(), fsync.to_owned()]].concat()
        };
        let start = |folder: &Folder| {
            let flags = flags(folder);
            Server::start(&Program::Almandine, &flags.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let mut server = start(&home);
        let writer = Writer::start(&server);
        let mut client = server.client();
        writer.await_more(500);
        assert_eq!(client.line("BACKUP START"), Value::ok());
        await_state(&mut client, "incrementing");
        let base = list(&mut client);
        assert!(base.len() == 1 && base[0].starts_with(home.0.join("backupdir")) && base[0].exists(), "{base:?}");
        writer.await_more(500);
        let before = writer.count();
        assert_eq!(client.line("BACKUP SEAL"), Value::ok());
        // What was on its way when the answer was may be in it.
        let after = writer.count() + 1;
        let files = list(&mut client);
        assert!(files.len() >= 4 && files[..1] == base[..], "{files:?}");
        let [state, error, began, ended] = status(&mut client);
        assert!(state == "sealed" && error.is_empty() && began.parse::<u64>().unwrap() <= ended.parse::<u64>().unwrap());
        // The log goes on, and drops what the backup has.
        writer.await_more(500);
        assert!(!client.line("BGREWRITEAOF").is_error());
        writer.await_more(500);
        elsewhere.restore(&files);
        let mut restored = start(&elsewhere);
        let last = has_a_prefix(&mut restored.client());
        assert!((before..=after).contains(&last), "{last} of {before} to {after}");
        restored.client().line("SET mine 1");
        restored.kill();
        restored.start_again();
        assert_eq!(restored.client().line("GET mine"), Value::Bulk(b"1".to_vec()));
        let count = writer.end();
        server.kill();
        server.start_again();
        let mut client = server.client();
        assert_eq!(has_a_prefix(&mut client), count);
        // Another process knows of no backup, and removes its files when it is told to.
        assert_eq!(status(&mut client)[0], "idle");
        assert!(error_of_start(&mut client).contains("it has to be empty"));
        assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
        assert_eq!(fs::read_dir(home.0.join("backupdir")).unwrap().count(), 0);
    }
}

fn error_of_start(client: &mut Client) -> String {
    error(&client.line("BACKUP START"))
}

#[test]
fn what_cannot_be_done_with_a_backup_is_told() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    assert_eq!(status(&mut client), ["idle", "", "0", "0"]);
    assert_eq!(client.line("CONFIG SET appendonly yes"), Value::ok());
    for command in ["BACKUP SEAL", "BACKUP ABORT"] {
        assert_eq!(error(&client.line(command)), "ERR no backup is in progress");
    }
    assert_eq!(client.line("SET key value"), Value::ok());
    let begin = |client: &mut Client| {
        assert_eq!(client.line("BACKUP START"), Value::ok());
        await_state(client, "incrementing");
    };
    begin(&mut client);
    assert!(error_of_start(&mut client).starts_with("ERR a backup is incrementing already"));
    assert!(error(&client.line("BGREWRITEAOF")).starts_with("ERR A backup is in progress"));
    assert!(error(&client.line("BACKUP CLEANUP")).starts_with("ERR a backup is in progress"));
    let directory = list(&mut client)[0].parent().unwrap().to_owned();
    let count = || fs::read_dir(&directory).unwrap().count();
    assert_eq!(client.line("BACKUP ABORT"), Value::ok());
    assert_eq!((status(&mut client)[0].as_str(), count()), ("failed", 0));
    assert!(list(&mut client).is_empty() && !client.line("BGREWRITEAOF").is_error());

    begin(&mut client);
    assert_eq!(client.line("CONFIG SET appendonly no"), Value::ok());
    await_state(&mut client, "failed");
    assert_eq!(status(&mut client)[1], "the log of writes was turned off");
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!((status(&mut client)[0].as_str(), count()), ("idle", 0));

    // A file of another program is not removed, nor taken for a backup.
    assert_eq!(client.line("CONFIG SET appendonly yes"), Value::ok());
    fs::write(directory.join("mine"), "mine").unwrap();
    assert!(error_of_start(&mut client).contains("it has to be empty, and has mine"));
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    fs::remove_file(directory.join("mine")).unwrap();

    begin(&mut client);
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    assert!(count() == 3 && error_of_start(&mut client).contains("BACKUP CLEANUP ends it"));
    assert_eq!(client.line("CONFIG SET backup-sealed-ttl 1"), Value::ok());
    await_state(&mut client, "idle");
    assert_eq!(count(), 0);
    begin(&mut client);
}
