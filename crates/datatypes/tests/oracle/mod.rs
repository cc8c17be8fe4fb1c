//! A `redis-server` of our own, on a free port of the loopback interface, and just enough of a client to ask it.
#![allow(dead_code, reason = "each test file uses a part")]
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use almandine_testkit::redis_server;
use almandine_testkit::server::free_port;

/// A reply; errors are their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Vec<u8>),
    Error(String),
    Integer(i64),
    Null,
    Array(Vec<Reply>),
}

impl Reply {
    pub(crate) fn text(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    pub(crate) fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }

    pub(crate) fn array(&self) -> &[Reply] {
        match self {
            Self::Array(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }
}

/// The server ends when this is dropped.
pub(crate) struct Oracle {
    server: Child,
    connection: BufReader<TcpStream>,
}

impl Oracle {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more arguments.
    pub(crate) fn start_with(more: &[&str]) -> Self {
        for _ in 0..5 {
            // The port may be taken between this and the server's start: then another one is tried.
            let port = free_port();
            let arguments = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--logfile", "/dev/null", "--port"];
            let mut server = redis_server().args(arguments).arg(port.to_string()).args(more).stdout(Stdio::null()).spawn().unwrap();
            let connection = (0..200).find_map(|_| {
                std::thread::sleep(Duration::from_millis(25));
                let running = server.try_wait().unwrap().is_none();
                running.then(|| TcpStream::connect(("127.0.0.1", port)).ok()).flatten()
            });
            if let Some(connection) = connection {
                connection.set_nodelay(true).unwrap();
                let mut oracle = Self { server, connection: BufReader::new(connection) };
                if oracle.is_ours() {
                    return oracle;
                }
            } else {
                server.kill().unwrap();
                server.wait().unwrap();
            }
        }
        panic!("redis-server does not answer");
    }

    /// Whether it is not some other server that answers.
    fn is_ours(&mut self) -> bool {
        let information = self.ask(&[b"INFO", b"server"]);
        String::from_utf8_lossy(information.text()).contains(&format!("process_id:{}\r\n", self.server.id()))
    }

    pub(crate) fn ask(&mut self, command: &[&[u8]]) -> Reply {
        self.ask_all(&[command.iter().map(|word| word.to_vec()).collect()]).remove(0)
    }

    /// Sends the commands in pipelines and returns the replies in order.
    pub(crate) fn ask_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Reply> {
        const PIPELINE: usize = 100;
        let mut replies = Vec::with_capacity(commands.len());
        for commands in commands.chunks(PIPELINE) {
            let mut bytes = Vec::new();
            for command in commands {
                write!(bytes, "*{}\r\n", command.len()).unwrap();
                for word in command {
                    write!(bytes, "${}\r\n", word.len()).unwrap();
                    bytes.extend_from_slice(word);
                    bytes.extend_from_slice(b"\r\n");
                }
            }
            self.connection.get_mut().write_all(&bytes).unwrap();
            replies.extend(commands.iter().map(|_| self.reply()));
        }
        replies
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Reply::Text(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Integer(number()),
            "$" | "*" if number() < 0 => Reply::Null,
            "$" => {
                let mut text = vec![0; number() as usize + 2];
                self.connection.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::Text(text)
            }
            "*" => Reply::Array((0..number()).map(|_| self.reply()).collect()),
            _ => panic!("unexpected reply {line}"),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A command from its words.
pub(crate) fn command<const N: usize>(words: [&[u8]; N]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Small, seeded pseudo-random numbers (splitmix64), so that a failure can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below(most.abs_diff(least) + 1) as i64
    }

    pub(crate) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// Up to `len_max` bytes of an alphabet.
    pub(crate) fn text(&mut self, len_max: u64, alphabet: &[u8]) -> Vec<u8> {
        (0..self.below(len_max + 1)).map(|_| self.of(alphabet)).collect()
    }
}
