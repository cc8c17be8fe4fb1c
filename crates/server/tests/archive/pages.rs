//! The same with data many times the memory, which lies in `storage-dir`: its pages are in the archive, too.

use std::collections::BTreeMap;

use almandine_testkit::storage::Figures;

use super::*;

const FLAGS: &[&str] = &["--maxmemory", "16mb", "--storage-dir", "{dir}/s", "--enable-debug-command", "yes"];
/// Of 4 KB and more: 160 MB.
const KEYS: u64 = 36_000;
/// Keys that are set together.
const TOGETHER: u64 = 200;

/// What a key has; some are large values, which lie beside their pages.
fn value(key: u64, version: u64) -> Vec<u8> {
    let length = if key.is_multiple_of(97) { 40_000 + key } else { 4_000 + key % 400 };
    format!("{key}:{version}:").into_bytes().into_iter().chain((0..length).map(|at| b'a' + ((at + version) % 26) as u8)).collect()
}

/// What clients know of a server's data: versions of keys, and the batch of which nothing was heard.
#[derive(Default)]
struct Known {
    versions: BTreeMap<u64, u64>,
    in_doubt: Option<(u64, u64)>,
}

impl Known {
    fn sets(from: u64, version: u64) -> Vec<[Vec<u8>; 3]> {
        let of = |key: u64| [b"SET".to_vec(), format!("key:{key}").into_bytes(), value(key % KEYS, version)];
        (from..from + TOGETHER).map(|key| of(key % KEYS)).collect()
    }

    /// Sets keys, and waits until the server says so.
    fn set(&mut self, client: &mut Client, from: u64, version: u64) {
        let replies = client.pipeline(&Self::sets(from, version)).unwrap();
        assert!(replies.iter().all(|reply| *reply == ok()), "{:?}", replies.iter().find(|reply| **reply != ok()));
        self.versions.extend((from..from + TOGETHER).map(|key| (key % KEYS, version)));
    }

    /// Sends what is not answered.
    fn send(&mut self, client: &mut Client, from: u64, version: u64) {
        client.send(&Self::sets(from, version)).unwrap();
        self.in_doubt = Some((from, version));
    }

    fn compare(&mut self, server: &Server) {
        let mut client = server.client();
        let all: Vec<(u64, u64)> = self.versions.iter().map(|(key, version)| (*key, *version)).collect();
        for keys in all.chunks(200) {
            let gets: Vec<_> = keys.iter().map(|(key, _)| ["GET".to_owned(), format!("key:{key}")]).collect();
            for ((key, version), reply) in keys.iter().zip(client.pipeline(&gets).unwrap()) {
                let newer = self.in_doubt.filter(|(from, _)| (*from..from + TOGETHER).contains(key)).map(|(_, version)| version);
                let found =
                    [Some(*version), newer].into_iter().flatten().find(|version| reply == Value::Bulk(value(*key, *version)));
                assert!(found.is_some(), "key {key} of version {version}, or {newer:?}\n{}", server.log());
                self.versions.insert(*key, found.unwrap());
            }
        }
        self.in_doubt = None;
        assert_eq!(client.line("DBSIZE"), Value::Integer(i64::try_from(KEYS).unwrap()));
    }
}

fn pages(server: &Server) -> u64 {
    Figures::of(server).get("log_archive_shipped_pages")
}

fn rewritten(server: &Server) {
    server.client().line("BGREWRITEAOF");
    eventually(server, "the base is written", |client| {
        let Value::Bulk(text) = client.line("INFO persistence") else { return false };
        String::from_utf8(text).unwrap().contains("aof_rewrite_in_progress:0")
    });
}

/// Nothing comes for a while.
fn quiet(client: &mut Client) -> bool {
    client.receive_until_quiet(Duration::from_millis(200)).unwrap().is_empty()
}

