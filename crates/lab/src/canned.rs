//! A server that does nothing but input and output: the kernel's floor of any server with this pattern on this machine.
//!
//! One thread waits with epoll. Each chunk that it receives is answered by one send of as many replies as the chunk holds
//! requests. Replies are known by the command's name: GET is answered by a value of the length that the last SET had, what
//! [`TEACH`] has brought by that, everything else by `+OK`.
//!
//! Requests are taken apart until a thousand in a row were of one command and one length, as the load generator sends them for
//! keys and values of fixed lengths. From then on it only looks whether each still begins and ends where it should.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use clap::Args;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// The command that brings a reply: the name of the command that it answers, and all its bytes.
pub const TEACH: &str = "CANNED.TEACH";

/// Bytes that one receive may bring.
const CHUNK_BYTES: usize = 64 << 10;
/// Length of a value before any SET has said it.
const VALUE_BYTES: usize = 8;
/// Requests of one command and length in a row, after which it is taken for granted.
const UNIFORM: u32 = 1000;
/// Bytes that a request begins with, compared when the rest is taken for granted.
const HEAD_BYTES: usize = 8;
/// Longest request.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// The listener's number among the poller's events.
const LISTENER: u64 = u64::MAX;

/// Arguments of the hidden subcommand.
#[derive(Debug, Args)]
pub struct Canned {
    /// Port on 127.0.0.1.
    #[arg(long)]
    port: u16,
}

impl Canned {
    /// Serves until it is killed.
    pub fn run(self) -> Result<ExitCode, String> {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).map_err(|e| format!("port {}: {e}", self.port))?;
        Server::new(listener)?.serve()?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Server {
    listener: TcpListener,
    poll: OwnedFd,
    connections: Vec<Option<Connection>>,
    replies: Replies,
}

/// Names of commands, in capitals, with their replies. The first is that of all others.
struct Replies(Vec<(Vec<u8>, Vec<u8>)>);

struct Connection {
    socket: OwnedFd,
    /// A request that is not whole.
    pending: Vec<u8>,
    last: Last,
    /// Replies that are not of uniform requests.
    out: Vec<u8>,
}

/// The last request, and how many in a row were like it.
#[derive(Default)]
struct Last {
    name: Vec<u8>,
    bytes: usize,
    head: [u8; HEAD_BYTES],
    in_a_row: u32,
    /// Length of its reply, and as many replies as a chunk can ask for, once requests are uniform.
    reply: usize,
    canned: Vec<u8>,
}

impl Server {
    fn new(listener: TcpListener) -> Result<Self, String> {
        listener.set_nonblocking(true).map_err(|e| e.to_string())?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(say)?;
        epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN).map_err(say)?;
        Ok(Self { listener, poll, connections: Vec::new(), replies: Replies::new() })
    }

    fn serve(&mut self) -> Result<(), String> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut events = Vec::with_capacity(512);
        loop {
            events.clear();
            match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(say(error)),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    number => self.answer(number as usize, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<(), String> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nodelay(true).map_err(|e| e.to_string())?;
            let number = self.connections.len() as u64;
            epoll::add(&self.poll, &stream, epoll::EventData::new_u64(number), epoll::EventFlags::IN).map_err(say)?;
            self.connections.push(Some(Connection::new(stream.into())));
        }
        Ok(())
    }

    fn answer(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connections[number] else { return };
        let goes_on = match rustix::net::recv(&connection.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => false,
            Ok((_, received)) => connection.answer(&buffer[..received], &mut self.replies),
            Err(error) => error == Errno::AGAIN || error == Errno::INTR,
        };
        if !goes_on {
            self.connections[number] = None;
        }
    }
}

impl Replies {
    fn new() -> Self {
        let known: [(&str, &[u8]); 4] = [("", b"+OK\r\n"), ("PING", b"+PONG\r\n"), ("DBSIZE", b":0\r\n"), ("INFO", b"$-1\r\n")];
        let mut replies = Self(known.iter().map(|(name, reply)| (name.as_bytes().to_vec(), reply.to_vec())).collect());
        replies.set_value(VALUE_BYTES);
        replies
    }

    fn of(&self, name: &[u8]) -> &[u8] {
        &self.0.iter().find(|(known, _)| known == name).unwrap_or(&self.0[0]).1
    }

