//! What loading costs: `cargo bench -p almandine-recovery --bench load -- [keys]`.
//!
//! Prints nanoseconds of all threads' CPU time for each key of 16 bytes with a value of 100, and how many keys were loaded in a
//! second: of a base, of the log and of a snapshot file of Redis, by one lane and by two, of this number of keys and of twice as
//! many; and, where redis-server is in PATH, what it takes for the same snapshot file, in the same run.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use almandine_config::{Config, Startup};
use almandine_io::usage;
use almandine_keyspace::{Accessor, Dumping, Keyspace, Options, Put};
use almandine_oplog::entry::{Attributes, LogEntry, LogValue, Operation};
use almandine_oplog::group::PartHead;
use almandine_oplog::read::LogGroup;
use almandine_oplog::{LogKeys, UnitHead, last_of};
use almandine_rdb::file::{ReadOptions, WriteVersion};
use almandine_recovery::base::{self, BaseDatabases, BaseHead, BaseWriter};
use almandine_recovery::load::{self, Existing, LoadOptions};
use almandine_recovery::put::ValueLimits;
use almandine_recovery::redo::{LogLanes, Redo};
use almandine_recovery::save::{SaveOptions, SaveProgress, SnapshotFile};

const VALUE: [u8; 100] = [b'v'; 100];
const HEAD: BaseHead = BaseHead { log: 1, base: 1, lsn: 0, seed: 0, part: 0, parts: 1 };
/// Units of a group.
const GROUP: u64 = 8192;

fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse::<u64>().ok()).unwrap_or(1 << 20);
    for keys in [asked, 2 * asked] {
        let from = keyspace();
        let mut accessor = from.accessor().expect("an accessor");
        fill(&mut accessor, keys);
        let (base, contents) = base_of(&mut accessor);
        let snapshot = snapshot_of(&mut accessor);
        drop((accessor, from));
        println!("{keys} keys: base {} MB, snapshot {} MB", base.len() >> 20, snapshot.len() >> 20);
        for lanes in [1, 2] {
            let report = |what: &str, load: &mut dyn FnMut(&mut Accessor)| timed(keys, &format!("{what}, lanes: {lanes}"), load);
            report("base", &mut |accessor| {
                let mut lanes = LogLanes::start(accessor, lanes);
                base::load((&base[..], &LogKeys::NONE), HEAD, &mut lanes, &BTreeMap::from([(contents, 0)])).expect("a base");
                lanes.end().expect("room");
            });
            report("log", &mut |accessor| log(accessor, keys, lanes));
            report("snapshot", &mut |accessor| {
                let Ok(Startup::Run(config)) = Config::load(&[]) else { panic!("the defaults are a configuration") };
                let limits = ValueLimits::of(&config.snapshot().settings);
                let options =
                    LoadOptions { limits, read: ReadOptions::default(), existing: Existing::Refuse, keep_expired: false, lanes };
                load::load(accessor, &snapshot[..], &options, &mut |_, _| true).expect("a snapshot");
            });
        }
        drop(base);
        redis(keys, snapshot);
    }
}

fn keyspace() -> std::sync::Arc<Keyspace> {
    Keyspace::open(Options::default()).expect("a keyspace")
}

