//! What clients and the log learn of a device that is full, fails or lies.

use std::thread::sleep;
use std::time::{Duration, Instant};

use almandine_testkit::storage::UNREADABLE;
use almandine_testkit::{Client, Program, Server, Value};

const COMMON: [&str; 4] = ["--maxmemory", "16mb", "--enable-debug-command", "yes"];

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[&COMMON[..], flags].concat())
}

/// Writes a batch of keys; the first error.
fn write(client: &mut Client, batch: usize) -> Option<String> {
    let value = "v".repeat(1000);
    let sets: Vec<[String; 3]> = (0..500).map(|n| ["SET".to_owned(), format!("{batch}.{n}"), value.clone()]).collect();
    let replies = client.pipeline(&sets).expect("replies");
    replies.into_iter().find_map(|reply| match reply {
        Value::Error(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    })
}

fn text(client: &mut Client, command: &str) -> String {
    match client.line(command) {
        Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{command}: {other}"),
    }
}

fn eventually(server: &Server, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "not in time: {what}\n{}", server.log());
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_directory_is_told_to_clients_and_operators_and_recovers() {
    let server = start(&["--storage-dir", "{dir}/s", "--storage-dir-size", "24mb"]);
    let mut client = server.client();
    let refused = (0..1000).find_map(|batch| write(&mut client, batch)).unwrap_or_else(|| panic!("never full\n{}", server.log()));
    assert!(refused.starts_with("OOM command not allowed: memory is used up and the storage device is full"), "{refused}");
    let info = text(&mut client, "INFO storage");
    assert!(info.contains("storage_state:full\r\n") && info.contains("bytes that may be stored are used"), "{info}");
    let doctor = text(&mut client, "MEMORY DOCTOR");
    assert!(doctor.contains("Storage: the device is full") && !doctor.contains("Limit:"), "{doctor}");
    eventually(&server, "a line in the log", || server.log().contains("# Writes to the storage fail: "));
    assert_eq!(server.log().matches("Writes to the storage fail").count(), 1, "{}", server.log());

    assert_eq!(client.line("FLUSHALL"), Value::Simple(b"OK".to_vec()));
    let mut batch = 0;
    eventually(&server, "writes are taken again", || {
        batch = (batch + 1) % 20;
        let _ = write(&mut client, batch);
        server.log().contains("# Writes to the storage succeed again")
    });
    assert!(text(&mut client, "INFO storage").contains("storage_state:ok\r\n"));
}

#[test]
fn failing_writes_and_reads_and_corrupt_blocks_are_told_once() {
    let cases = [
        ("write-errors=1000000", "# Writes to the storage fail: injected: failed write"),
        ("read-errors=1000000", "# Reads of the storage fail"),
        ("flipped-bits=1000000", "# The storage gave corrupt blocks"),
    ];
    for (faults, line) in cases {
        let server = start(&["--storage-device", "faulty", "--storage-faults", faults]);
        let mut client = server.client();
        let mut refused = None;
        for batch in 0..60 {
            refused = refused.or(write(&mut client, batch));
        }
        if faults.starts_with("write") {
            let refused = refused.unwrap_or_default();
            assert!(refused.contains("the storage device refuses writes"), "{refused}\n{}", server.log());
            let doctor = text(&mut client, "MEMORY DOCTOR");
            assert!(doctor.contains("* Storage: the device refuses writes"), "{doctor}");
        } else {
            let reply = (0..60).map(|batch| client.line(&format!("GET {batch}.0"))).find(|reply| matches!(reply, Value::Error(_)));
            assert!(reply.is_some(), "{faults} had no effect");
            let (state, error) = match faults.starts_with("read") {
                true => ("ok", " reads failed: "),
                false => ("damaged", " blocks were not what had been written"),
            };
            // The client was told to look here.
            let info = text(&mut client, "INFO storage");
            assert!(info.contains(&format!("storage_state:{state}\r\n")) && info.contains(error), "{info}");
        }
        eventually(&server, line, || server.log().contains(line));
        assert_eq!(server.log().matches(&line[2..]).count(), 1, "{}", server.log());
    }
}

#[test]
fn who_waits_for_a_key_hears_that_it_cannot_be_read_and_does_not_wait() {
    // All reads fail, or every second.
    for (errors, rounds) in [(1_000_000, 1), (500_000, 60)] {
        let faults = format!("read-errors={errors}");
        let flags = ["--workers", "1", "--storage-device", "faulty", "--storage-faults", &faults];
        let server = start(&flags);
        let mut client = server.client();
        let (mut failed, mut answered) = (0, 0);
        for _ in 0..rounds {
            client.line("FLUSHALL");
            for line in ["XADD s 1-1 f v", "XGROUP CREATE s g 0", "RPUSH l a", "ZADD z 1 a"] {
                assert!(!matches!(client.line(line), Value::Error(_)), "{line}");
            }
            for line in [
                "XREAD BLOCK 1 STREAMS s 0",
                "XREAD BLOCK 1 STREAMS none s 0 0",
                "XREAD BLOCK 1 STREAMS s s $ 1-1",
                "XREADGROUP GROUP g c BLOCK 1 STREAMS s >",
                "BLPOP none l 0.001",
                "BLMOVE none l LEFT LEFT 0.001",
                "BLMPOP 0.001 2 none l LEFT",
                "BZPOPMIN none z 0.001",
            ] {
                assert_eq!(client.line("DEBUG STORAGE EVICT"), Value::Simple(b"OK".to_vec()));
                match client.line(line) {
                    Value::Error(text) if text.starts_with(UNREADABLE) => failed += 1,
                    Value::Error(text) => panic!("{line}: {}", String::from_utf8_lossy(&text)),
                    _ => answered += 1,
                }
                // It waits for nothing any more.
                assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()), "{line}");
                assert!(text(&mut client, "INFO clients").contains("blocked_clients:0\r\n"), "{line}");
            }
        }
        assert!(failed > 0 && (errors == 1_000_000 || answered > 0), "{failed} failed, {answered} answered");
    }
}