    fn set(&mut self, name: &[u8], reply: Vec<u8>) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_vec(), reply));
    }

    /// Has GET be answered by a value of this length.
    fn set_value(&mut self, bytes: usize) {
        let reply = format!("${bytes}\r\n{}\r\n", "x".repeat(bytes)).into_bytes();
        if self.of(b"GET") != reply {
            self.set(b"GET", reply);
        }
    }

    /// What a request says about replies to come.
    fn learn(&mut self, request: &Request<'_>) {
        match (request.name.as_slice(), request.first, request.second) {
            (b"SET", _, Some(value)) => self.set_value(value.len()),
            (name, Some(command), Some(reply)) if name == TEACH.as_bytes() => {
                self.set(&command.to_ascii_uppercase(), reply.to_vec());
            }
            _ => {}
        }
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, pending: Vec::new(), last: Last::default(), out: Vec::new() }
    }

    /// Sends the replies that a chunk asks for; false when the connection is over.
    fn answer(&mut self, chunk: &[u8], replies: &mut Replies) -> bool {
        let (uniform, rest) = if self.last.is_uniform() { self.last.skip(&mut self.pending, chunk) } else { (0, chunk) };
        let canned = &self.last.canned[..uniform * self.last.reply];
        if rest.is_empty() {
            return send(&self.socket, canned);
        }
        self.out.clear();
        self.out.extend_from_slice(canned);
        if self.pending.is_empty() {
            let whole = take_apart(rest, &mut self.last, replies, &mut self.out);
            self.pending.extend_from_slice(&rest[whole..]);
        } else {
            self.pending.extend_from_slice(rest);
            let whole = take_apart(&self.pending, &mut self.last, replies, &mut self.out);
            self.pending.drain(..whole);
        }
        self.pending.len() < REQUEST_BYTES_MAX && send(&self.socket, &self.out)
    }
}

/// Sends all. The socket blocks, so that everything is taken, or the client is gone.
fn send(socket: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Appends the replies of all whole requests, and says how many bytes those are.
fn take_apart(bytes: &[u8], last: &mut Last, replies: &mut Replies, out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(request) = next_request(&bytes[at..]) {
        replies.learn(&request);
        let reply = replies.of(&request.name);
        out.extend_from_slice(reply);
        last.note(&request, &bytes[at..], reply);
        at += request.bytes;
    }
    at
}

impl Last {
    fn is_uniform(&self) -> bool {
        self.in_a_row >= UNIFORM
    }

    fn note(&mut self, request: &Request<'_>, bytes: &[u8], reply: &[u8]) {
        if self.name != request.name || self.bytes != request.bytes || !bytes.starts_with(&self.head) {
            (self.in_a_row, self.bytes) = (0, request.bytes);
            self.name.clone_from(&request.name);
            // The shortest request is longer.
            self.head.copy_from_slice(&bytes[..HEAD_BYTES]);
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row == UNIFORM {
            self.reply = reply.len();
            self.canned = reply.repeat((CHUNK_BYTES + self.bytes) / self.bytes + 1);
        }
    }

    /// How many requests are like the last, and what follows them.
    fn skip<'c>(&self, pending: &mut Vec<u8>, chunk: &'c [u8]) -> (usize, &'c [u8]) {
        let is_like = |bytes: &[u8]| bytes.starts_with(&self.head) && bytes.ends_with(b"\r\n");
        let (mut count, mut at) = (0, 0);
        if !pending.is_empty() {
            let missing = self.bytes.saturating_sub(pending.len());
            if missing == 0 || missing > chunk.len() {
                return (0, chunk);
            }
            pending.extend_from_slice(&chunk[..missing]);
            if !is_like(pending) {
                pending.truncate(self.bytes - missing);
                return (0, chunk);
            }
            pending.clear();
            (count, at) = (1, missing);
        }
        while let Some(bytes) = chunk.get(at..at + self.bytes).filter(|bytes| is_like(bytes)) {
            at += bytes.len();
            count += 1;
        }
        (count, &chunk[at..])
    }
}

/// A request.
#[derive(Debug, PartialEq)]
struct Request<'b> {
    name: Vec<u8>,
    bytes: usize,
    first: Option<&'b [u8]>,
    second: Option<&'b [u8]>,
}

