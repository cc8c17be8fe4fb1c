//! A server that does nothing but input and output: the kernel's floor of any server with this pattern on this machine.
//!
//! One thread waits with epoll. Each chunk that it receives is answered by one send of as many canned replies as the chunk holds requests. It
//! knows a connection's requests by the first of them: GET is answered by a value of the length that the last SET had, SET by `+OK`. All requests of a
//! connection have the length of its first, which is what the load generator sends for keys and values of a fixed length.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use clap::Args;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Bytes that one receive may bring.
const CHUNK_BYTES: usize = 64 << 10;
/// Length of a value before any SET has said it.
const VALUE_BYTES: usize = 8;
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
    value_bytes: usize,
}

struct Connection {
    socket: OwnedFd,
    /// The beginning of the first request, until that is whole.
    head: Vec<u8>,
    /// Length of each request; 0 until it is known.
    request: usize,
    /// Bytes of an incomplete request.
    partial: usize,
    /// Length of a reply, and as many replies as a chunk can ask for.
    reply: usize,
    canned: Vec<u8>,
}

impl Server {
    fn new(listener: TcpListener) -> Result<Self, String> {
        listener.set_nonblocking(true).map_err(|e| e.to_string())?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(say)?;
        epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN).map_err(say)?;
        Ok(Self { listener, poll, connections: Vec::new(), value_bytes: VALUE_BYTES })
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
            Ok((_, received)) => connection.answer(&buffer[..received], &mut self.value_bytes),
            Err(error) => error == Errno::AGAIN || error == Errno::INTR,
        };
        if !goes_on {
            self.connections[number] = None;
        }
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, head: Vec::new(), request: 0, partial: 0, reply: 0, canned: Vec::new() }
    }

    /// Sends the replies that a chunk asks for; false when the connection is over.
    fn answer(&mut self, chunk: &[u8], value_bytes: &mut usize) -> bool {
        let mut bytes = self.partial + chunk.len();
        if self.request == 0 {
            self.head.extend_from_slice(chunk);
            let Some(request) = first_request(&self.head) else { return self.head.len() < 64 << 20 };
            if let Some(length) = request.value {
                *value_bytes = length;
            }
            let reply = request.reply(*value_bytes);
            (self.request, self.reply) = (request.bytes, reply.len());
            self.canned = reply.repeat(CHUNK_BYTES.max(self.head.len()) / request.bytes + 1);
            bytes = std::mem::take(&mut self.head).len();
        }
        self.partial = bytes % self.request;
        let replies = &self.canned[..bytes / self.request * self.reply];
        // The socket blocks, so that everything is taken at once, or the client is gone.
        replies.is_empty() || rustix::net::send(&self.socket, replies, SendFlags::NOSIGNAL).is_ok()
    }
}

/// The first request of a connection.
#[derive(Debug, PartialEq)]
struct Request {
    name: String,
    bytes: usize,
    /// Length of the second argument.
    value: Option<usize>,
}

impl Request {
    fn reply(&self, value_bytes: usize) -> Vec<u8> {
        match self.name.as_str() {
            "GET" => format!("${value_bytes}\r\n{}\r\n", "x".repeat(value_bytes)).into_bytes(),
            "PING" => b"+PONG\r\n".to_vec(),
            "DBSIZE" => b":0\r\n".to_vec(),
            "INFO" => b"$-1\r\n".to_vec(),
            _ => b"+OK\r\n".to_vec(),
        }
    }
}

/// Reads `*N`, then N bulks; `None` while it is not whole.
fn first_request(bytes: &[u8]) -> Option<Request> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let end = *at + bytes.get(*at..)?.iter().position(|b| *b == b'\n')?;
        let digits = std::str::from_utf8(bytes.get(*at + 1..end)?).ok()?;
        *at = end + 1;
        digits.trim_end().parse::<usize>().ok()
    };
    let words = number(&mut at)?;
    let mut found = Vec::new();
    for _ in 0..words {
        let length = number(&mut at)?;
        found.push(bytes.get(at..at.checked_add(length)?)?);
        at += length + 2;
    }
    let name = String::from_utf8_lossy(found.first()?).to_ascii_uppercase();
    let value = if name == "SET" { found.get(2).map(|word| word.len()) } else { None };
    (bytes.len() >= at).then_some(Request { name, bytes: at, value })
}

fn say(error: Errno) -> String {
    format!("the canned server failed: {error}")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_are_known_by_the_first() {
        let get = b"*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\n";
        assert_eq!(first_request(get), Some(Request { name: "GET".into(), bytes: get.len(), value: None }));
        assert!((0..get.len()).all(|cut| first_request(&get[..cut]).is_none()));
        let set = b"*3\r\n$3\r\nset\r\n$4\r\nkey1\r\n$5\r\nvalue\r\n*3";
        assert_eq!(first_request(set), Some(Request { name: "SET".into(), bytes: set.len() - 2, value: Some(5) }));
    }

    #[test]
    fn replies_have_the_size_of_what_was_set() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server::new(listener).unwrap();
        // The thread ends with the test's process.
        std::thread::spawn(move || server.serve());
        let talk = |request: &str, replies: usize| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // Cut in the middle of a request.
            let (first, second) = request.split_at(request.len() / 2 + 3);
            stream.write_all(first.as_bytes()).unwrap();
            stream.write_all(second.as_bytes()).unwrap();
            let mut reply = vec![0; replies];
            stream.read_exact(&mut reply).unwrap();
            String::from_utf8(reply).unwrap()
        };
        assert_eq!(talk(&"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nab\r\n".repeat(3), 15), "+OK\r\n".repeat(3));
        assert_eq!(talk(&"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(300), 2400), "$2\r\nxx\r\n".repeat(300));
    }
}
