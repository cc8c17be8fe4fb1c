//! Hashes that are much larger together than memory: many clients read and change fields, each knows what it should get, and
//! another one looks at memory and at how long it waits itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::hostile::MIB;
use almandine_testkit::storage::Figures;
use almandine_testkit::{Client, Program, Random, Server, Value, full, seed};

const HASHES: usize = 10;
const CLIENTS: usize = 10;
const VALUE_BYTES: usize = 100;
/// Fields of one HSET while loading.
const LOADED_TOGETHER: usize = 200;

/// How much, and above how little memory.
struct Scale {
    fields: usize,
    maxmemory: u64,
    runs_for: Duration,
}

impl Scale {
    fn of_the_run() -> Self {
        if full() {
            // About 100 MB each.
            Self { fields: 850_000, maxmemory: 256 * MIB, runs_for: Duration::from_secs(180) }
        } else {
            // About 4 MB each.
            Self { fields: 34_000, maxmemory: 16 * MIB, runs_for: Duration::from_secs(10) }
        }
    }

    fn server(&self) -> Server {
        let maxmemory = self.maxmemory.to_string();
        Server::start(&Program::Almandine, &["--maxmemory", &maxmemory, "--storage-dir", "{dir}/s"])
    }
}

fn key(hash: usize) -> Vec<u8> {
    format!("hash:{hash}").into_bytes()
}

fn field(field: usize) -> Vec<u8> {
    format!("field:{field:07}").into_bytes()
}

/// The value of a field after this number of changes.
fn value(hash: usize, field: usize, version: u32) -> Vec<u8> {
    let mut value = format!("{hash}:{field}:{version}:").into_bytes();
    value.resize(VALUE_BYTES + (field + version as usize) % 7, b'v');
    value
}

fn load(client: &mut Client, scale: &Scale) {
    for hash in 0..HASHES {
        let all: Vec<usize> = (0..scale.fields).collect();
        for some in all.chunks(LOADED_TOGETHER) {
            let mut command = vec![b"HSET".to_vec(), key(hash)];
            some.iter().for_each(|at| command.extend([field(*at), value(hash, *at, 1)]));
            assert_eq!(
                client.call(&command).expect("a reply").integer(),
                Some(some.len() as i64),
                "hash {hash}, field {}",
                some[0]
            );
        }
    }
}

/// What one client knows of its fields: those whose number leaves its own when divided by the number of clients. 0: it is not
/// there.
struct Known {
    client: usize,
    versions: Vec<Vec<u32>>,
}

impl Known {
    fn new(client: usize, scale: &Scale) -> Self {
        Self { client, versions: vec![vec![1; scale.fields.div_ceil(CLIENTS)]; HASHES] }
    }

    /// One command, whose reply is what is known.
    fn step(&mut self, connection: &mut Client, random: &mut Random, fields: usize) {
        let (hash, at) = (random.below(HASHES), random.below(fields / CLIENTS));
        let number = at * CLIENTS + self.client;
        let version = &mut self.versions[hash][at];
        let mut call = |name: &[u8], rest: &[Vec<u8>]| {
            let command: Vec<Vec<u8>> = [name.to_vec(), key(hash)].into_iter().chain(rest.iter().cloned()).collect();
            connection.call(&command).unwrap_or_else(|error| panic!("{} {hash} {number}: {error}", String::from_utf8_lossy(name)))
        };
        let there = i64::from(*version != 0);
        match random.below(10) {
            0..5 => {
                let got = call(b"HGET", &[field(number)]);
                let expected = (*version != 0).then(|| value(hash, number, *version));
                assert!(got.bytes() == expected.as_deref(), "HGET {hash} {number}: {}", got.pretty());
            }
            5 => {
                let got = call(b"HDEL", &[field(number)]);
                assert_eq!(got.integer(), Some(there), "HDEL {hash} {number}: {}", got.pretty());
                *version = 0;
            }
            _ => {
                *version += 1 + random.below(3) as u32;
                let got = call(b"HSET", &[field(number), value(hash, number, *version)]);
                assert_eq!(got.integer(), Some(1 - there), "HSET {hash} {number}: {}", got.pretty());
            }
        }
    }

    /// All of its fields are as they should be.
    fn check(&self, connection: &mut Client) {
        for (hash, versions) in self.versions.iter().enumerate() {
            for (first, some) in (0..).step_by(LOADED_TOGETHER).zip(versions.chunks(LOADED_TOGETHER)) {
                let number = |at: usize| (first + at) * CLIENTS + self.client;
                let mut command = vec![b"HMGET".to_vec(), key(hash)];
                command.extend((0..some.len()).map(|at| field(number(at))));
                let got = connection.call(&command).expect("a reply");
                let got = got.elements().unwrap_or_else(|| panic!("HMGET {hash}: {}", got.pretty()));
                for (at, (version, got)) in some.iter().zip(got).enumerate() {
                    let expected = (*version != 0).then(|| value(hash, number(at), *version));
                    assert_eq!(got.bytes(), expected.as_deref(), "hash {hash}, field {}", number(at));
                }
            }
        }
    }
}

