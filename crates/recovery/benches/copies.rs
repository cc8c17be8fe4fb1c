//! What copying all keys costs: `cargo bench -p almandine-recovery --bench copies -- [keys] [walks]`.
//!
//! Prints the CPU time of one thread for each key of 16 bytes with a value of 100, into nowhere, alone and beside another thread
//! that sets keys; and for each SET, in batches of 64 keys, without a copy, and beyond the moment of one: of keys that nothing was
//! saved of, of such that were, and behind the copy. With `walks` only the copies, which take no memory of their own; then, where
//! redis-server is in PATH, what its child takes for a snapshot of as many such keys, in the same run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use almandine_io::usage;
use almandine_keyspace::{Accessor, Dumping, Keyspace, Options, Put};
use almandine_rdb::file::WriteVersion;
use almandine_recovery::base::{BaseDatabases, BaseHead, BaseWriter};
use almandine_recovery::save::{SaveOptions, SaveProgress, SnapshotFile};

const BATCH: usize = 64;
/// Between two batches of the thread beside: 50,000 SETs a second.
const PAUSE: Duration = Duration::from_micros(1_280);
const VALUE: [u8; 100] = *b"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse::<u64>().ok());
    let keys = asked.unwrap_or(1 << 21).next_power_of_two();
    let keyspace = Keyspace::open(Options::default()).expect("a keyspace");
    let mut accessor = keyspace.accessor().expect("an accessor");
    set_all(&mut accessor, keys, 0);
    while keyspace.figures().index_buckets() < keys / 6 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let report = |what: &str, ns: u64| println!("{what:<44} {:>8.1} ns", ns as f64 / keys as f64);
    let only_walks = std::env::args().any(|argument| argument == "walks");
    for round in 1..=if only_walks { 1 } else { 3 } {
        report("SET", timed(|| set_all(&mut accessor, keys, round)));
    }
    report("base", timed(|| base(&mut accessor)));
    for (what, compression) in [("snapshot file", false), ("snapshot file, compressed", true)] {
        report(what, timed(|| snapshot(&mut accessor, compression)));
    }
    report("base, 50,000 SETs a second beside", timed(|| beside(&keyspace, keys, || base(&mut accessor))));
    report("snapshot file, the same beside", timed(|| beside(&keyspace, keys, || snapshot(&mut accessor, false))));
    if only_walks {
        println!("{:<44} {:>8} MB", "resident", usage::resident_bytes() >> 20);
        drop((accessor, keyspace));
        return redis(keys);
    }
    let memory = usage::resident_bytes();
    accessor.begin_batch(1);
    let copying = accessor.unit().begin_copying(u64::MAX).expect("the only copy");
    accessor.end_batch();
    report("SET, what was there is saved", timed(|| set_all(&mut accessor, keys, 4)));
    println!("{:<44} {:>8} bytes", "saved, for each key", usage::resident_bytes().saturating_sub(memory) / keys);
    report("SET, saved before", timed(|| set_all(&mut accessor, keys, 5)));
    walk(copying, &mut accessor);
    report("SET, behind the copy", timed(|| set_all(&mut accessor, keys, 6)));
}

/// CPU time of this thread.
fn timed(work: impl FnOnce()) -> u64 {
    let used = || {
        let time = usage::thread();
        (time.user_us + time.system_us) * 1000
    };
    let before = used();
    work();
    used() - before
}

/// Sets all keys once, in an order of its own for each round. `keys` is a power of two.
fn set_all(accessor: &mut Accessor, keys: u64, round: u64) {
    (0..keys / BATCH as u64).for_each(|batch| set_batch(accessor, keys, (round, batch)));
}

