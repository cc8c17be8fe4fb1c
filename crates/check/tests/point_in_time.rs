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
fn restored(directory: &Path, more: &[&str]) -> u64 {
    let flags = ["--appendonly", "yes", "--workers", "1", "--dir", directory.to_str().unwrap(), "--ring-dir", "{dir}"];
    let server = Server::start(&Program::Almandine, &[&flags, more].concat());
    let mut client = server.client();
    let last = match client.line("GET last") {
        Value::Bulk(last) => String::from_utf8(last).unwrap().parse().unwrap(),
        other => panic!("no last number: {other}"),
    };
    let all: Vec<Value> = (0..=last).map(|number| Value::Bulk(number.to_string().into_bytes())).collect();
    assert_eq!(client.line("LRANGE list 0 -1"), Value::Array(all), "of {last}");
    last
}

fn begin(client: &mut Client) {
    assert_eq!(client.line("BACKUP START"), Value::ok());
    let began = Instant::now();
    while state(client) != b"incrementing" {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
}

fn seal(client: &mut Client) -> Vec<PathBuf> {
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    let Value::Array(files) = client.line("BACKUP LIST") else { panic!("no files") };
    let path = |file: &Value| match file {
        Value::Bulk(path) => PathBuf::from(String::from_utf8(path.clone()).unwrap()),
        other => panic!("no path: {other}"),
    };
    files.iter().map(path).collect()
}

/// What the recording says of a cut at a time: how many numbers were answered until then, and how many were sent.
fn numbers(recorded: &Recorded, at: f64) -> std::ops::RangeInclusive<u64> {
    let count = |is_done: &dyn Fn(&(f64, f64)) -> bool| recorded.iter().filter(|times| is_done(times)).count() as u64;
    // A group's time is its millisecond's beginning.
    count(&|times| times.1 <= at)..=count(&|times| times.0.floor() <= at)
}

/// The same of a server whose data is larger than its memory: what its backup has of `storage-dir` goes with each of the cuts.
#[test]
fn a_backup_of_a_storage_is_read_whole_and_cut() {
    let folder = Folder(std::env::temp_dir().join(format!("almandine-point-in-storage-{}", std::process::id())));
    let storage = folder.0.join("original");
    let flags = ["--appendonly", "yes", "--appendfsync", "always", "--log-segment-size", "4mb", "--save", ""];
    let with = |directory: &str| ["--storage-dir".to_owned(), directory.to_owned(), "--maxmemory".to_owned(), "16mb".to_owned()];
    let storage = with(storage.to_str().unwrap());
    let storage: Vec<&str> = storage.iter().map(String::as_str).collect();
    let server = Server::start(&Program::Almandine, &[&flags[..], &storage].concat());
    let mut client = server.client();
    client.line("RPUSH list 0");
    client.line("SET last 0");
    let padding = |key: u64| {
        vec!["SET".to_owned(), format!("padding:{key}"), "x".repeat(if key.is_multiple_of(50) { 50_000 } else { 3_000 })]
    };
    for keys in (0..12_000).collect::<Vec<u64>>().chunks(100) {
        let sets: Vec<Vec<String>> = keys.iter().map(|key| padding(*key)).collect();
        assert!(client.pipeline(&sets).unwrap().iter().all(|reply| *reply == Value::ok()));
    }
    begin(&mut client);
    let first = unix_ms();
    let recorded = record(&mut client, 300);
    let last = unix_ms();
    let (far, near): (Vec<_>, Vec<_>) =
        seal(&mut client).into_iter().partition(|file| file.to_str().unwrap().contains("/storage/"));
    assert!(far.len() >= 4, "{far:?}");
    for moment in 0..6 {
        let at = first + (last - first) * f64::from(moment + 1) / 6.0;
        let directory = folder.0.join(moment.to_string());
        let log = link(&near, &directory);
        for file in &far {
            let [name, part] = [file, &file.parent().unwrap().to_owned()].map(|path| path.file_name().unwrap().to_owned());
            fs::create_dir_all(directory.join("storage").join(&part)).unwrap();
            fs::copy(file, directory.join("storage").join(part).join(name)).unwrap();
        }
        let storage = directory.join("storage");
        let verify = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
            command.arg("verify").arg(&log).arg("--storage-dir").arg(&storage).output().unwrap()
        };
        let verified = verify();
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.code() == Some(0) && said.contains("pages in storage-dir"), "{said}");
        assert_eq!(cut(&log, &["--at-time", &format!("{:.6}", at / 1000.0), "--yes"]), Some(0));
        let storage_flags = with(storage.to_str().unwrap());
        let number = restored(&directory, &storage_flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(numbers(&recorded, at).contains(&number), "{number} at {at}: {:?}", numbers(&recorded, at));
    }
    // Each block of each page counts; one that is missing, too.
    let directory = folder.0.join("damaged");
    let log = link(&near, &directory);
    let verify = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
        command.arg("verify").arg(&log).arg("--storage-dir").arg(far[0].ancestors().nth(2).unwrap()).output().unwrap()
    };
    assert_eq!(verify().status.code(), Some(0));
    for part in ["/storage/log/", "/storage/values/"] {
        let is_segment =
            |file: &&PathBuf| file.to_str().unwrap().contains(part) && file.extension().is_some_and(|end| end == "segment");
        let segment = far.iter().find(is_segment).unwrap();
        let bytes = fs::read(segment).unwrap();
        let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let file = fs::OpenOptions::new().write(true).open(segment).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[!bytes[at]], at as u64).unwrap();
        let said = verify();
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.code() == Some(1) && text.contains("damaged"), "{part}: {text}");
        std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[at]], at as u64).unwrap();
        assert_eq!(verify().status.code(), Some(0), "{part}");
    }
    fs::remove_file(far.iter().find(|file| file.to_str().unwrap().contains("/storage/log/0")).unwrap()).unwrap();
    assert_eq!(verify().status.code(), Some(1));
}

