//! Object storage: a server above an S3 server in memory, with less memory and less room in its directory than data.

#![cfg(feature = "object-store")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::ops::Range;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use almandine_testkit::storage::Figures;
use almandine_testkit::{Client, Program, Server, Value, s3};

const URL: &str = "s3://bucket/folder";
const COMMON: &[&str] = &["--maxmemory", "16mb", "--enable-debug-command", "yes"];
const DIRECTORY: &[&str] = &["--storage-dir", "{dir}/s", "--storage-dir-size", "8mb"];

fn start(objects: &s3::Server, flags: &[&str]) -> Server {
    Server::start_with(&Program::Almandine, &[COMMON, &["--storage-object-url", URL], flags].concat(), &objects.environment())
}

/// Values that say which they are: mostly small ones, some too large for a page.
fn value(key: usize) -> Vec<u8> {
    let bytes = if key.is_multiple_of(100) { 300_000 } else { 1000 };
    format!("{key}.").into_bytes().into_iter().cycle().take(bytes).collect()
}

fn load(server: &Server, keys: Range<usize>) {
    let mut client = server.client();
    for batch in keys.collect::<Vec<_>>().chunks(50) {
        let commands: Vec<[Vec<u8>; 3]> =
            batch.iter().map(|&key| [b"SET".to_vec(), key.to_string().into_bytes(), value(key)]).collect();
        let replies = client.pipeline(&commands).unwrap();
        assert!(replies.iter().all(|reply| *reply == Value::Simple(b"OK".to_vec())), "{replies:?}\n{}", server.log());
    }
}

fn read(client: &mut Client, keys: &[usize]) -> Vec<Value> {
    let commands: Vec<[String; 2]> = keys.iter().map(|key| ["GET".to_owned(), key.to_string()]).collect();
    client.pipeline(&commands).unwrap()
}

fn expect_all(server: &Server, keys: Range<usize>) {
    let mut client = server.client();
    for batch in keys.collect::<Vec<_>>().chunks(50) {
        for (key, reply) in batch.iter().zip(read(&mut client, batch)) {
            assert!(reply == Value::Bulk(value(*key)), "{key} is not what was written\n{}", server.log());
        }
    }
}

/// Waits for figures that come about in the background.
fn eventually(server: &Server, what: &str, holds: impl Fn(&Figures) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds(&Figures::of(server)) {
        assert!(Instant::now() < until, "not in time: {what}\n{:?}\n{}", Figures::of(server), server.log());
        sleep(Duration::from_millis(20));
    }
}

fn sum(objects: &s3::Server, folder: &str) -> u64 {
    let folder = format!("bucket/folder/{folder}/almandine-");
    objects.objects().iter().filter(|(name, _)| name.starts_with(&folder)).map(|(_, bytes)| *bytes as u64).sum()
}

#[test]
fn what_neither_memory_nor_directory_holds_is_in_the_bucket() {
    const KEYS: usize = 20_000;
    for commit in ["directory", "object-store"] {
        let objects = s3::Server::start();
        let server = start(&objects, &[DIRECTORY, &["--storage-commit-tier", commit]].concat());
        load(&server, 0..KEYS);
        assert!(server.make_cold());
        eventually(&server, "all is in the objects", |figures| figures.get("storage_object_backlog_bytes") == 0);
        // 20 MB in records, 60 MB in 200 large values.
        let (log, values) = (sum(&objects, "log"), sum(&objects, "values"));
        assert!(log >= 18 << 20 && values >= 48 << 20, "{log} {values}");
        expect_all(&server, 0..KEYS);
        let figures = Figures::of(&server);
        let bytes = figures.get("storage_object_bytes");
        assert!(bytes >= 70 << 20 && figures.get("storage_directory_bytes") <= 8 << 20, "{figures:?}");
        assert_eq!(figures.get("storage_read_errors") + figures.get("storage_object_read_errors"), 0, "{figures:?}");
        // Deleting gives the space back.
        assert_eq!(server.client().line("FLUSHALL"), Value::Simple(b"OK".to_vec()));
        eventually(&server, "dead pages are deleted", |figures| figures.get("storage_object_bytes") < bytes);
        assert!(log > sum(&objects, "log"));
    }
}

#[test]
fn objects_alone_will_do_and_the_next_server_begins_with_none() {
    const KEYS: usize = 10_000;
    let objects = s3::Server::start();
    let server = start(&objects, &[]);
    load(&server, 0..KEYS);
    assert!(server.make_cold());
    expect_all(&server, 0..KEYS);
    assert!(objects.objects().len() > 6);
    drop(server);
    assert!(objects.objects().len() > 6, "what a server leaves is deleted by the next one");
    let server = start(&objects, &[]);
    assert_eq!(objects.objects().len(), 0);
    assert_eq!(server.client().line("GET 1"), Value::NullBulk);
}