fn name(key: u64) -> [u8; 16] {
    u128::from(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes()
}

fn fill(accessor: &mut Accessor, keys: u64) {
    for key in 0..keys {
        accessor.begin_batch(1);
        let mut writer = accessor.writer(0);
        writer.upsert(writer.key(&name(key)), &VALUE, Put::default()).expect("room");
        drop(writer);
        accessor.end_batch();
    }
}

fn base_of(accessor: &mut Accessor) -> (Vec<u8>, u64) {
    let (mut writer, mut contents) = (BaseWriter::new(Vec::new(), HEAD).expect("memory"), 0);
    let mut walk = Dumping::part(0, 1);
    while walk
        .next(accessor, |key| {
            contents = key.contents;
            writer.key(&key).expect("memory");
        })
        .expect("in memory")
    {}
    (writer.finish(&BaseDatabases::default()).expect("memory"), contents)
}

fn snapshot_of(accessor: &mut Accessor) -> Vec<u8> {
    let mut out = Vec::new();
    let options = SaveOptions { version: WriteVersion::Redis10, compression: false, ..SaveOptions::default() };
    let file = SnapshotFile::begin_now(accessor).expect("the only copy");
    file.write_to(accessor, &mut out, &options, &SaveProgress::default()).expect("memory");
    out
}

/// Redo of a SET of each key.
fn log(accessor: &mut Accessor, keys: u64, lanes: usize) {
    let mut redo = Redo::new(vec![1]);
    let mut lanes = LogLanes::start(accessor, lanes);
    let (mut units, mut body) = (Vec::new(), Vec::new());
    for from in (0..keys).step_by(GROUP as usize) {
        units.clear();
        for key in from..(from + GROUP).min(keys) {
            let value = LogValue::Bytes(&VALUE);
            let operation = Operation::Set { kind: 0, value, attributes: Attributes::default(), made: true };
            let mut entry = Vec::with_capacity(256);
            LogEntry { contents: 1, key: &name(key), operation }.encode(&mut entry);
            let head = UnitHead { number: last_of(0) + 1 + key, bytes: entry.len() as u32, entries: 1 };
            units.extend_from_slice(&head.encode());
            units.extend_from_slice(&entry);
        }
        body.clear();
        body.extend_from_slice(&1u64.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&(units.len() as u32).to_le_bytes());
        body.extend_from_slice(&units);
        redo.group(
            &mut lanes,
            &LogGroup { lsn: from, end_lsn: from, head: PartHead::default(), body: &body, is_opaque: false, units: 1 },
        )
        .expect("a group");
    }
    lanes.end().expect("room");
}

/// Loads into a new keyspace, and prints what it took. What the keyspace's own threads do is in it.
fn timed(keys: u64, what: &str, load: &mut dyn FnMut(&mut Accessor)) {
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().expect("an accessor");
    let used = || {
        let time = usage::process();
        (time.user_us + time.system_us) * 1000
    };
    let (before, began) = (used(), Instant::now());
    load(&mut accessor);
    line(what, keys, used() - before, began.elapsed());
    assert_eq!(keyspace.dbsize(0), keys, "all keys are there");
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn line(what: &str, keys: u64, cpu_ns: u64, elapsed: Duration) {
    let (ns, rate) = (cpu_ns as f64 / keys as f64, keys as f64 / elapsed.as_secs_f64() / 1e6);
    println!("{what:<28} {ns:>7.1} ns CPU, {:>6.2} M keys/s of a core, {rate:>6.2} M keys/s passed", 1000.0 / ns);
}

/// What redis-server takes for the same file.
fn redis(keys: u64, snapshot: Vec<u8>) {
    let directory = std::env::temp_dir().join(format!("almandine-load-{}", std::process::id()));
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let path = directory.display().to_string();
    std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(directory.join("dump.rdb"), &snapshot)).expect("a file");
    drop(snapshot);
    let began = Instant::now();
    let started = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--save", "", "--dir", &path, "--bind", "127.0.0.1"])
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut server) = started else { return println!("redis-server is not here") };
    let is_ready = || {
        let mut reply = [0; 7];
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut reply)).ok()?;
        (&reply == b"+PONG\r\n").then_some(())
    };
    while is_ready().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let elapsed = began.elapsed();
    let times = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap_or_default();
    // User and system time, in hundredths of a second.
    let ticks: u64 = times.split(' ').skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    line("redis-server, snapshot", keys, ticks * 10_000_000, elapsed);
    server.kill().and_then(|()| server.wait()).expect("it can be ended");
    std::fs::remove_dir_all(&directory).expect("it is ours");
}
