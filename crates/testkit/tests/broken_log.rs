//! A real server whose disk takes nothing for a time: replies, messages and syncs that wait for its log wait until it is healed,
//! and are there behind a kill then. Writes are refused meanwhile; what is durable is read, and what depends on no data is
//! answered.
//!
//! The disk fails by a limit on the size of files (RLIMIT_FSIZE) of the server's process, which a test may set and lift: each write
//! to a file is refused, whichever file it is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::server::{almandine_path, mutants_path};
use almandine_testkit::{Client, Program, Server, Value};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

const PATIENCE: Duration = Duration::from_secs(120);
/// For which nothing must come.
const QUIET: Duration = Duration::from_millis(200);
const FLAGS: [&str; 12] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--ring-dir",
    "none",
    "--workers",
    "2",
    "--enable-debug-command",
    "yes",
    "--auto-aof-rewrite-percentage",
    "0",
];
/// Replies wait for longer than a test.
const PATIENT: [&str; 2] = ["--log-heal-wait", "3600"];

static MADE: AtomicU32 = AtomicU32::new(0);

/// Starts a server that is told of the limit by an error and not by a signal, and whose own log is no file of it.
struct Starter(PathBuf);

impl Starter {
    fn of(server: &Path) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let place = std::env::temp_dir().join(format!("almandine-limited-{}-{number}", std::process::id()));
        let script = format!("#!/bin/bash\ntrap '' XFSZ\nexec '{}' \"$@\" > >(exec cat) 2>&1\n", server.display());
        fs::write(&place, script).expect("a script");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("it may be executed");
        Self(place)
    }

    fn start(&self, more: &[&str], environment: &[(&str, String)]) -> Server {
        Server::start_with(&Program::Script(self.0.clone()), &[&FLAGS, more].concat(), environment)
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the server's disk takes nothing.
fn fail(server: &Server, fails: bool) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let limit = Rlimit { current: fails.then_some(0), maximum: None };
    prlimit(pid, Resource::Fsize, limit).expect("limit the server's files");
}

fn info(client: &mut Client) -> String {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    String::from_utf8(text).expect("text")
}

fn wait_for(server: &Server, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}\n{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_quiet(what: &str, client: &mut Client) {
    let heard = client.receive_until_quiet(QUIET);
    assert!(heard.as_ref().is_ok_and(Vec::is_empty), "{what} is heard while the log is broken: {heard:?}");
}

fn is_misconf(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(b"MISCONF Errors writing to the AOF file"))
}

/// Waits until writes are refused.
fn wait_until_refused(server: &Server, control: &mut Client) {
    wait_for(server, "the log is broken", || {
        info(control).contains("aof_last_write_status:err") && server.log().contains("The log cannot be written")
    });
    assert!(is_misconf(&control.line("SET other 1")), "a write is refused at once");
}

/// Those that wait for the log.
struct Waiting {
    writer: Client,
    transaction: Client,
    reader: Client,
    script: Client,
    commit: Client,
    listener: Client,
    tracker: Client,
}

/// The disk fails below a write, and others wait for it, too.
fn breaks(server: &Server, control: &mut Client) -> Waiting {
    let [mut writer, mut transaction, mut reader, mut script, mut commit, mut listener, mut tracker] =
        std::array::from_fn(|_| server.client());
    assert_eq!(control.line("MSET durable 1 key 0"), Value::ok());
    listener.line("SUBSCRIBE channel");
    tracker.line("HELLO 3");
    tracker.line("CLIENT TRACKING on");
    tracker.line("GET key");
    transaction.line("MULTI");
    transaction.line("INCR counter");
    transaction.line("PUBLISH channel message");
    assert_eq!(control.line("DEBUG AOF-FLUSH-SLEEP 3600000000"), Value::ok());
    writer.send(&[["SET", "key", "1"]]).expect("sent");
    transaction.send(&[["EXEC"]]).expect("sent");
    wait_for(server, "both are done", || {
        let stats = control.line("INFO commandstats").to_string();
        ["cmdstat_set:", "cmdstat_exec:"].iter().all(|name| stats.contains(name))
    });
    fail(server, true);
    // Its reply waits, too.
    server.client().send(&[["DEBUG", "AOF-FLUSH-SLEEP", "0"]]).expect("sent");
    wait_until_refused(server, control);
    reader.send(&[["GET", "key"]]).expect("sent");
    script.send(&[["EVAL", "return redis.call('GET', KEYS[1])", "1", "key"]]).expect("sent");
    commit.send(&[["COMMITAOF"]]).expect("sent");
    Waiting { writer, transaction, reader, script, commit, listener, tracker }
}