#[test]
fn a_slow_store_holds_up_only_who_needs_it() {
    const DELAY: Duration = Duration::from_secs(3);
    let objects = s3::Server::start();
    let server = start(&objects, &[]);
    load(&server, 0..4_000);
    assert!(server.make_cold());
    load(&server, 10_001..10_050);
    objects.delay(DELAY);
    let (mut cold, mut warm) = (server.client(), server.client());
    let began = Instant::now();
    cold.send(&[["GET", "1"]]).unwrap();
    for key in 10_001..10_050 {
        assert_eq!(read(&mut warm, &[key]), [Value::Bulk(value(key))]);
    }
    assert!(began.elapsed() < DELAY, "{:?}", began.elapsed());
    assert_eq!(cold.receive().unwrap(), Value::Bulk(value(1)));
    assert!(began.elapsed() >= DELAY);
    // What is asked for together waits together.
    let began = Instant::now();
    let keys: Vec<usize> = (0..30).map(|n| n * 131 + 1).collect();
    let expected: Vec<Value> = keys.iter().map(|&key| Value::Bulk(value(key))).collect();
    assert_eq!(read(&mut cold, &keys), expected);
    assert!(began.elapsed() < DELAY * 4, "{:?}", began.elapsed());
}

#[test]
fn a_store_that_hangs_does_not_keep_the_server_from_ending() {
    let objects = s3::Server::start();
    let mut server = start(&objects, DIRECTORY);
    objects.delay(Duration::from_secs(100));
    // As much as memory and directory take without the store.
    load(&server, 0..4_000);
    eventually(&server, "something is on its way", |figures| figures.get("storage_object_backlog_bytes") > 0);
    // More than they take: a client that writes it waits for the store, and is refused later.
    let mut client = server.client();
    let writer = thread::spawn(move || {
        let large = value(0);
        (0..100).take_while(|key| client.pipeline(&[[b"SET".as_slice(), key.to_string().as_bytes(), &large]]).is_ok()).count()
    });
    sleep(Duration::from_secs(1));
    assert!(!writer.is_finished(), "30 MB have no room");
    server.client().send(&[["SHUTDOWN", "NOSAVE"]]).unwrap();
    assert!(server.await_exit(Duration::from_secs(10)).is_some(), "{}", server.log());
    assert!(writer.join().unwrap() < 100);
}

#[test]
fn a_store_that_fails_is_told_of_once_and_catches_up() {
    const KEYS: usize = 8_000;
    let objects = s3::Server::start();
    let server = start(&objects, DIRECTORY);
    load(&server, 0..KEYS / 2);
    assert!(server.make_cold());
    eventually(&server, "all is in the objects", |figures| figures.get("storage_object_backlog_bytes") == 0);
    objects.refuse(true);
    let mut client = server.client();
    let refused =
        |reply: &Value| matches!(reply, Value::Error(text) if text.starts_with(b"ERR the storage device cannot give a record"));
    // Which of them the directory still holds depends on when its space was divided, but it cannot hold all.
    let keys: Vec<usize> = (0..KEYS / 2).collect();
    let replies: Vec<Value> = keys.chunks(50).flat_map(|keys| read(&mut client, keys)).collect();
    assert!(replies.iter().filter(|reply| refused(reply)).count() > 10, "{}", server.log());
    // It is told before anything is written: a write that fails would be the last error.
    eventually(&server, "the errors are told", |_| server.log().contains("Object storage fails: cannot read"));
    assert!(Figures::of(&server).get("storage_object_read_errors") > 0);
    let Value::Bulk(info) = client.line("INFO storage") else { panic!("INFO storage") };
    assert!(String::from_utf8_lossy(&info).contains("storage_object_last_error:cannot read"), "{}", String::from_utf8_lossy(&info));
    // The directory and the backlog take a little more meanwhile.
    load(&server, KEYS / 2..KEYS / 2 + 90);
    objects.refuse(false);
    load(&server, KEYS / 2 + 90..KEYS);
    assert!(server.make_cold());
    expect_all(&server, 0..KEYS);
    assert_eq!(server.log().matches("Object storage fails").count(), 1, "{}", server.log());
}

#[test]
fn a_folder_that_holds_something_else_is_refused() {
    let objects = s3::Server::start();
    objects.put("bucket/folder/log/holiday.jpg");
    let flags = [COMMON, &["--storage-object-url", URL]].concat();
    let refusal = Server::try_start(&Program::Almandine, &flags, &objects.environment()).err().unwrap();
    assert!(refusal.contains("storage-object-url: s3://bucket/folder/log holds \"holiday.jpg\""), "{refusal}");
    assert_eq!(objects.objects().len(), 1);
    objects.refuse(true);
    let refusal = Server::try_start(&Program::Almandine, &flags, &objects.environment()).err().unwrap();
    assert!(refusal.contains("storage-object-url: cannot list s3://bucket/folder/log"), "{refusal}");
}