/// Reads `*N`, then N bulks; `None` while it is not whole.
fn next_request(bytes: &[u8]) -> Option<Request<'_>> {
    let mut at = 0;
    let words = number(bytes, &mut at)?;
    let mut found: [Option<&[u8]>; 3] = [None; 3];
    for word in 0..words {
        let length = number(bytes, &mut at)?;
        let end = at.checked_add(length)?;
        if let Some(place) = found.get_mut(word) {
            *place = Some(bytes.get(at..end)?);
        }
        at = end.checked_add(2)?;
        if at > bytes.len() {
            return None;
        }
    }
    let [name, first, second] = found;
    Some(Request { name: name?.to_ascii_uppercase(), bytes: at, first, second })
}

/// The number in a header line.
fn number(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let line = bytes.get(*at + 1..)?;
    let end = line.iter().position(|byte| *byte == b'\n')?;
    *at += end + 2;
    let digits = line[..end].strip_suffix(b"\r")?;
    digits.iter().try_fold(0usize, |sum, digit| sum.checked_mul(10)?.checked_add(usize::from(digit.checked_sub(b'0')?)))
}

fn say(error: Errno) -> String {
    format!("the canned server failed: {error}")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_are_taken_apart_when_they_are_whole() {
        let get = b"*2\r\n$3\r\nget\r\n$4\r\nkey1\r\n";
        let expected = Request { name: b"GET".to_vec(), bytes: get.len(), first: Some(b"key1"), second: None };
        assert_eq!(next_request(get), Some(expected));
        assert!((0..get.len()).all(|cut| next_request(&get[..cut]).is_none()));
        let set = b"*3\r\n$3\r\nSET\r\n$4\r\nkey1\r\n$5\r\nvalue\r\n*3";
        assert_eq!(
            next_request(set).map(|request| (request.bytes, request.second)),
            Some((set.len() - 2, Some(b"value".as_slice())))
        );
    }

    fn server() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server::new(listener).unwrap();
        // The thread ends with the test's process.
        std::thread::spawn(move || server.serve());
        address
    }

    /// Sends in pieces of this many bytes, and receives exactly what is expected and nothing more.
    fn talk(address: SocketAddr, request: &[u8], piece: usize, expected: &[u8]) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let bytes = [request, b"*1\r\n$4\r\nPING\r\n"].concat();
        let sender = std::thread::spawn(move || bytes.chunks(piece).for_each(|piece| writer.write_all(piece).unwrap()));
        let expected = [expected, b"+PONG\r\n"].concat();
        let mut reply = vec![0; expected.len()];
        stream.read_exact(&mut reply).unwrap();
        sender.join().unwrap();
        assert!(reply == expected, "{}", String::from_utf8_lossy(&reply[..reply.len().min(300)]));
    }

    #[test]
    fn replies_have_the_size_of_what_was_set() {
        let address = server();
        talk(address, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nab\r\n", 9, b"+OK\r\n");
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        for (requests, piece) in [(300, 7), (5_000, 1 << 20), (5_000, 1001), (9_000, get.len() * 3)] {
            talk(address, &get.repeat(requests), piece, &b"$2\r\nxx\r\n".repeat(requests));
        }
    }

    #[test]
    fn requests_that_vary_are_counted_also_behind_many_that_do_not() {
        let address = server();
        let add = |score: u32| format!("*4\r\n$4\r\nZADD\r\n$1\r\nz\r\n${}\r\n{score}\r\n$1\r\nm\r\n", score.to_string().len());
        let uniform = add(10).repeat(3_000);
        // Requests whose lengths add up to others', and other commands.
        let varied: String = (0..2_000).map(|number| add(10u32.pow(number % 8))).collect();
        let other = "*3\r\n$4\r\nZADX\r\n$1\r\nz\r\n$1\r\nm\r\n".repeat(2_000);
        let count = 3_000 + 2_000 + 2_000 + 3_000;
        let all = [uniform.as_str(), &varied, &other, &uniform].concat();
        for piece in [1 << 20, 4_099, 333] {
            talk(address, all.as_bytes(), piece, &b"+OK\r\n".repeat(count));
        }
    }

    #[test]
    fn replies_can_be_taught() {
        let address = server();
        let teach = b"*3\r\n$12\r\nCANNED.TEACH\r\n$6\r\nlrange\r\n$15\r\n*2\r\n:1\r\n$1\r\na\r\n\r\n";
        talk(address, teach, 100, b"+OK\r\n");
        let range = b"*4\r\n$6\r\nLRANGE\r\n$1\r\nl\r\n$1\r\n0\r\n$1\r\n1\r\n";
        talk(address, &range.repeat(4_000), 10_000, &b"*2\r\n:1\r\n$1\r\na\r\n".repeat(4_000));
    }
}
