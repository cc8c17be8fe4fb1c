//! A connection to the server that is asked: commands out, replies of RESP 2 in. What does not come within its time or its limits
//! is an error, so that no server makes the program wait or grow for ever.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::tls::{Encrypted, TlsOptions};

/// For a connection, and for each step of its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of one reply, and of one line of it.
const REPLY_BYTES_MAX: u64 = 64 << 20;
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Lists within lists.
const DEPTH_MAX: u32 = 8;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    Error(String),
    Integer(i64),
    List(Vec<Reply>),
    Nil,
}

impl Reply {
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn list(&self) -> &[Self] {
        if let Self::List(list) = self { list } else { &[] }
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A connection, and the bytes that the reply under way may still have.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    bytes_left: u64,
    is_near: bool,
}

impl Connection {
    pub(super) fn tcp(host: &str, port: u16, tls: &TlsOptions) -> io::Result<Self> {
        let mut last = Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    let socket = stream.try_clone()?;
                    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                    socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
                    let stream: Box<dyn Stream> = match tls.tls {
                        true => Box::new(Encrypted::open(stream, tls.session(host)?)?),
                        false => Box::new(stream),
                    };
                    socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
                    return Ok(Self::new(stream, address.ip().to_canonical().is_loopback()));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Self::new(Box::new(stream), true))
    }

    fn new(stream: Box<dyn Stream>, is_near: bool) -> Self {
        Self { stream: BufReader::new(stream), bytes_left: 0, is_near }
    }

    /// Whether the peer is on this machine, as far as its address tells.
    pub(crate) fn is_near(&self) -> bool {
        self.is_near
    }

    pub(crate) fn call(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(bytes.as_bytes())?;
        self.bytes_left = REPLY_BYTES_MAX;
        self.reply(DEPTH_MAX)
    }

    fn reply(&mut self, depth: u32) -> io::Result<Reply> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err(not_redis()) };
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(rest.parse().map_err(|_| not_redis())?)),
            "$" | "*" if rest == "-1" => Ok(Reply::Nil),
            "$" => self.bulk(rest.parse().map_err(|_| not_redis())?),
            "*" if depth > 0 => {
                let count: u64 = rest.parse().map_err(|_| not_redis())?;
                // Memory is taken for elements that have come, not for announced ones.
                (0..count).map(|_| self.reply(depth - 1)).collect::<io::Result<_>>().map(Reply::List)
            }
            _ => Err(not_redis()),
        }
    }

    fn bulk(&mut self, length: u64) -> io::Result<Reply> {
        self.take(length + 2)?;
        let mut bytes = Vec::new();
        self.stream.by_ref().take(length + 2).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length + 2 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(bytes.len() - 2);
        Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.stream.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
        self.take(bytes.len() as u64)?;
        match bytes.as_slice() {
            [] => Err(ErrorKind::UnexpectedEof.into()),
            [text @ .., b'\r', b'\n'] => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => Err(not_redis()),
        }
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(|| Error::other("the reply is too large"))?;
        Ok(())
    }
}

fn not_redis() -> Error {
    Error::new(ErrorKind::InvalidData, "the peer does not speak the protocol: does this port speak TLS (--tls)?")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    struct Fixed(Cursor<Vec<u8>>);

    impl Read for Fixed {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Fixed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reply(bytes: &[u8]) -> io::Result<Reply> {
        Connection::new(Box::new(Fixed(Cursor::new(bytes.to_vec()))), true).call(&["PING"])
    }

    #[test]
    fn replies_are_read() {
        assert_eq!(reply(b"+PONG\r\n").unwrap(), Reply::Text("PONG".to_owned()));
        let list =
            Reply::List(vec![Reply::Integer(-1), Reply::Text("a\r\nb".to_owned()), Reply::Nil, Reply::Error("ERR".to_owned())]);
        assert_eq!(reply(b"*4\r\n:-1\r\n$4\r\na\r\nb\r\n$-1\r\n-ERR\r\n").unwrap(), list);
    }

    #[test]
    fn what_is_no_reply_is_an_error_and_takes_no_memory() {
        for bytes in
            [&b""[..], b"HTTP/1.1 400\r\n", b"$5\r\nab\r\n", b"$9223372036854775807\r\n", b"*9223372036854775807\r\n+a\r\n", b"+a"]
        {
            assert!(reply(bytes).is_err(), "{bytes:?}");
        }
        assert!(reply(&b"*1\r\n".repeat(100)).is_err(), "lists within lists");
        assert!(reply(&[b'a'; 100_000]).is_err());
    }
}
