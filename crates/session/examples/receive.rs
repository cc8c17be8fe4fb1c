//! The cost of a command between the network and the store: `receive` called with ready pipelines, without sockets.
//!
//! `cargo run --release -p almandine-session --example receive` prints nanoseconds per command for several pipeline lengths,
//! beside the same look-ups made on the keyspace alone. Arguments: number of keys, a name such as `GET256` to run nothing
//! else, how many commands, and rules of ACL SETUSER for the user. MULTI is a transaction of ten commands. Pin it to one core
//! and repeat it: single runs vary.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use almandine_base::Output;
use almandine_config::{Config, Startup};
use almandine_handler::Table;
use almandine_instance::{Acl, Instance};
use almandine_io::socket::Address;
use almandine_keyspace::{Accessor, Keyspace, Options, Put};
use almandine_net::{Peer, Service};
use almandine_session::{Connection, WorkerService};

/// Commands of one run, unless an argument says otherwise.
const COMMANDS: usize = 4_000_000;

fn main() {
    let keys: usize = std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(10_000);
    let commands = std::env::args().nth(3).and_then(|commands| commands.parse().ok()).unwrap_or(COMMANDS);
    let keyspace = Keyspace::open(Options::default()).expect("a keyspace");
    let mut accessor = keyspace.accessor().expect("an accessor");
    fill(&mut accessor, keys);
    let args = ["--protected-mode".to_owned(), "no".to_owned()];
    let Ok(Startup::Run(config)) = Config::load(&args) else { panic!("a configuration") };
    let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), &[], &[]).expect("a table");
    let acl = Acl::open(table.catalog());
    restrict(&acl, &std::env::args().nth(4).unwrap_or_default());
    let instance = Arc::new(Instance::new(*config, Arc::clone(&keyspace), 1, acl, "0".repeat(40)));
    let mut sessions = WorkerService::new(instance, table, keyspace.accessor().expect("an accessor"), 0);
    let local = Address::Ip("127.0.0.1:6379".parse().expect("an address"));
    let peer = Peer { remote: local.clone(), local, worker: 0, descriptor: 0, names: Vec::new() };
    let mut out = Output::new();
    let mut connection = sessions.open(1, &peer, &mut out).expect("a connection");
    let hashes = keys / 10;
    for command in (0..hashes).flat_map(|number| collections(&key(number))) {
        out.clear();
        sessions.receive(&mut connection, command.as_bytes(), &mut out);
    }
    println!("{keys} keys of 16 bytes, values of 8, and a tenth as many hashes and sorted sets of ten; ns per command");
    println!("  keyspace alone, GET: {:.1}", keyspace_alone(&mut accessor, keys, commands));
    for pipeline in [1, 16, 256] {
        let gets = pipelines(keys, pipeline, |key| format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n"));
        let sets = pipelines(keys, pipeline, |key| format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$8\r\nvalue-00\r\n"));
        let hashes = keys / 10;
        let fields = pipelines(hashes, pipeline, |key| format!("*3\r\n$4\r\nHGET\r\n$17\r\nh{key}\r\n$2\r\nf5\r\n"));
        let scores = pipelines(hashes, pipeline, |key| format!("*4\r\n$4\r\nZADD\r\n$17\r\nz{key}\r\n$1\r\n5\r\n$2\r\nm5\r\n"));
        let transactions = transactions(keys, pipeline);
        let pings = pipelines(keys, pipeline, |_| "*1\r\n$4\r\nPING\r\n".to_owned());
        let only = std::env::args().nth(2);
        let mut run = |name: &str, inputs: &[String]| {
            if only.as_ref().is_some_and(|only| *only != format!("{name}{pipeline}")) {
                return f64::NAN;
            }
            time(&mut sessions, &mut connection, &mut out, inputs, (pipeline, commands))
        };
        println!(
            "  P={pipeline}: PING {:.1}  GET {:.1}  SET {:.1}  HGET {:.1}  ZADD {:.1}  MULTI {:.1}",
            run("PING", &pings),
            run("GET", &gets),
            run("SET", &sets),
            run("HGET", &fields),
            run("ZADD", &scores),
            run("MULTI", &transactions),
        );
    }
}

fn key(number: usize) -> String {
    format!("key:{number:012}")
}

fn restrict(acl: &Acl, rules: &str) {
    let rules: Vec<&[u8]> = rules.split_whitespace().map(str::as_bytes).collect();
    let changed =
        acl.change(|users, catalog| users.set(almandine_acl::DEFAULT_USER, &rules, catalog, almandine_acl::Defaults::default()));
    changed.expect("rules");
}

fn fill(accessor: &mut Accessor, keys: usize) {
    accessor.begin_batch(1);
    for number in 0..keys {
        let key = key(number);
        let mut writer = accessor.writer(0);
        let key = writer.key(key.as_bytes());
        writer.upsert(key, b"value-00", Put::default()).expect("room");
    }
    accessor.end_batch();
}

/// The same keys in a scattered order for every run.
fn scattered(keys: usize) -> impl Iterator<Item = String> {
    (0..).map(move |step: usize| key(step.wrapping_mul(2_654_435_761) % keys))
}

fn pipelines(keys: usize, length: usize, command: impl Fn(&str) -> String) -> Vec<String> {
    let mut keys = scattered(keys);
    (0..(16_384 / length).max(1)).map(|_| keys.by_ref().take(length).map(|key| command(&key)).collect()).collect()
}

/// Commands that make a hash and a sorted set of ten elements each.
fn collections(key: &str) -> [String; 2] {
    let (mut hash, mut set) = (format!("HSET h{key}"), format!("ZADD z{key}"));
    for number in 0..10 {
        hash += &format!(" f{number} value-00");
        set += &format!(" {number} m{number}");
    }
    [hash + "\r\n", set + "\r\n"]
}

/// Transactions of five GETs and five SETs each.
fn transactions(keys: usize, length: usize) -> Vec<String> {
    let commands = pipelines(keys, 10, |key| format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n"));
    let transaction = |commands: &String| {
        let (gets, sets) = commands.split_at(commands.len() / 2);
        let sets = sets.replace("*2\r\n$3\r\nGET", "*3\r\n$3\r\nSET").replace("\r\n*", "\r\n$8\r\nvalue-00\r\n*");
        format!("*1\r\n$5\r\nMULTI\r\n{gets}{sets}$8\r\nvalue-00\r\n*1\r\n$4\r\nEXEC\r\n")
    };
    let transactions: Vec<String> = commands.iter().map(transaction).collect();
    transactions.chunks_exact(length).map(<[String]>::concat).collect()
}

fn keyspace_alone(accessor: &mut Accessor, keys: usize, commands: usize) -> f64 {
    let keys: Vec<String> = scattered(keys).take(16_384).collect();
    let mut out = Output::new();
    let start = Instant::now();
    for round in 0..commands / 16_384 + 1 {
        accessor.begin_batch(1);
        for key in &keys {
            let mut reader = accessor.reader(0);
            let key = reader.key(key.as_bytes());
            out.clear();
            black_box(reader.read_string_into(key, &mut out, |_, _| {}).expect("a string"));
        }
        accessor.end_batch();
        black_box(round);
    }
    per_command(start, (commands / 16_384 + 1) * 16_384)
}

fn time(
    sessions: &mut WorkerService,
    connection: &mut Connection,
    out: &mut Output,
    inputs: &[String],
    (length, commands): (usize, usize),
) -> f64 {
    let mut done = 0;
    let start = Instant::now();
    while done < commands {
        for input in inputs {
            out.clear();
            let progress = sessions.receive(connection, input.as_bytes(), out);
            assert_eq!(progress.consumed, input.len());
            done += length;
        }
    }
    per_command(start, done)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for humans")]
fn per_command(start: Instant, commands: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / commands as f64
}
