//! What the slow log says of fast commands, which are timed together: it names the first of them that ran.
//!
//! Commands run as in the server, without sockets.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write;
use std::sync::Arc;

use almandine_base::Output;
use almandine_config::{Config, Startup};
use almandine_handler::Table;
use almandine_instance::{Acl, Instance};
use almandine_io::socket::Address;
use almandine_keyspace::{Keyspace, Options};
use almandine_net::{Peer, Service};
use almandine_session::WorkerService;

/// Sends one batch of commands. The first arguments of all entries of the slow log behind it.
fn logged(lines: &str) -> Vec<Vec<String>> {
    let keyspace = Keyspace::open(Options::default()).unwrap();
    let settings = ["--protected-mode", "no", "--slowlog-log-slower-than", "1000"].map(str::to_owned);
    let Ok(Startup::Run(config)) = Config::load(&settings) else { panic!("a configuration") };
    let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), &[], &[]).unwrap();
    let instance = Arc::new(Instance::new(*config, Arc::clone(&keyspace), 1, Acl::open(table.catalog()), "0".repeat(40)));
    let mut sessions = WorkerService::new(Arc::clone(&instance), table, keyspace.accessor().unwrap(), 0);
    let local = Address::Ip("127.0.0.1:6379".parse().unwrap());
    let peer = Peer { remote: local.clone(), local, worker: 0, descriptor: 0, names: Vec::new() };
    let mut out = Output::new();
    let mut connection = sessions.open(1, &peer, &mut out).unwrap();
    assert_eq!(sessions.receive(&mut connection, lines.as_bytes(), &mut out).consumed, lines.len());
    sessions.close(connection);
    let entries = instance.logs.slow.newest(usize::MAX);
    let words = |arguments: &[Vec<u8>]| arguments.iter().take(2).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    entries.iter().map(|entry| words(&entry.arguments.words)).collect()
}

/// A fast command that takes some milliseconds.
fn long_zadd() -> String {
    const MEMBERS: u32 = 30_000;
    let mut command = format!("*{}\r\n$4\r\nZADD\r\n$4\r\nlong\r\n", 2 + 2 * MEMBERS);
    (0..MEMBERS).for_each(|member| {
        let score = member.wrapping_mul(2_654_435_761);
        write!(command, "$10\r\n{score:010}\r\n$12\r\nmember:{member:05}\r\n").unwrap();
    });
    command
}

fn words(words: [&str; 2]) -> Vec<Vec<String>> {
    vec![words.map(str::to_owned).to_vec()]
}

#[test]
fn the_slow_log_names_the_first_command_that_ran() {
    let long = long_zadd();
    assert_eq!(logged(&long), words(["ZADD", "long"]));
    let refused = "AUHT a-password\r\nGET a b c\r\nGET\r\n";
    assert_eq!(logged(&format!("{long}{refused}")), words(["ZADD", "long"]), "commands behind it were refused");
    assert_eq!(logged(&format!("{refused}{long}")), words(["ZADD", "long"]), "commands before it were refused");
    assert_eq!(logged(&format!("GET first\r\n{refused}{long}{refused}")), words(["GET", "first"]));
}

#[test]
fn a_secret_is_not_shown_of_the_first_command_either() {
    assert_eq!(logged(&format!("AUTH a-password\r\n{}", long_zadd())), words(["AUTH", "(redacted)"]));
}