/// What is answered while the log is broken, and what is not.
fn is_served(server: &Server, control: &mut Client, waiting: &mut Waiting) {
    let mut client = server.client();
    for (line, reply) in [
        ("ECHO word", r#"$"word""#),
        ("SELECT 0", "+OK"),
        ("GET durable", r#"$"1""#),
        ("STRLEN durable", ":1"),
        ("CONFIG SET maxclients 9000", "+OK"),
        ("MULTI", "+OK"),
        ("GET durable", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("WAITAOF 1 0 50", "*[:0, :0]"),
    ] {
        assert_eq!(client.line(line).to_string(), reply, "{line}");
    }
    client.line("MULTI");
    assert!(is_misconf(&client.line("SET other 1")));
    assert!(matches!(client.line("EXEC"), Value::Error(text) if text.starts_with(b"EXECABORT")));
    let mixed = client.pipeline(&[&["GET", "durable"][..], &["SET", "other", "1"], &["GET", "durable"]]).expect("replies");
    assert!(is_misconf(&mixed[1]) && mixed[0] == mixed[2], "{mixed:?}");
    assert!(is_misconf(&control.line("DEL durable")));
    for (what, client) in [
        ("the reply to a write", &mut waiting.writer),
        ("the reply to a transaction", &mut waiting.transaction),
        ("a value that is not durable", &mut waiting.reader),
        ("what a script has read", &mut waiting.script),
        ("that all is durable", &mut waiting.commit),
        ("a message", &mut waiting.listener),
        ("an invalidation", &mut waiting.tracker),
    ] {
        is_quiet(what, client);
    }
}

/// All that has waited is answered.
fn are_answered(waiting: &mut Waiting) {
    let next = |client: &mut Client| {
        client.set_read_timeout(PATIENCE).expect("a socket");
        client.receive().expect("a reply").to_string()
    };
    assert_eq!(next(&mut waiting.writer), "+OK");
    assert_eq!(next(&mut waiting.transaction), "*[:1, :1]");
    assert_eq!((next(&mut waiting.reader), next(&mut waiting.script)), (r#"$"1""#.to_owned(), r#"$"1""#.to_owned()));
    assert_eq!(next(&mut waiting.commit), "+\"AOF file committed\"");
    assert_eq!(next(&mut waiting.listener), r#"*[$"message", $"channel", $"message"]"#);
    assert_eq!(next(&mut waiting.tracker), r#">[$"invalidate", *[$"key"]]"#);
}

/// What was acknowledged is there when the process is killed, and its rings with it.
fn is_there(server: &mut Server) {
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!([client.line("GET key").to_string(), client.line("GET counter").to_string()], [r#"$"1""#, r#"$"1""#]);
}

fn waits_until_it_is_healed(server: &mut Server, by_base: bool) {
    let mut control = server.client();
    let mut waiting = breaks(server, &mut control);
    is_served(server, &mut control, &mut waiting);
    if by_base {
        // It has tried in vain to go on in another file.
        wait_for(server, "a base has failed", || info(&mut control).contains("aof_last_bgrewrite_status:err"));
        is_served(server, &mut control, &mut waiting);
    }
    fail(server, false);
    are_answered(&mut waiting);
    wait_for(server, "writes are taken", || control.line("SET other 1") == Value::ok());
    assert!(!by_base || server.log().contains("The log begins with a new base"), "{}", server.log());
    is_there(server);
}

#[test]
fn what_waits_for_a_broken_log_is_answered_when_it_goes_on_in_another_file() {
    let starter = Starter::of(&almandine_path());
    waits_until_it_is_healed(&mut starter.start(&PATIENT, &[]), false);
}

#[test]
fn what_waits_for_a_broken_log_is_answered_when_a_base_heals_it() {
    let starter = Starter::of(&almandine_path());
    waits_until_it_is_healed(&mut starter.start(&PATIENT, &[]), true);
}

fn is_closed(client: &mut Client) -> bool {
    client.set_read_timeout(PATIENCE).expect("a socket");
    match client.receive() {
        Ok(reply) => reply == Value::Closed,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    }
}

/// Their time is up, or the log ends: they are not told what was not durable.
fn are_closed(waiting: &mut Waiting) {
    for (what, client) in [
        ("a writer", &mut waiting.writer),
        ("a transaction", &mut waiting.transaction),
        ("a reader", &mut waiting.reader),
        ("a script", &mut waiting.script),
        ("a listener", &mut waiting.listener),
        ("a client that tracks", &mut waiting.tracker),
    ] {
        assert!(is_closed(client), "{what} is told what was not durable");
    }
    waiting.commit.set_read_timeout(PATIENCE).expect("a socket");
    let denied = waiting.commit.receive().expect("a reply").to_string();
    assert!(denied.contains("ERR The log of writes could not be made durable"), "{denied}");
}

#[test]
fn what_waits_for_longer_than_it_may_is_closed_and_the_log_is_healed_all_the_same() {
    let starter = Starter::of(&almandine_path());
    let server = starter.start(&["--log-heal-wait", "3"], &[]);
    let mut control = server.client();
    let mut waiting = breaks(&server, &mut control);
    are_closed(&mut waiting);
    assert!(is_misconf(&control.line("SET other 1")));
    assert_eq!(control.line("GET key").to_string(), r#"$"1""#, "it is read from memory");
    fail(&server, false);
    wait_for(&server, "writes are taken", || control.line("SET other 1") == Value::ok());
}

fn is_closed_with_the_log(server: &Server) {
    let mut control = server.client();
    let mut waiting = breaks(server, &mut control);
    is_served(server, &mut control, &mut waiting);
    assert_eq!(control.line("CONFIG SET appendonly no"), Value::ok());
    are_closed(&mut waiting);
}

#[test]
fn what_waits_for_a_broken_log_that_is_turned_off_is_closed() {
    let starter = Starter::of(&almandine_path());
    is_closed_with_the_log(&starter.start(&PATIENT, &[]));
}

/// With a shorter time that is set meanwhile, what waits is closed.
#[test]
fn how_long_it_waits_is_changed_while_it_does() {
    let starter = Starter::of(&almandine_path());
    let server = starter.start(&PATIENT, &[]);
    let mut control = server.client();
    let mut waiting = breaks(&server, &mut control);
    is_served(&server, &mut control, &mut waiting);
    assert_eq!(control.line("CONFIG SET log-heal-wait 0"), Value::ok());
    are_closed(&mut waiting);
    fail(&server, false);
}

/// A backup that cannot be sealed: its client, which waits for that, is told why, and the call counts as failed.
#[test]
fn who_seals_a_backup_on_a_disk_that_fails_is_told() {
    let server = Starter::of(&almandine_path()).start(&PATIENT, &[]);
    let mut client = server.client();
    assert_eq!(client.line("BACKUP START"), Value::ok());
    wait_for(&server, "the base of the backup", || client.line("BACKUP STATUS").to_string().contains("incrementing"));
    fail(&server, true);
    let sealed = client.line("BACKUP SEAL");
    assert!(sealed.is_error() && !sealed.to_string().contains("no backup is in progress"), "{sealed}");
    let calls = client.line("INFO commandstats").to_string();
    let (_, of_seal) = calls.split_once("cmdstat_backup|seal:").expect("it was called");
    assert!(of_seal.starts_with("calls=1,") && of_seal.split("cmdstat").next().is_some_and(|own| own.contains("failed_calls=1")));
    fail(&server, false);
    wait_for(&server, "the log is healed", || client.line("SET a 1") == Value::ok());
    assert!(client.line("BACKUP STATUS").to_string().contains("failed"));
}

/// The log of a backup, which nothing was promised of: the backup fails, and writes go on, while the disk fails and behind that.
#[test]
fn a_backup_without_a_log_fails_with_its_disk_and_writes_go_on() {
    let starter = Starter::of(&almandine_path());
    let server = starter.start(&["--appendonly", "no", "--save", ""], &[]);
    let mut client = server.client();
    let status = |client: &mut Client| client.line("BACKUP STATUS").to_string();
    let mut counted = 0;
    let mut count = |client: &mut Client, refusable: bool| {
        let reply = client.line("INCR counter");
        counted += i64::from(!reply.is_error());
        assert!(reply == Value::Integer(counted) || refusable && is_misconf(&reply), "{reply}, {counted}");
    };
    count(&mut client, false);
    assert_eq!(client.line("BACKUP START"), Value::ok());
    wait_for(&server, "it has its base", || status(&mut client).contains("incrementing"));
    count(&mut client, false);
    fail(&server, true);
    wait_for(&server, "it has failed", || {
        count(&mut client, true);
        status(&mut client).contains("its log cannot be written")
    });
    let place = server.directory().join("backupdir.log");
    wait_for(&server, "its log is gone", || !place.exists());
    for _ in 0..1000 {
        count(&mut client, false);
    }
    fail(&server, false);
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!(client.line("BACKUP START"), Value::ok());
    wait_for(&server, "the next one has its base", || status(&mut client).contains("incrementing"));
    count(&mut client, false);
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    let home = server.directory().join("restored/appendonlydir");
    fs::create_dir_all(&home).expect("a directory");
    let Value::Array(files) = client.line("BACKUP LIST") else { panic!("no list") };
    for file in files {
        let Value::Bulk(file) = file else { panic!("{file}") };
        let file = PathBuf::from(String::from_utf8(file).expect("text"));
        fs::copy(&file, home.join(file.file_name().expect("a file"))).expect("copied");
    }
    let place = server.directory().join("restored");
    let restored = Server::start(&Program::Almandine, &["--appendonly", "yes", "--dir", place.to_str().expect("text")]);
    assert_eq!(restored.client().line("GET counter").to_string(), format!("$\"{counted}\""));
}

/// More than a worker's ring takes, in one pipeline: all is answered, and how the last one is.
fn fill_ring(client: &mut Client) -> Value {
    let sets: Vec<[String; 3]> = (0..4_000).map(|n| ["SET".into(), format!("key:{n}"), "v".repeat(1_000)]).collect();
    client.set_read_timeout(Duration::from_secs(20)).expect("a socket");
    client.pipeline(&sets).expect("nothing waits for a log that takes nothing").pop().expect("replies")
}

/// Small segments, and replies that do not wait for them.
const SMALL: [&str; 8] = ["--appendfsync", "everysec", "--ring-dir", "auto", "--log-segment-size", "4mb", "--workers", "1"];

/// No further file of the log can be made, and what the rings have is more than the last one takes.
fn is_refused_when_the_ring_is_full(server: &mut Server) {
    let (home, away) = (server.directory().join("appendonlydir"), server.directory().join("away"));
    let mut control = server.client();
    fs::rename(&home, &away).expect("it is moved");
    // Behind its first write a log has a further file made.
    assert_eq!(control.line("SET first 1"), Value::ok());
    assert!(!control.line("COMMITAOF").is_error());
    assert_eq!(control.line("DEBUG AOF-FLUSH-SLEEP 3600000000"), Value::ok());
    let last = fill_ring(&mut server.client());
    assert!(is_misconf(&last), "{last}");
    assert!(info(&mut control).contains("aof_last_write_status:err"), "{}", info(&mut control));
    assert_eq!(control.line("GET first").to_string(), r#"$"1""#);
    fs::rename(&away, &home).expect("it is moved back");
    assert_eq!(control.line("DEBUG AOF-FLUSH-SLEEP 0"), Value::ok());
    wait_for(server, "writes are taken", || control.line("SET last 1") == Value::ok());
    let keys = control.line("DBSIZE");
    assert!(matches!(keys, Value::Integer(500..4_000)), "{keys}");
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("DBSIZE"), keys);
}

#[test]
fn who_fills_a_ring_that_no_file_has_room_for_is_refused() {
    is_refused_when_the_ring_is_full(&mut Starter::of(&almandine_path()).start(&SMALL, &[]));
}

/// The same of a backup's own log: the backup fails, and all is written.
#[test]
fn who_fills_a_ring_that_a_backup_has_no_room_for_is_served() {
    let more = [&SMALL[..], &["--appendonly", "no", "--save", ""]].concat();
    let server = Starter::of(&almandine_path()).start(&more, &[]);
    let mut control = server.client();
    assert_eq!(control.line("BACKUP START"), Value::ok());
    wait_for(&server, "it has its base", || control.line("BACKUP STATUS").to_string().contains("incrementing"));
    fs::rename(server.directory().join("backupdir.log"), server.directory().join("away")).expect("it is moved");
    let mut client = server.client();
    wait_for(&server, "it has failed", || {
        fill_ring(&mut client);
        control.line("BACKUP STATUS").to_string().contains("failed")
    });
    wait_for(&server, "all is written", || fill_ring(&mut client) == Value::ok());
}

fn is_noticed((mutant, flags): (&str, &[&str]), proof: impl Fn(&mut Server) + std::panic::UnwindSafe) {
    let starter = Starter::of(&mutants_path());
    let mut server = starter.start(flags, &[("ALMANDINE_MUTANT", mutant.to_owned())]);
    wait_for(&server, "it says what it leaves out", || server.log().contains(&format!("left out on purpose: [{mutant}]")));
    let proven = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| proof(&mut server)));
    assert!(proven.is_err(), "{mutant} is not noticed");
}

#[test]
fn a_missing_step_is_noticed() {
    is_noticed(("AwaitHealing", &PATIENT), |server| waits_until_it_is_healed(server, false));
    is_noticed(("EndBroken", &PATIENT), |server| is_closed_with_the_log(server));
    is_noticed(("TellPending", &SMALL), is_refused_when_the_ring_is_full);
}
