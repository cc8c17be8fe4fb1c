//! A backup, cut at moments of its recording: a server that starts from it has what was done until then, and nothing else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use almandine_testkit::{Client, Program, Server, Value};

const MOMENTS: u64 = 100;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn unix_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0
}

fn state(client: &mut Client) -> Vec<u8> {
    let Value::Array(status) = client.line("BACKUP STATUS") else { panic!("no status") };
    let Value::Bulk(state) = &status[1] else { panic!("{status:?}") };
    state.clone()
}

/// When each number was sent, and when its answer came.
type Recorded = Vec<(f64, f64)>;

/// Writes 1, 2, 3 … for some time, at no steady pace.
fn record(client: &mut Client, numbers: u64) -> Recorded {
    let mut dice = 1_u64;
    let write = |number: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number);
        thread::sleep(Duration::from_micros((dice >> 40) % 3000));
        let sent = unix_ms();
        let commands = [format!("RPUSH list {number}"), format!("SET last {number}")];
        let transaction = ["MULTI".to_owned()].into_iter().chain(commands).chain(["EXEC".to_owned()]);
        let words = transaction.map(|line| line.split(' ').map(str::to_owned).collect());
        assert!(client.pipeline(&words.collect::<Vec<Vec<String>>>()).unwrap().iter().all(|reply| !reply.is_error()));
        (sent, unix_ms())
    };
    (1..=numbers).map(write).collect()
}

/// The same files under the names of a log below another directory.
fn link(files: &[PathBuf], directory: &Path) -> PathBuf {
    let log = directory.join("appendonlydir");
    fs::create_dir_all(&log).unwrap();
    files.iter().for_each(|file| fs::hard_link(file, log.join(file.file_name().unwrap())).unwrap());
    log
}

fn cut(log: &Path, arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
    command.arg("--json").arg("cut").arg(log).args(arguments).output().unwrap().status.code()
}

/// The last number that a log leads to; all before are there.
fn restored(directory: &Path) -> u64 {
    let flags = ["--appendonly", "yes", "--workers", "1", "--dir", directory.to_str().unwrap(), "--ring-dir", "{dir}"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    let last = match client.line("GET last") {
        Value::Bulk(last) => String::from_utf8(last).unwrap().parse().unwrap(),
        other => panic!("no last number: {other}"),
    };
    let all: Vec<Value> = (0..=last).map(|number| Value::Bulk(number.to_string().into_bytes())).collect();
    assert_eq!(client.line("LRANGE list 0 -1"), Value::Array(all), "of {last}");
    last
}

#[test]
fn a_backup_is_cut_at_any_moment_of_its_recording() {
    let folder = Folder(std::env::temp_dir().join(format!("almandine-point-in-time-{}", std::process::id())));
    let flags = ["--appendonly", "yes", "--appendfsync", "always", "--log-segment-size", "4mb", "--save", ""];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    client.line("RPUSH list 0");
    client.line("SET last 0");
    assert_eq!(client.line("BACKUP START"), Value::ok());
    let began = Instant::now();
    while state(&mut client) != b"incrementing" {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
    let first = unix_ms();
    let recorded = record(&mut client, 1000);
    let last = unix_ms();
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    let Value::Array(files) = client.line("BACKUP LIST") else { panic!("no files") };
    let path = |file: &Value| match file {
        Value::Bulk(path) => PathBuf::from(String::from_utf8(path.clone()).unwrap()),
        other => panic!("no path: {other}"),
    };
    let files: Vec<PathBuf> = files.iter().map(path).collect();
    let mut seen = std::collections::BTreeSet::new();
    let mut dice = 7_u64;
    for moment in 0..MOMENTS {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = first + (last - first) * ((dice >> 33) as f64 / f64::from(1_u32 << 31));
        let directory = folder.0.join(moment.to_string());
        let log = link(&files, &directory);
        assert_eq!(cut(&log, &["--at-time", &format!("{:.6}", at / 1000.0), "--yes"]), Some(0));
        let number = restored(&directory);
        let count = |is_done: &dyn Fn(&(f64, f64)) -> bool| recorded.iter().filter(|times| is_done(times)).count() as u64;
        // A group's time is its millisecond's beginning.
        let (answered, sent) = (count(&|times| times.1 <= at), count(&|times| times.0.floor() <= at));
        assert!((answered..=sent).contains(&number), "{number} at {at}: {answered} were answered, {sent} sent");
        seen.insert(number);
        fs::remove_dir_all(&directory).unwrap();
    }
    assert!(seen.len() > 50, "{seen:?}");
    // None of the cuts has changed what the others have.
    let directory = folder.0.join("whole");
    link(&files, &directory);
    assert_eq!(restored(&directory), 1000);
    // What the base has cannot be cut off.
    let log = link(&files, &folder.0.join("before"));
    assert_eq!(cut(&log, &["--at-time", "1000", "--yes"]), Some(1));
    assert_eq!(cut(&log, &["--at-time", "1000", "--at", "1000"]), Some(2));
}