/// The number of the base that the log begins with.
fn base_number(server: &Server) -> Option<u64> {
    let manifest = std::fs::read_to_string(server.directory().join("appendonlydir/MANIFEST")).unwrap();
    manifest.lines().find_map(|line| line.strip_prefix("base ")?.split(' ').next()?.parse().ok())
}

/// The archive has the last base, too.
fn settle_base(server: &Server, objects: &s3::Server) {
    settle(server);
    // No page is left either before the base is on its way; then the archive has the one before, until it has all of this one.
    eventually(server, "the base is in the archive", |client| {
        let names = objects.objects();
        let count = |part: &str| names.iter().filter(|(name, _)| name.contains(part)).count();
        let own = base_number(server).map_or(0, |number| count(&format!("/base-{number:08}.")));
        own > 0 && own == count("/base-") && info(client, "log_archive_left_pages") == "0"
    });
}

#[test]
fn data_ten_times_the_memory_is_there_where_the_machine_is_gone() {
    let objects = s3::Server::start();
    let flags = [FLAGS, AWAITED].concat();
    let (mut server, mut known) = (start(&objects, &flags), Known::default());
    let mut version = 0;
    for round in 0..3_u64 {
        let mut client = server.client();
        // All of them, and a part of them again, with a base in between and one at the end.
        let count = if round == 0 { KEYS } else { KEYS / 4 };
        let first = round * 7_000;
        objects.fail_each([0, 31, 0][round as usize]);
        for from in (first..first + count).step_by(TOGETHER as usize) {
            version += 1;
            known.set(&mut client, from, version);
            if from - first == count / 2 / TOGETHER * TOGETHER {
                server.client().line("BGREWRITEAOF");
            }
        }
        rewritten(&server);
        if round == 1 {
            // The store is away for a while: what is written waits, and nothing of it is lost.
            objects.refuse(true);
            known.send(&mut client, first, version + 1);
            thread::sleep(Duration::from_secs(2));
            assert!(quiet(&mut client), "what the archive does not have is not acknowledged");
            // A look at what it has waits for nothing, but for a key that shares a mark with one of those.
            let ask = |at: u64| {
                let (key, mut reader) = ((first + 20_000 + at) % KEYS, server.client());
                reader.send(&[["GET".to_owned(), format!("key:{key}")]]).unwrap();
                reader
            };
            let (mut waiting, asked) = ((0..5).map(ask).collect::<Vec<Client>>(), Instant::now());
            while waiting.len() > 1 && asked.elapsed() < Duration::from_secs(15) {
                waiting.retain_mut(quiet);
            }
            assert!(waiting.len() <= 1, "reads wait for what they do not depend on");
            assert!(!info(&mut server.client(), "log_archive_state").is_empty(), "INFO is answered");
            objects.refuse(false);
            version += 1;
            (0..TOGETHER).for_each(|_| assert_eq!(client.receive().unwrap(), ok()));
            known.in_doubt = None;
            known.versions.extend((first..first + TOGETHER).map(|key| (key % KEYS, version)));
        }
        objects.fail_each(0);
        if round != 2 {
            settle_base(&server, &objects);
            assert!(pages(&server) > 10, "{}", server.log());
        }
        // Some more, and a batch without an answer.
        version += 1;
        (0..5).for_each(|at| known.set(&mut client, first + at * 1_000, version));
        known.send(&mut client, first + 10_000, version + 1);
        server.kill();
        drop(server);
        server = start(&objects, &flags);
        let log = server.log();
        assert!(log.contains("pages of storage-dir") && !log.contains(" 0 pages of storage-dir"), "{log}");
        version += 1;
        known.compare(&server);
    }
}