/// A start refuses a damaged page of the data, and begins without its keys where that is asked for; then they are gone for later
/// starts, too.
#[test]
fn a_start_refuses_damaged_data_unless_it_is_to_begin_without() {
    const KEYS: i64 = 20_000;
    let log = ["--appendonly", "yes", "--save", "", "--auto-aof-rewrite-percentage", "0"];
    let mut server = start(&[&log[..], &["--storage-dir", "{dir}/s"]].concat());
    let mut client = server.client();
    let keys = |of: i64| (of * 500..(of + 1) * 500).map(|n| [format!("key:{n}"), format!("{n}{}", "v".repeat(500))]);
    for batch in 0..KEYS / 500 {
        let sets: Vec<[String; 3]> = keys(batch).map(|[key, value]| ["SET".to_owned(), key, value]).collect();
        assert!(client.pipeline(&sets).unwrap().iter().all(|reply| *reply == Value::ok()));
    }
    assert!(server.make_cold());
    assert!(matches!(client.line("BGREWRITEAOF"), Value::Simple(_)));
    eventually(&server, "a base", || server.log().contains("Background AOF rewrite finished successfully"));
    // Edits of keys of which some will be lost: what they change is in the log alone.
    let edits: Vec<[String; 3]> = (0..KEYS).step_by(7).map(|n| ["APPEND".into(), format!("key:{n}"), "more".into()]).collect();
    assert!(client.pipeline(&edits).unwrap().iter().all(|reply| matches!(reply, Value::Integer(_))));
    server.kill();
    let segment = std::fs::read_dir(server.directory().join("s/log")).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let segment = segment.filter(|path| path.is_file()).max_by_key(|path| path.metadata().map_or(0, |file| file.len())).unwrap();
    damage(&segment);
    let directory = server.directory().display().to_string();
    let storage = format!("{directory}/s");
    let flags = [&COMMON[..], &log[..], &["--dir", &directory, "--storage-dir", &storage]].concat();
    let refused = Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_default();
    assert!(refused.contains("of the storage is damaged") && refused.contains("set recover-damaged to yes"), "{refused}");

    server.start_again_with(&["--recover-damaged", "yes"]);
    let told = server.log().lines().rfind(|line| line.contains("keys are lost with 1 damaged pages")).map(str::to_owned);
    let told = told.unwrap_or_else(|| panic!("{}", server.log()));
    let lost: i64 = told.split(" keys are lost").next().and_then(|text| text.rsplit(' ').next()).unwrap().parse().unwrap();
    let present = |server: &Server| {
        let mut client = server.client();
        let mut present = 0;
        for batch in 0..KEYS / 500 {
            let gets: Vec<[String; 2]> = keys(batch).map(|[key, _]| ["GET".to_owned(), key]).collect();
            for (n, (reply, [key, value])) in (batch * 500..).zip(client.pipeline(&gets).unwrap().into_iter().zip(keys(batch))) {
                let value = if n % 7 == 0 { format!("{value}more") } else { value };
                assert!(reply == Value::NullBulk || reply == Value::Bulk(value.into_bytes()), "{key}: {reply}");
                present += i64::from(reply != Value::NullBulk);
            }
        }
        present
    };
    assert!((1..100).contains(&lost), "{told}");
    assert_eq!(present(&server), KEYS - lost, "{told}");
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(KEYS - lost));
    server.kill();
    server.start_again();
    assert_eq!(present(&server), KEYS - lost);
}

/// Zeroes the first block of the first page that a segment has.
fn damage(segment: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(segment).expect("a segment");
    let mut block = [0; 4096];
    let mut is_page = |page: &u64| file.read_exact_at(&mut block, page * (2 << 20)).is_ok() && block.iter().any(|byte| *byte != 0);
    let page = (0..1000).find(|page| is_page(page)).expect("a page");
    file.write_all_at(&[0; 4096], page * (2 << 20)).expect("a segment");
}