fn set_batch(accessor: &mut Accessor, keys: u64, (round, batch): (u64, u64)) {
    // Odd factors visit each number once.
    let number = |at: u64| (batch * BATCH as u64 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ round << 8) & (keys - 1);
    let names: [[u8; 16]; BATCH] = std::array::from_fn(|at| u128::from(number(at as u64)).to_be_bytes());
    accessor.begin_batch(1);
    let mut hashed = names.each_ref().map(|name| accessor.key(0, name));
    let mut group = accessor.group();
    group.begin();
    hashed.iter_mut().for_each(|key| key.glance = group.expect(key.hash));
    group.prefetch();
    let mut writer = accessor.writer(0);
    for key in hashed {
        writer.upsert(key, &VALUE, Put::default()).expect("room");
    }
    drop(writer);
    accessor.end_batch();
}

/// Does work beside a thread that sets keys.
fn beside(keyspace: &std::sync::Arc<Keyspace>, keys: u64, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut accessor = keyspace.accessor().expect("an accessor");
            let batches = (0..).take_while(|_| !stop.load(Ordering::Relaxed));
            batches.for_each(|batch| {
                set_batch(&mut accessor, keys, (7, batch));
                thread::sleep(PAUSE);
            });
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

/// What redis-server's child takes for a snapshot, into a file that is not kept.
fn redis(keys: u64) {
    let directory = std::env::temp_dir().join(format!("almandine-copies-{}", std::process::id()));
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    std::fs::create_dir_all(&directory).expect("a directory");
    let started = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1", "--enable-debug-command", "yes"])
        .args(["--rdbcompression", "no", "--dir"])
        .arg(&directory)
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut server) = started else { return println!("redis-server is not here") };
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut replies = BufReader::new(stream.try_clone().expect("a socket"));
    let mut call = |line: &str| {
        (&stream).write_all(format!("{line}\r\n").as_bytes()).expect("sent");
        let mut text = String::new();
        replies.read_line(&mut text).expect("a reply");
        if let Some(bytes) = text.strip_prefix('$').and_then(|bytes| bytes.trim().parse::<usize>().ok()) {
            let mut bytes = vec![0; bytes + 2];
            replies.read_exact(&mut bytes).expect("a reply");
            text = String::from_utf8(bytes).expect("text");
        }
        text
    };
    // Names of 16 bytes.
    assert_eq!(call(&format!("DEBUG POPULATE {keys} kkkkkkk {}", VALUE.len())).trim(), "+OK");
    assert!(call("BGSAVE").starts_with('+'));
    while !call("INFO persistence").contains("rdb_bgsave_in_progress:0") {
        thread::sleep(Duration::from_millis(100));
    }
    let info = call("INFO cpu");
    let seconds = |name: &str| {
        let (_, rest) = info.split_once(name).expect("a figure");
        rest[1..].lines().next().and_then(|seconds| seconds.trim().parse::<f64>().ok()).expect("seconds")
    };
    let all_s = seconds("used_cpu_user_children") + seconds("used_cpu_sys_children");
    println!("{:<44} {:>8.1} ns", "redis-server's child, snapshot file", all_s * 1e9 / keys as f64);
    server.kill().and_then(|()| server.wait()).expect("it can be ended");
    std::fs::remove_dir_all(&directory).expect("it is ours");
}

fn base(accessor: &mut Accessor) {
    let mut writer = BaseWriter::new(std::io::sink(), BaseHead::default()).expect("a sink");
    let mut walk = Dumping::part(0, 1);
    while walk.next(accessor, |key| writer.key(&key).expect("a sink")).expect("in memory") {}
    writer.finish(&BaseDatabases::default()).expect("a sink");
}

fn snapshot(accessor: &mut Accessor, compression: bool) {
    let options = SaveOptions { version: WriteVersion::Redis11, compression, ..SaveOptions::default() };
    let file = SnapshotFile::begin_now(accessor).expect("the only copy");
    file.write_to(accessor, std::io::sink(), &options, &SaveProgress::default()).expect("a sink");
}

fn walk(mut copying: almandine_keyspace::Copying, accessor: &mut Accessor) {
    while copying.next(accessor, |_| ()).expect("in memory") {}
}