fn used_memory(client: &mut Client) -> u64 {
    let info = client.line("INFO memory");
    let text = String::from_utf8_lossy(info.bytes().expect("text")).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used_memory");
    line.trim().parse().expect("a number")
}

/// What the observer has seen.
#[derive(Default)]
struct Seen {
    longest: Duration,
    above_20_ms: u32,
    pings: u32,
    used_most: u64,
}

fn observe(server: &Server, ended: &AtomicBool) -> Seen {
    let (mut client, mut seen) = (server.client(), Seen::default());
    while !ended.load(Ordering::Relaxed) {
        for _ in 0..50 {
            let begin = Instant::now();
            assert_eq!(client.line("PING"), Value::Simple(b"PONG".to_vec()));
            let took = begin.elapsed();
            seen.longest = seen.longest.max(took);
            seen.above_20_ms += u32::from(took > Duration::from_millis(20));
            seen.pings += 1;
            thread::sleep(Duration::from_millis(1));
        }
        seen.used_most = seen.used_most.max(used_memory(&mut client));
    }
    seen
}

#[test]
fn ten_clients_over_hashes_that_do_not_fit_get_right_replies_within_the_budget() {
    let scale = Scale::of_the_run();
    let mut server = scale.server();
    let begin = Instant::now();
    load(&mut server.client(), &scale);
    println!("large_hashes: loaded in {:?}, {} MiB used", begin.elapsed(), used_memory(&mut server.client()) / MIB);
    let ended = AtomicBool::new(false);
    let (seen, commands) = thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&server, &ended));
        let work = |client: usize| {
            let (mut connection, mut known) = (server.client(), Known::new(client, &scale));
            let mut random = Random::new(seed() * 100 + client as u64);
            let (deadline, mut commands) = (Instant::now() + scale.runs_for, 0_u64);
            while Instant::now() < deadline {
                known.step(&mut connection, &mut random, scale.fields / CLIENTS * CLIENTS);
                commands += 1;
            }
            if !full() || client == 0 {
                known.check(&mut connection);
            }
            commands
        };
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || work(client))).collect();
        let commands: u64 = clients.into_iter().map(|client| client.join().expect("a client")).sum();
        ended.store(true, Ordering::Relaxed);
        (observer.join().expect("the observer"), commands)
    });
    let figures = Figures::of(&server);
    println!(
        "large_hashes: {commands} commands; {} PINGs, the longest {:?}, {} above 20 ms; {} MiB used at most of {}; {} MiB \
         resident at most; {} reads",
        seen.pings,
        seen.longest,
        seen.above_20_ms,
        seen.used_most / MIB,
        scale.maxmemory / MIB,
        server.resident_bytes_most() / MIB,
        figures.get("storage_reads"),
    );
    // Pages that were made resident and not given back took hundreds.
    let resident = server.resident_bytes_most();
    assert!(resident <= scale.maxmemory * 3 / 2 + 128 * MIB, "{resident} bytes resident");
    // A hash that is changed while it is written to the device counts twice meanwhile, although it shares nearly all of its
    // parts with itself.
    let hash_bytes = (scale.fields * (VALUE_BYTES + 28)) as u64;
    assert!(seen.used_most <= scale.maxmemory + 8 * MIB + hash_bytes, "{} bytes used of {}", seen.used_most, scale.maxmemory);
    let mut client = server.client();
    for hash in 0..HASHES {
        assert_eq!(client.call(&[b"DEL".to_vec(), key(hash)]).expect("a reply").integer(), Some(1));
    }
    assert_eq!(client.line("DBSIZE").integer(), Some(0));
    server.assert_alive("large hashes");
}

/// A hash that has become larger than memory allows is refused, with words, and can be deleted with more memory.
#[test]
fn a_hash_that_cannot_fit_is_refused_and_can_be_deleted_with_more_memory() {
    let server = Server::start(&Program::Almandine, &["--maxmemory", "16mb", "--storage-dir", "{dir}/s"]);
    let mut client = server.client();
    let mut refused = None;
    for first in (0..1_000_000).step_by(LOADED_TOGETHER) {
        let mut command = vec![b"HSET".to_vec(), b"large".to_vec()];
        (first..first + LOADED_TOGETHER).for_each(|at| command.extend([field(at), value(0, at, 1)]));
        let reply = client.call(&command).expect("a reply, not a wait without end");
        if reply.is_error() {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("100 MB do not fit into 16");
    let text = refused.pretty();
    assert!(text.contains("does not fit into 'maxmemory'") || text.contains("OOM"), "{text}");
    println!("large_hashes: {text}");
    assert_eq!(client.line("SET small value"), Value::ok());
    assert_eq!(client.line("GET small").bytes(), Some(&b"value"[..]));
    // A command that deletes it reads it, too.
    assert_eq!(client.line("CONFIG SET maxmemory 128mb"), Value::ok());
    assert_eq!(client.line("DEL large").integer(), Some(1));
    assert_eq!(client.line("HSET large field value").integer(), Some(1));
    assert_eq!(client.line("HGET large field").bytes(), Some(&b"value"[..]));
}
