//! HyperLogLogs are the same bytes as redis-server's after each command, sparse and dense, with their cached cardinalities.

use almandine_testkit::{Client, Program, Random, Server, Value, full, seed};

type Words = Vec<Vec<u8>>;

/// Keys that values are made in.
const KEYS: usize = 4;

fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn key(random: &mut Random) -> String {
    format!("k{}", random.below(KEYS))
}

/// A command, and the key that it may have changed.
fn command(random: &mut Random, elements: usize) -> (Words, String) {
    let (target, other, third) = (key(random), key(random), key(random));
    let mut command = match random.below(20) {
        0 => words(&format!("PFMERGE {target} {other} {third}")),
        1 => words(&format!("PFMERGE {target} {other}")),
        2..5 => words(&format!("PFCOUNT {target}")),
        5 => words(&format!("PFCOUNT {target} {other} {third}")),
        6 if random.chance(5) => words(&format!("DEL {target}")),
        6 if random.chance(5) => words(&format!("PFDEBUG TODENSE {target}")),
        7 if random.chance(5) => words(&format!("PFDEBUG GETREG {target}")),
        8 => words(&format!("PFDEBUG DECODE {target}")),
        _ => words(&format!("PFADD {target}")),
    };
    if command[0] == b"PFADD" {
        for _ in 0..random.below(elements) {
            let len = random.below(20);
            let element = if random.chance(70) { random.below(30_000).to_string().into_bytes() } else { random.bytes(len) };
            command.push(element);
        }
    }
    (command, target)
}

fn same(servers: &mut [Client; 2], command: &[Vec<u8>]) -> Value {
    let [ours, theirs] = servers.each_mut().map(|client| client.call(command).expect("an answer"));
    assert!(
        ours == theirs,
        "{:?}: ours {ours:?}, theirs {theirs:?}",
        command.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>()
    );
    ours
}

fn stream(servers: &mut [Client; 2], seed: u64, bytes_max: usize, elements: usize, commands: usize) {
    let mut random = Random::new(seed);
    same(servers, &words("FLUSHALL"));
    same(servers, &words(&format!("CONFIG SET hll-sparse-max-bytes {bytes_max}")));
    for _ in 0..commands {
        let (command, target) = command(&mut random, elements);
        same(servers, &command);
        same(servers, &words(&format!("GET {target}")));
        same(servers, &words(&format!("OBJECT ENCODING {target}")));
    }
}

#[test]
fn values_are_the_same_bytes_as_those_of_redis() {
    let flags = ["--enable-debug-command", "yes"];
    let both = [Server::start(&Program::Almandine, &flags), Server::start(&Program::Redis, &flags)];
    let mut servers = both.each_ref().map(Server::client);
    let (seed, times) = (seed(), if full() { 10 } else { 1 });
    for (number, bytes_max) in [0, 20, 100, 1000, 3000, 16_000].into_iter().enumerate() {
        let seed = seed + number as u64;
        stream(&mut servers, seed, bytes_max, 4, 400 * times);
        stream(&mut servers, seed, bytes_max, 60, 200 * times);
    }
}

/// A string that is made of a right one by writing into it is accepted, refused and changed as by Redis.
#[test]
fn damaged_values_are_treated_as_by_redis() {
    let both = [Server::start(&Program::Almandine, &[]), Server::start(&Program::Redis, &[])];
    let mut servers = both.each_ref().map(Server::client);
    let mut random = Random::new(seed());
    for _ in 0..if full() { 5000 } else { 500 } {
        let mut add = words("PFADD k");
        add.extend((0..random.below(40)).map(|_| random.bytes(3)));
        same(&mut servers, &words("DEL k"));
        same(&mut servers, &add);
        let Value::Integer(len) = same(&mut servers, &words("STRLEN k")) else { panic!("no length") };
        for _ in 0..1 + random.below(3) {
            let (at, byte) = (16 + random.below((len - 16).max(1) as usize), random.bytes(1));
            same(&mut servers, &[b"SETRANGE".to_vec(), b"k".to_vec(), at.to_string().into_bytes(), byte]);
        }
        for command in ["PFCOUNT k", "PFCOUNT k k", "PFMERGE l k", "GET k", "GET l"] {
            same(&mut servers, &words(command));
        }
    }
}
