//! Backups of a server whose data is many times its memory, and lies in `storage-dir`.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use super::*;

/// Keys of a writer.
const KEYS: u64 = 8_000;
const WRITERS: u64 = 2;
/// Units that a writer sends together.
const TOGETHER: u64 = 50;

/// What a writer sets with its unit of this number.
fn value(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(97) { 40_000 } else { 500 + number * 37 % 4_000 };
    format!("{number}:").into_bytes().into_iter().chain((0..length).map(|at| b'a' + ((at + number) % 26) as u8)).collect()
}

/// One unit of work: a key that is set, a hash that is edited where it lies, and how far the writer is.
fn unit(writer: u64, number: u64) -> Vec<Vec<Vec<u8>>> {
    let key = number % KEYS;
    let text = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let set = vec![b"SET".to_vec(), format!("key:{writer}:{key}").into_bytes(), value(number)];
    let edit = text(&["HSET", &format!("hash:{writer}:{}", key / 4), &format!("field:{}", key % 4), &number.to_string()]);
    let last = text(&["SET", &format!("last:{writer}"), &number.to_string()]);
    vec![text(&["MULTI"]), set, edit, last, text(&["EXEC"])]
}

/// Clients that write, each one unit behind the other.
struct Writers {
    done: Arc<AtomicBool>,
    /// Of each, how many are sent, and how many are answered.
    counts: Vec<Arc<[AtomicU64; 2]>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Writers {
    fn start(server: &Server) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let counts: Vec<_> = (0..WRITERS).map(|_| Arc::new([AtomicU64::new(0), AtomicU64::new(0)])).collect();
        let write = |(writer, count): (u64, &Arc<[AtomicU64; 2]>)| {
            let (mut client, done, count) = (server.client(), Arc::clone(&done), Arc::clone(count));
            thread::spawn(move || {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    let units = number..number + TOGETHER;
                    number += TOGETHER;
                    count[0].store(number, Ordering::SeqCst);
                    let commands: Vec<_> = units.flat_map(|number| unit(writer, number)).collect();
                    let replies = client.pipeline(&commands).unwrap();
                    assert!(replies.iter().all(|reply| !reply.is_error()), "{:?}", replies.iter().find(|reply| reply.is_error()));
                    count[1].store(number, Ordering::SeqCst);
                }
            })
        };
        let threads = (0..).zip(&counts).map(write).collect();
        Self { done, counts, threads }
    }

    /// Of each writer, how many units are answered (1), or sent (0).
    fn counts(&self, which: usize) -> Vec<u64> {
        self.counts.iter().map(|count| count[which].load(Ordering::SeqCst)).collect()
    }

    /// Waits until each has written this many more.
    fn await_more(&self, more: u64) {
        let before = self.counts(1);
        let began = Instant::now();
        while self.counts(1).iter().zip(&before).any(|(now, before)| now - before < more) {
            assert!(began.elapsed() < PATIENCE, "{:?} of {before:?} and {more}", self.counts(1));
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// How many units of each there are in the end.
    fn end(self) -> Vec<u64> {
        self.done.store(true, Ordering::Relaxed);
        let counts = self.counts.clone();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        counts.iter().map(|count| count[1].load(Ordering::SeqCst)).collect()
    }
}

/// How many units of each writer a server has: all up to some one, and nothing of a later one.
fn prefixes(client: &mut Client) -> Vec<u64> {
    (0..WRITERS).map(|writer| prefix(client, writer)).collect()
}

fn prefix(client: &mut Client, writer: u64) -> u64 {
    let Value::Bulk(last) = client.line(&format!("GET last:{writer}")) else { panic!("no last unit of {writer}") };
    let last: u64 = String::from_utf8(last).unwrap().parse().unwrap();
    // The last unit that has changed a key.
    let of_key = |key: u64| (key <= last).then(|| last - (last - key) % KEYS);
    let keys: Vec<u64> = (0..KEYS).collect();
    for part in keys.chunks(200) {
        let gets: Vec<_> = part.iter().map(|key| vec!["GET".to_owned(), format!("key:{writer}:{key}")]).collect();
        for (key, found) in part.iter().zip(client.pipeline(&gets).unwrap()) {
            let expected = of_key(*key).map_or(Value::NullBulk, |number| Value::Bulk(value(number)));
            assert!(found == expected, "key {key} of writer {writer} with {last} units: {}", found.to_string().len());
        }
    }
    let hashes: Vec<u64> = (0..KEYS / 4).collect();
    for part in hashes.chunks(200) {
        let gets: Vec<_> = part.iter().map(|hash| vec!["HGETALL".to_owned(), format!("hash:{writer}:{hash}")]).collect();
        for (hash, found) in part.iter().zip(client.pipeline(&gets).unwrap()) {
            let Value::Array(found) = found else { panic!("hash {hash}: {found}") };
            let text = |value: &Value| if let Value::Bulk(text) = value { text.clone() } else { panic!("{value}") };
            let found: BTreeMap<_, _> = found.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
            let field = |field: u64| Some((format!("field:{field}"), of_key(hash * 4 + field)?.to_string()));
            let bytes = |(field, value): (String, String)| (field.into_bytes(), value.into_bytes());
            let expected: BTreeMap<_, _> = (0..4).filter_map(field).map(bytes).collect();
            assert_eq!(found, expected, "hash {hash} of writer {writer} with {last} units");
        }
    }
    last + 1
}

fn info(client: &mut Client, name: &str) -> u64 {
    let Value::Bulk(text) = client.line("INFO everything") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// A base that begins now, and is complete.
fn rewrite(client: &mut Client) {
    let bases = info(client, "aof_rewrites");
    let began = Instant::now();
    // One may be under way, for the space that the one before keeps.
    while client.line("BGREWRITEAOF").is_error() || info(client, "aof_rewrites") == bases {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    while info(client, "aof_rewrite_in_progress") != 0 {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
}

fn flags(folder: &Folder, rings: &Path, fsync: &str) -> Vec<String> {
    let storage = folder.0.join("storage");
    let more = ["--storage-dir", storage.to_str().unwrap(), "--maxmemory", "16mb", "--storage-garbage-max", "10"];
    let flags = [&folder.flags(rings)[..], &more, &["--storage-segment-size", "16mb", "--save", "", "--appendfsync", fsync]];
    flags.concat().into_iter().map(str::to_owned).collect()
}

fn start(flags: &[String]) -> Server {
    Server::start(&Program::Almandine, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Begins a backup that copies as slowly as it can, and waits until it does.
fn begin_slowly(client: &mut Client) {
    assert_eq!(client.line("CONFIG SET backup-copy-rate 1kb"), Value::ok());
    assert_eq!(client.line("BACKUP START"), Value::ok());
    let began = Instant::now();
    while list(client).is_empty() {
        assert!(began.elapsed() < PATIENCE, "{:?}", status(client));
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status(client)[0], "snapshotting", "what the base names is still to be copied");
}

/// INV-LEASE-1: before what the base names is copied, it is dead on the device, and later bases have given its space back but for
/// the lease.
fn has_what_its_base_names(fsync: &str, start_first: &dyn Fn(&[String]) -> Server) {
    let (home, elsewhere, rings) = (Folder::new("far-home"), Folder::new("far-elsewhere"), Folder::new("far-rings"));
    let mut server = start_first(&flags(&home, &rings.0, fsync));
    let writers = Writers::start(&server);
    let mut client = server.client();
    writers.await_more(KEYS + KEYS / 2);
    let on_device = info(&mut client, "storage_device_bytes");
    // What is dead there is given back sooner or later.
    assert!(on_device > 2 * (16 << 20), "the data is larger than memory: {on_device}");
    begin_slowly(&mut client);
    for _ in 0..2 {
        writers.await_more(KEYS);
        rewrite(&mut client);
    }
    assert_eq!(status(&mut client)[..2], ["snapshotting", ""]);
    assert!(error(&client.line("BACKUP SEAL")).contains("is not written yet"));
    let leased = info(&mut client, "storage_leased_bytes");
    assert_eq!(client.line("CONFIG SET backup-copy-rate 1gb"), Value::ok());
    await_state(&mut client, "incrementing");
    assert!(leased > 8 << 20, "{leased}: later bases do not need what this one names");
    assert_eq!(info(&mut client, "storage_leased_bytes"), 0);
    let base = list(&mut client);
    assert!(base.iter().any(|file| file.ends_with("storage/log/almandine.format")), "{base:?}");
    writers.await_more(KEYS / 2);
    rewrite(&mut client);
    writers.await_more(TOGETHER);
    let before = writers.counts(1);
    let sealed = client.line("BACKUP SEAL");
    assert_eq!(sealed, Value::ok(), "{sealed}");
    let after = writers.counts(0);
    let files = list(&mut client);
    assert!(files[..base.len()] == base[..] && files.iter().all(|file| file.exists()), "{files:?}");
    elsewhere.restore(&files);
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!(fs::read_dir(home.0.join("backupdir")).unwrap().count(), 0);
    // Beside the one that it was taken of, which goes on.
    let mut restored = start(&flags(&elsewhere, &rings.0, fsync));
    let found = prefixes(&mut restored.client());
    let is_between = |((before, found), after): ((&u64, &u64), &u64)| before <= found && found <= after;
    assert!(before.iter().zip(&found).zip(&after).all(is_between), "{before:?}, {found:?}, {after:?}");
    restored.client().line("SET mine 1");
    rewrite(&mut restored.client());
    restored.kill();
    restored.start_again();
    assert_eq!(prefixes(&mut restored.client()), found);
    assert_eq!(restored.client().line("GET mine"), Value::Bulk(b"1".to_vec()));
    let written = writers.end();
    server.kill();
    server.start_again();
    assert_eq!(prefixes(&mut server.client()), written);
}

#[test]
fn a_backup_has_what_its_base_names_whatever_becomes_of_it() {
    ["everysec", "always"].into_iter().for_each(|fsync| has_what_its_base_names(fsync, &start));
}

/// INV-LEASE-1: without the lease the copy does not find what it is to copy; without the log's files that bases drop, the backup
/// has a gap.
#[cfg(feature = "mutants")]
#[test]
fn mutants_are_noticed() {
    use std::panic::catch_unwind;

    use almandine_testkit::mutants;

    for (mutant, reason) in [("HoldLease", "of the storage"), ("KeepSegments", "does not go on from the base")] {
        let start = |flags: &[String]| mutants::start(mutant, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        let report = catch_unwind(|| has_what_its_base_names("everysec", &start)).unwrap_err();
        let report = report.downcast_ref::<String>().unwrap();
        assert!(report.contains(reason), "{mutant}: {report}");
    }
}

/// Names in the directory of backups.
fn left(folder: &Folder) -> usize {
    fs::read_dir(folder.0.join("backupdir")).map_or(0, Iterator::count)
}

#[test]
fn what_ends_a_backup_gives_the_space_back() {
    let (home, rings) = (Folder::new("released"), Folder::new("released-rings"));
    let mut server = start(&flags(&home, &rings.0, "everysec"));
    let mut client = server.client();
    let churn = |server: &Server, units: u64| {
        let writers = Writers::start(server);
        writers.await_more(units);
        writers.end()
    };
    churn(&server, KEYS);
    // Until a later base needs less than the backup's.
    let hold = |server: &Server, client: &mut Client| {
        begin_slowly(client);
        churn(server, KEYS);
        rewrite(client);
        let leased = info(client, "storage_leased_bytes");
        assert!(leased > 8 << 20, "{leased}");
        leased
    };
    let leased = hold(&server, &mut client);
    let before = info(&mut client, "storage_device_bytes");
    assert_eq!(client.line("BACKUP ABORT"), Value::ok());
    assert_eq!((status(&mut client)[0].as_str(), left(&home), info(&mut client, "storage_leased_bytes")), ("failed", 0, 0));
    let after = info(&mut client, "storage_device_bytes");
    assert!(after <= before - leased / 2, "{leased} bytes of {before} were leased, and there are {after}");
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());

    let leased = hold(&server, &mut client);
    let before = info(&mut client, "storage_device_bytes");
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!((status(&mut client)[0].as_str(), info(&mut client, "storage_leased_bytes")), ("idle", 0));
    let after = info(&mut client, "storage_device_bytes");
    assert!(after <= before - leased / 2, "{leased} bytes of {before} were leased, and there are {after}");
    assert!(left(&home) > 0 && error(&client.line("BACKUP START")).contains("it has to be empty"));
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!(left(&home), 0);

    // A sealed one has no lease.
    assert_eq!(client.line("CONFIG SET backup-copy-rate 1gb"), Value::ok());
    assert_eq!(client.line("BACKUP START"), Value::ok());
    await_state(&mut client, "incrementing");
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    assert_eq!(info(&mut client, "storage_leased_bytes"), 0);
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!(left(&home), 0);

    // One that is copied fails when the log ends, and the next log has its own.
    hold(&server, &mut client);
    assert_eq!(client.line("CONFIG SET appendonly no"), Value::ok());
    await_state(&mut client, "failed");
    let began = Instant::now();
    while (info(&mut client, "storage_leased_bytes"), info(&mut client, "storage_retained_bytes")) != (0, 0) {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    churn(&server, KEYS);
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!(client.line("CONFIG SET appendonly yes backup-copy-rate 1gb"), Value::ok());
    assert_eq!(client.line("BACKUP START"), Value::ok());
    await_state(&mut client, "incrementing");
    assert_eq!(client.line("BACKUP SEAL"), Value::ok());
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());

    // What is damaged is in no backup, and the server goes on.
    let pages = home.0.join("storage/log");
    let mut segments: Vec<PathBuf> = fs::read_dir(pages).unwrap().map(|file| file.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "segment"));
    for segment in segments {
        let file = fs::OpenOptions::new().write(true).open(segment).unwrap();
        (0..8_u64).for_each(|page| file.write_all_at(b"damaged", (page << 21) + 8_200).unwrap());
    }
    assert_eq!(client.line("BACKUP START"), Value::ok());
    await_state(&mut client, "failed");
    let [_, why, ..] = status(&mut client);
    assert!(why.contains("of the storage is damaged in block 2"), "{why}");
    assert_eq!((left(&home), info(&mut client, "storage_leased_bytes")), (0, 0));
    assert_eq!(client.line("SET other 1"), Value::ok());
    assert!(!client.line("BGREWRITEAOF").is_error());
}

/// What a backup keeps from `storage-dir` is not kept from the clients.
#[test]
fn a_storage_that_is_full_ends_the_backup_and_not_the_writes() {
    let (home, rings) = (Folder::new("filled"), Folder::new("filled-rings"));
    let limit = ["--storage-dir-size".to_owned(), "40mb".to_owned()];
    let server = start(&[&flags(&home, &rings.0, "everysec")[..], &limit].concat());
    let mut client = server.client();
    let began = Instant::now();
    // Memory may be full for a moment, too.
    let write = |client: &mut Client, number: u64| {
        let set = [b"SET".to_vec(), format!("key:{}", number % 12_000).into_bytes(), value(number)];
        client.send(&[set]).unwrap();
        client.receive().unwrap() == Value::ok()
    };
    (0..12_000).for_each(|number| assert!(write(&mut client, number)));
    begin_slowly(&mut client);
    let mut number = 12_000_u64;
    while status(&mut client)[0] != "failed" {
        let through = number + 500;
        while number < through {
            number += u64::from(write(&mut client, number));
        }
        assert!(began.elapsed() < PATIENCE && status(&mut client)[0] != "incrementing", "{number}: {:?}", status(&mut client));
    }
    let [_, why, ..] = status(&mut client);
    assert_eq!(why, "storage-dir was full, and only the backup needed some of it");
    // The thread that copies ends then.
    while info(&mut client, "storage_leased_bytes") != 0 {
        assert!(began.elapsed() < PATIENCE);
    }
    let through = number + 24_000;
    while number < through {
        assert!(began.elapsed() < PATIENCE, "{number} of {through}");
        number += u64::from(write(&mut client, number));
    }
    for number in through - 12_000..through {
        let found = client.line(&format!("GET key:{}", number % 12_000));
        assert!(found == Value::Bulk(value(number)), "{number}: {}", found.to_string().len());
    }
    assert_eq!(client.line("BACKUP CLEANUP"), Value::ok());
    assert_eq!(left(&home), 0);
}