#[test]
fn a_backup_is_cut_at_any_moment_of_its_recording() {
    let folder = Folder(std::env::temp_dir().join(format!("almandine-point-in-time-{}", std::process::id())));
    let flags = ["--appendonly", "yes", "--appendfsync", "always", "--log-segment-size", "4mb", "--save", ""];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    client.line("RPUSH list 0");
    client.line("SET last 0");
    begin(&mut client);
    let first = unix_ms();
    let recorded = record(&mut client, 1000);
    let last = unix_ms();
    let files = seal(&mut client);
    // From each number's sending to the next one's. All are as likely, however long a write was held up.
    let bounds: Vec<f64> = [first].into_iter().chain(recorded.iter().map(|times| times.0)).chain([last]).collect();
    let spans: Vec<&[f64]> = bounds.windows(2).collect();
    let mut seen = std::collections::BTreeSet::new();
    let mut dice = 7_u64;
    let mut roll = || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        dice >> 33
    };
    for moment in 0..MOMENTS {
        let span = spans[roll() as usize % spans.len()];
        let at = span[0] + (span[1] - span[0]) * (roll() as f64 / f64::from(1_u32 << 31));
        let directory = folder.0.join(moment.to_string());
        let log = link(&files, &directory);
        assert_eq!(cut(&log, &["--at-time", &format!("{:.6}", at / 1000.0), "--yes"]), Some(0));
        let number = restored(&directory, &[]);
        assert!(numbers(&recorded, at).contains(&number), "{number} at {at}: {:?}", numbers(&recorded, at));
        seen.insert(number);
        fs::remove_dir_all(&directory).unwrap();
    }
    assert!(seen.len() > 50, "{seen:?}");
    // None of the cuts has changed what the others have.
    let directory = folder.0.join("whole");
    link(&files, &directory);
    assert_eq!(restored(&directory, &[]), 1000);
    // What the base has cannot be cut off.
    let log = link(&files, &folder.0.join("before"));
    assert_eq!(cut(&log, &["--at-time", "1000", "--yes"]), Some(1));
    assert_eq!(cut(&log, &["--at-time", "1000", "--at", "1000"]), Some(2));
}
