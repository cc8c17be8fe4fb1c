//! The room that a backup of `storage-dir` takes on real file systems: none where blocks are shared, and never what the log needs.
//!
//! Only root can run it, with loop devices.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::crash::{FileSystem, Filler, Machine, reason_against};
use almandine_testkit::server::almandine_path;
use almandine_testkit::{Client, Server, Value};

const PATIENCE: Duration = Duration::from_secs(120);
/// Keys of a server whose memory holds a sixth of them.
const KEYS: usize = 24_000;
const VALUE_BYTES: usize = 4_000;

fn free_bytes(disk: &Path) -> u64 {
    rustix::fs::statvfs(disk).map(|disk| disk.f_bavail * disk.f_frsize).expect("a file system")
}

/// What the file system has when nothing of it waits to be freed.
fn synced_free_bytes(disk: &Path) -> u64 {
    for _ in 0..3 {
        assert!(Command::new("sync").arg("-f").arg(disk).status().expect("sync").success());
        thread::sleep(Duration::from_secs(1));
    }
    free_bytes(disk)
}

/// Fills a file system but for 300 MiB, when nothing of it waits to be freed.
fn fill(disk: &Path) -> Filler {
    synced_free_bytes(disk);
    Filler::leave(disk, 300 << 20)
}

/// A server with a log on a machine's disk, most of whose data lies in a directory.
fn start(machine: &Machine, storage: &Path) -> (Server, Client) {
    let more = ["--appendonly", "yes", "--save", "", "--maxmemory", "16mb", "--storage-dir", storage.to_str().expect("text")];
    let server = machine.start(&more);
    let mut client = server.client();
    let keys: Vec<usize> = (0..KEYS).collect();
    for keys in keys.chunks(200) {
        let sets: Vec<Vec<String>> = keys.iter().map(|key| vec!["SET".to_owned(), format!("key:{key}"), value(*key)]).collect();
        assert!(client.pipeline(&sets).expect("answers").iter().all(|reply| *reply == Value::ok()));
    }
    (server, client)
}

fn value(key: usize) -> String {
    let mut value = format!("{key:08}").repeat(VALUE_BYTES / 8);
    // One in a hundred lies among the large values.
    if key.is_multiple_of(100) {
        value = value.repeat(10);
    }
    value
}

fn all_there(client: &mut Client) {
    let keys: Vec<usize> = (0..KEYS).collect();
    for keys in keys.chunks(200) {
        let gets: Vec<Vec<String>> = keys.iter().map(|key| vec!["GET".to_owned(), format!("key:{key}")]).collect();
        let found = client.pipeline(&gets).expect("answers");
        assert!(keys.iter().zip(found).all(|(key, found)| found == Value::Bulk(value(*key).into_bytes())));
    }
}