/// What no base names any more goes, and a restart on the same directories ships only what is new.
#[test]
fn pages_are_shipped_once_and_deleted_behind_the_next_base() {
    let objects = s3::Server::start();
    let (mut server, mut known) = (start(&objects, FLAGS), Known::default());
    let mut client = server.client();
    (0..KEYS).step_by(TOGETHER as usize).for_each(|from| known.set(&mut client, from, 1));
    rewritten(&server);
    settle_base(&server, &objects);
    let (all, there) = (pages(&server), || objects.objects().iter().filter(|(name, _)| name.contains("/page-")).count());
    assert!(all > 50 && there() as u64 >= all - 10, "{all} {}", there());
    server.kill();
    server.start_again();
    rewritten(&server);
    settle_base(&server, &objects);
    assert!(pages(&server) < all / 3, "{} of {all} are shipped again", pages(&server));
    known.compare(&server);
    server.client().line("FLUSHALL");
    rewritten(&server);
    eventually(&server, "what no base names is deleted", |_| (there() as u64) < all / 4);
    server.kill();
    drop(server);
    assert_eq!(start(&objects, FLAGS).client().line("DBSIZE"), Value::Integer(0));
}

#[test]
fn an_archive_with_pages_needs_an_empty_place_for_them() {
    let objects = s3::Server::start();
    let (server, mut known) = (start(&objects, &[FLAGS, AWAITED].concat()), Known::default());
    let mut client = server.client();
    (0..KEYS / 4).step_by(TOGETHER as usize).for_each(|from| known.set(&mut client, from, 1));
    rewritten(&server);
    settle_base(&server, &objects);
    let refused = refusal(&objects, AWAITED);
    assert!(refused.contains("its base names data in storage-dir"), "{refused}");
    // The data of another log, or of this one without it.
    let other = Server::start(&Program::Almandine, &[FLAGS, &["--appendonly", "yes", "--ring-dir", "{dir}"]].concat());
    (0..KEYS / 8).step_by(TOGETHER as usize).for_each(|from| {
        other.client().pipeline(&Known::sets(from, 1)).unwrap();
    });
    let storage = other.directory().join("s").display().to_string();
    eventually(&other, "data on its device", |_| Figures::of(&other).get("storage_device_bytes") > 0);
    let mut other = other;
    other.kill();
    let flags = ["--maxmemory", "16mb", "--storage-dir", storage.as_str()];
    let refused = refusal(&objects, &[&flags[..], AWAITED].concat());
    assert!(refused.contains("which would be deleted"), "{refused}");
    // The server has its archive all the while.
    known.set(&mut client, 0, 2);
    assert_eq!(info(&mut client, "log_archive_state"), "shipping");
}

/// What is shipped is what lies there, and a start from the archive needs its key.
#[test]
fn what_is_encrypted_comes_from_objects_with_its_key() {
    let path = std::env::temp_dir().join(format!("almandine-archive-keys-{}", std::process::id()));
    std::fs::write(&path, format!("one {}\n", "A5".repeat(32))).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let keys = ["--log-key-file", path.to_str().unwrap()];
    let objects = s3::Server::start();
    let flags = [FLAGS, AWAITED, &keys].concat();
    let (mut server, mut known) = (start(&objects, &flags), Known::default());
    let mut client = server.client();
    (0..KEYS).step_by(TOGETHER as usize).for_each(|from| known.set(&mut client, from, 1));
    rewritten(&server);
    settle_base(&server, &objects);
    assert!(pages(&server) > 10, "{}", server.log());
    server.kill();
    drop(server);
    let names = objects.objects();
    let refused = refusal(&objects, &[FLAGS, AWAITED].concat());
    assert!(refused.contains("encrypted with the key 'one'"), "{refused}");
    assert_eq!(objects.objects(), names, "nothing was taken over");
    let server = start(&objects, &flags);
    assert!(server.log().contains("pages of storage-dir"), "{}", server.log());
    known.compare(&server);
    let part = |part: &str| std::fs::read_dir(server.directory().join("s").join(part)).unwrap();
    for file in part("log").chain(part("values")).map(|file| file.unwrap().path()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(20).any(|window| window == b"abcdefghijklmnopqrst"), "{}", file.display());
    }
    std::fs::remove_file(path).unwrap();
}
