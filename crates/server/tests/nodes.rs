//! Nodes of one process: they serve at once, know nothing of each other, and leave nothing behind.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use almandine_config::{Config, Startup};
use almandine_server::Node;
use almandine_testkit::server::free_port;
use almandine_testkit::{Client, Value};

/// The tests look at figures of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory that goes with its value.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-nodes-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(directory: &Path, port: u16, more: &[&str]) -> std::io::Result<Node> {
    let (directory, port) = (directory.to_str().unwrap(), port.to_string());
    let fixed = ["--dir", directory, "--port", &port, "--bind", "127.0.0.1", "--index-size", "64kb", "--save", ""];
    let args: Vec<String> = fixed.iter().chain(more).map(ToString::to_string).collect();
    match Config::load(&args) {
        Ok(Startup::Run(config)) => Node::start(*config),
        Ok(_) => panic!("{args:?}"),
        Err(error) => panic!("{error}"),
    }
}

fn client(port: u16) -> Client {
    Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap()
}

fn is_closed(client: &mut Client) -> bool {
    matches!(client.call(&["PING"]), Ok(Value::Closed) | Err(_))
}

/// The first line of the reply.
fn over_unix(path: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    writeln!(stream, "{command}\r").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn figure(client: &mut Client, section: &str, name: &str) -> String {
    let info = String::from_utf8(client.line(&format!("INFO {section}")).bytes().unwrap().to_vec()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_else(|| panic!("{name}: {info}"));
    line.to_owned()
}

/// Names of the threads of nodes.
fn threads() -> Vec<String> {
    let ours = ["worker-", "control", "store", "flusher", "compactor", "tier-"];
    let names =
        fs::read_dir("/proc/self/task").unwrap().filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).filter(|name| ours.iter().any(|our| name.starts_with(our))).collect()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn two_nodes_serve_at_once_and_know_nothing_of_each_other() {
    let _alone = alone();
    let (one, other) = (Directory::new("one"), Directory::new("other"));
    let (one_port, other_port) = (free_port(), free_port());
    let working_directory = std::env::current_dir().unwrap();
    fs::write(other.0.join("users.acl"), "user default on nopass ~* &* +@all\nuser extra on nopass +ping\n").unwrap();
    let with_device = ["--workers", "2", "--storage-dir", "data", "--unixsocket", "s", "--maxmemory", "64mb"];
    let first = start(&one.0, one_port, &with_device).unwrap();
    let protected = ["--enable-protected-configs", "yes", "--notify-keyspace-events", "KEA"];
    let second =
        start(&other.0, other_port, &[&["--workers", "1", "--unixsocket", "s", "--aclfile", "users.acl"], &protected[..]].concat())
            .unwrap();
    assert!(one.0.join("data/log").is_dir() && one.0.join("s").exists() && other.0.join("s").exists(), "paths begin at `dir`");

    let (mut a, mut b, mut listener) = (client(one_port), client(other_port), client(other_port));
    assert!(matches!(listener.line("PSUBSCRIBE __key*"), Value::Array(_)));
    assert_eq!(a.line("SET key of-one"), Value::ok());
    assert_eq!(a.line("GET key"), bulk("of-one"));
    assert!(b.line("GET key").is_null(), "its data is its own");
    assert!(listener.receive_until_quiet(Duration::from_millis(100)).unwrap().is_empty(), "no event of the other");
    assert_eq!(b.line("SET key of-other"), Value::ok());
    assert_eq!(listener.receive_until_quiet(Duration::from_millis(200)).unwrap().len(), 2, "one event in both channels");
    assert_eq!(over_unix(&one.0.join("s"), "STRLEN key"), ":6");
    assert_eq!(over_unix(&other.0.join("s"), "STRLEN key"), ":8");

    assert_eq!(b.line("ACL USERS"), Value::Array(vec![bulk("default"), bulk("extra")]));
    assert_eq!(a.line("ACL USERS"), Value::Array(vec![bulk("default")]));
    assert_eq!(b.line("ACL SAVE"), Value::ok());
    assert_eq!((figure(&mut a, "memory", "maxmemory"), figure(&mut b, "memory", "maxmemory")), ("67108864".into(), "0".into()));
    // Those over the Unix sockets have left.
    for (client, count) in [(&mut a, "1"), (&mut b, "2")] {
        let began = Instant::now();
        while figure(client, "clients", "connected_clients") != count {
            assert!(began.elapsed() < Duration::from_secs(10), "{count} clients are connected");
        }
    }
    assert_eq!(a.line("CONFIG SET maxmemory 32mb"), Value::ok());
    assert_eq!(figure(&mut b, "memory", "maxmemory"), "0");
    let elsewhere = Directory::new("elsewhere");
    assert_eq!(b.line(&format!("CONFIG SET dir {}", elsewhere.0.display())), Value::ok());
    assert_eq!(std::env::current_dir().unwrap(), working_directory, "the process is not the node's");

    // PFDEBUG's switch, and values that outlive their records, are a node's own.
    assert!(matches!(a.line("PFDEBUG SIMD OFF"), Value::Simple(_)));
    assert!(first.instance().keyspace.figures().used_bytes() > 0);

    first.stop().unwrap();
    assert!(!one.0.join("s").exists(), "its socket's file goes with it");
    assert!(is_closed(&mut a));
    assert_eq!(b.line("GET key"), bulk("of-other"), "the other one serves on");
    assert!(!b.line("SHUTDOWN NOSAVE").is_error());
    second.wait();
    second.stop().unwrap();
    assert_eq!(threads(), Vec::<String>::new());
}

#[test]
fn nodes_that_come_and_go_leave_no_thread_descriptor_mapping_or_memory() {
    let _alone = alone();
    let directory = Directory::new("gone");
    let mut after = Vec::new();
    for run in 0..20 {
        let port = free_port();
        let kinds: [&[&str]; 3] = [
            &["--workers", "2"],
            &["--workers", "1", "--storage-dir", "data", "--maxmemory", "64mb", "--unixsocket", "s"],
            &["--workers", "2", "--io-backend", "epoll", "--storage-device", "memory", "--maxmemory", "64mb"],
        ];
        let node = start(&directory.0, port, kinds[run % kinds.len()]).unwrap();
        let (mut client, mut waiting) = (client(port), client(port));
        waiting.send(&[["BLPOP", "list", "0"]]).unwrap();
        for key in 0..100 {
            assert_eq!(client.line(&format!("SET key:{key} {}", "v".repeat(1000))), Value::ok());
        }
        assert_eq!(client.line("SETRANGE large 1000000 v"), Value::Integer(1_000_001));
        if run % 2 == 0 {
            node.stop().unwrap()
        } else {
            drop(node)
        }
        assert!(is_closed(&mut client), "by node {run}");
        drop((client, waiting));
        assert_eq!(threads(), Vec::<String>::new(), "after node {run}");
        after.push((descriptors(), mappings(), resident_bytes()));
    }
    let (before, last) = (after[6], after[19]);
    assert_eq!(before.0, last.0, "descriptors: {after:?}");
    assert!(last.1 <= before.1 + 4, "mappings: {after:?}");
    assert!(last.2 < before.2 + (4 << 20), "memory: {after:?}");
}

#[test]
fn a_node_that_cannot_start_leaves_nothing_behind() {
    let _alone = alone();
    let directory = Directory::new("refused");
    let port = free_port();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let before = descriptors();
    for more in [&["--workers", "1"][..], &["--workers", "1", "--storage-dir", "data", "--unixsocket", "s"]] {
        assert!(start(&directory.0, port, more).is_err());
        assert_eq!((threads(), descriptors()), (Vec::new(), before));
    }
    drop(taken);
    start(&directory.0, port, &["--workers", "1"]).unwrap().stop().unwrap();
}