fn await_state(server: &Server, client: &mut Client, state: &str) {
    assert_eq!(client.line("BACKUP START"), Value::ok());
    let began = Instant::now();
    loop {
        let Value::Array(status) = client.line("BACKUP STATUS") else { panic!("no status") };
        let is = |state: &str| status[1] == Value::Bulk(state.as_bytes().to_vec());
        if is(state) {
            return;
        }
        let is_over = is("failed") || is("incrementing");
        assert!(!is_over && began.elapsed() < PATIENCE, "{status:?}, not {state}: {}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_backup_shares_blocks_where_the_file_system_does() {
    if let Some(reason) = reason_against() {
        println!("there is no file system to try it on: {reason}");
        return;
    }
    let taken = [FileSystem::Ext4, FileSystem::Xfs].map(|kind| {
        let machine = Machine::new(kind, &almandine_path());
        let (server, mut client) = start(&machine, &machine.disk().join("storage"));
        await_state(&server, &mut client, "incrementing");
        assert_eq!(client.line("BACKUP SEAL"), Value::ok());
        let pages = machine.disk().join("backupdir/storage/log/000000000000.segment");
        assert!(fs::read(pages).expect("pages").iter().filter(|byte| **byte != 0).count() > 1 << 20);
        // Nothing else changes what there is from here on.
        let with = synced_free_bytes(&machine.disk());
        assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
        let without = synced_free_bytes(&machine.disk());
        all_there(&mut client);
        without.saturating_sub(with)
    });
    let data = (KEYS * VALUE_BYTES) as u64;
    println!("of {data} bytes a backup takes {} on ext4, {} on XFS", taken[0], taken[1]);
    assert!(taken[0] > data / 2 && taken[1] < data / 4, "{taken:?} of {data}");
}

/// The log of a backup takes the room that there is, and then the backup fails: writes are taken all the while.
#[test]
fn a_backup_without_a_log_that_finds_no_room_fails_and_writes_go_on() {
    if let Some(reason) = reason_against() {
        println!("a file system cannot be filled here: {reason}");
        return;
    }
    let machine = Machine::new(FileSystem::Ext4, &almandine_path());
    let server = machine.start(&["--save", ""]);
    let mut client = server.client();
    let filler = fill(&machine.disk());
    let before = free_bytes(&machine.disk());
    await_state(&server, &mut client, "incrementing");
    let (began, value) = (Instant::now(), "x".repeat(200 << 10));
    let mut keys = 0;
    while !client.line("BACKUP STATUS").to_string().contains("the disk has no room for what is written meanwhile") {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        assert_eq!(
            client.call(&["SET", &format!("key:{}", keys % 500), &value]).expect("a reply"),
            Value::ok(),
            "{}",
            server.log()
        );
        keys += 1;
    }
    assert!(keys > 500, "{keys} values of 300 MiB");
    let began = Instant::now();
    while machine.disk().join("backupdir.log").exists() {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert!(synced_free_bytes(&machine.disk()) + (1 << 20) > before, "it gives all room back");
    assert_eq!(client.call(&["SET", "other", &value]).expect("a reply"), Value::ok());
    filler.remove();
    await_state(&server, &mut client, "incrementing");
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
}

/// A file system on which nothing is written until it is dropped.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn new(disk: &'a Path) -> Self {
        Self::tell(disk, "--freeze");
        Self(disk)
    }

    fn tell(disk: &Path, what: &str) {
        assert!(Command::new("fsfreeze").arg(what).arg(disk).status().expect("fsfreeze").success());
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        Self::tell(self.0, "--unfreeze");
    }
}

/// Sealing takes some syncs. Its client waits for them, and no other client of the worker.
#[test]
fn a_backup_is_sealed_beside_other_clients() {
    if let Some(reason) = reason_against() {
        println!("there is no file system that can be frozen: {reason}");
        return;
    }
    let machine = Machine::new(FileSystem::Ext4, &almandine_path());
    let more = ["--appendonly", "yes", "--save", "", "--workers", "1", "--ring-dir", "none"];
    let server = machine.start(&more);
    let (mut client, mut other, mut unblocked) = (server.client(), server.client(), server.client());
    assert_eq!(client.line("SET a 1"), Value::ok());
    await_state(&server, &mut client, "incrementing");
    let Value::Integer(id) = unblocked.line("CLIENT ID") else { panic!("no number") };
    let disk = machine.disk();
    let frozen = Frozen::new(&disk);
    for waiting in [&mut client, &mut unblocked] {
        waiting.send(&[["BACKUP", "SEAL"]]).expect("it is sent");
        waiting.set_read_timeout(Duration::from_millis(300)).expect("a timeout");
        assert!(waiting.receive().is_err(), "it is sealed on a disk that takes nothing");
        waiting.set_read_timeout(PATIENCE).expect("a timeout");
    }
    assert_eq!(other.line("GET a"), Value::Bulk(b"1".to_vec()));
    assert!(other.line("BACKUP STATUS").to_string().contains("incrementing"));
    assert!(other.line("INFO clients").to_string().contains("blocked_clients:2"));
    // One is told to wait no more; it may ask again, and wait for the same.
    assert_eq!(other.call(&["CLIENT", "UNBLOCK", &id.to_string()]).expect("a reply"), Value::Integer(1));
    assert!(unblocked.receive().expect("a reply").to_string().contains("not sealed yet"));
    drop(frozen);
    assert_eq!(client.receive().expect("a reply"), Value::ok());
    assert!(other.line("BACKUP STATUS").to_string().contains("sealed"));
    // Its worker may not have heard yet that it was sealed: then it is told that.
    let again = unblocked.line("BACKUP SEAL");
    assert!(again == Value::ok() || again.to_string().contains("no backup is in progress"), "{again}");
}

/// A backup of what lies elsewhere takes room on the disk of the log: it leaves the log what that needs, and fails.
#[test]
fn a_backup_that_finds_no_room_fails_and_nothing_else_does() {
    if let Some(reason) = reason_against() {
        println!("a file system cannot be filled here: {reason}");
        return;
    }
    let machine = Machine::new(FileSystem::Ext4, &almandine_path());
    let storage = std::env::temp_dir().join(format!("almandine-backup-room-{}", std::process::id()));
    let (server, mut client) = start(&machine, &storage);
    // The log drops what it needs no more before the disk is filled, and not meanwhile.
    let began = Instant::now();
    while client.line("BGREWRITEAOF").is_error() {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
    while !client.line("INFO persistence").to_string().contains("aof_rewrite_in_progress:0") {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
    // The copy finds less in the end than is left to the log.
    let filler = fill(&machine.disk());
    await_state(&server, &mut client, "failed");
    let status = client.line("BACKUP STATUS").to_string();
    assert!(status.contains("are left for the log"), "{status}");
    assert_eq!(fs::read_dir(machine.disk().join("backupdir")).expect("a directory").count(), 0, "it gives all room back");
    let persistence = client.line("INFO persistence").to_string();
    assert!(persistence.contains("aof_last_write_status:ok"), "{persistence}");
    assert_eq!(client.line("SET other 1"), Value::ok());
    filler.remove();
    await_state(&server, &mut client, "incrementing");
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    all_there(&mut client);
    drop(server);
    fs::remove_dir_all(&storage).expect("it is there");
}
