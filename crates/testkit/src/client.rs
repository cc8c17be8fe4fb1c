//! A blocking RESP client with its own encoder and decoder, so that tests share no protocol code with the server.
//!
//! It can also do what no well-behaved client does: send raw bytes, stop reading, close one half.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Value;
use crate::runtime::{Runtime, Stream};

/// How long a read may take before a test fails instead of hanging.
pub const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// One connection.
#[derive(Debug)]
pub struct Client<S = TcpStream> {
    stream: S,
    /// Bytes `start..end` are received and not yet decoded; the rest is room.
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When the server does not accept within five seconds.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::of(&address)
    }

    /// The socket itself, for what this type does not do.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl<S: Stream> Client<S> {
    /// Connects where a proof runs.
    ///
    /// # Errors
    /// When the server does not accept.
    pub fn of<R: Runtime<Stream = S>>(runtime: &R) -> io::Result<Self> {
        Ok(Self::on(runtime.open()?))
    }

    /// A client of a connection.
    pub fn on(stream: S) -> Self {
        Self { stream, input: Vec::new(), start: 0, end: 0 }
    }

    /// The connection itself, for what this type does not do.
    pub fn connection(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Ends what this client sends.
    pub fn end_writing(&self) {
        self.stream.end_writing();
    }

    /// Closes the connection and returns when the server has closed it, too: then it has forgotten the client. It waits as long
    /// as a read may take.
    pub fn end(mut self) {
        self.stream.end_writing();
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }

    /// Bounds the time that a read takes.
    ///
    /// # Errors
    /// Of the socket.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends commands in one write, without reading.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send<C: AsRef<[A]>, A: AsRef<[u8]>>(&mut self, commands: &[C]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command.as_ref(), &mut bytes);
        }
        self.send_raw(&bytes)
    }

    /// Reads one reply; [`Value::Closed`] when the peer has closed.
    ///
    /// # Errors
    /// Of the socket, `WouldBlock`/`TimedOut` after the timeout, `InvalidData` when the bytes are not RESP.
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, used)) = decode(&self.input[self.start..self.end])? {
                self.start += used;
                return Ok(value);
            }
            if !self.fill()? {
                return Ok(Value::Closed);
            }
        }
    }

    /// Sends one command and reads its reply.
    ///
    /// # Errors
    /// As [`Client::send`] and [`Client::receive`].
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.send(&[args])?;
        self.receive()
    }

    /// One command written as a line of words, for tests: `client.line("SET a 1")`.
    ///
    /// # Panics
    /// When the connection fails.
    pub fn line(&mut self, line: &str) -> Value {
        let args: Vec<&str> = line.split_whitespace().collect();
        self.call(&args).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// Sends all commands at once and reads all replies.
    ///
    /// # Errors
    /// As [`Client::send`] and [`Client::receive`].
    pub fn pipeline<C: AsRef<[A]>, A: AsRef<[u8]>>(&mut self, commands: &[C]) -> io::Result<Vec<Value>> {
        self.send(commands)?;
        (0..commands.len()).map(|_| self.receive()).collect()
    }

    /// Replies that arrive until nothing comes for `quiet`; ends with [`Value::Closed`] when the peer closes.
    ///
    /// # Errors
    /// Of the socket.
    pub fn receive_until_quiet(&mut self, quiet: Duration) -> io::Result<Vec<Value>> {
        self.stream.set_read_timeout(Some(quiet))?;
        let mut values = Vec::new();
        let result = self.receive_up_to(usize::MAX, &mut values);
        self.stream.set_read_timeout(Some(READ_TIMEOUT))?;
        result.map(|()| values)
    }

    /// As many replies as are awaited, however long they take, and those that come until nothing does for `quiet`.
    ///
    /// # Errors
    /// Of the socket.
    pub fn receive_awaited(&mut self, awaited: usize, quiet: Duration) -> io::Result<Vec<Value>> {
        let mut values = Vec::new();
        self.receive_up_to(awaited, &mut values)?;
        if values.len() < awaited || values.last() == Some(&Value::Closed) {
            return Ok(values);
        }
        values.append(&mut self.receive_until_quiet(quiet)?);
        Ok(values)
    }

    /// Replies until there is a given number, the peer closes, which is the last of them, or the timeout is over.
    fn receive_up_to(&mut self, count: usize, values: &mut Vec<Value>) -> io::Result<()> {
        while values.len() < count && values.last() != Some(&Value::Closed) {
            match self.receive() {
                Ok(value) => values.push(value),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads more bytes; false at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.input.len() {
            self.input.resize((self.end * 2).max(64 * 1024), 0);
        }
        loop {
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(e) => return Err(e),
            }
        }
    }
}

/// Appends one command as an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    let _ = write!(out, "*{}\r\n", args.len());
    for arg in args {
        let arg = arg.as_ref();
        let _ = write!(out, "${}\r\n", arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first value of `input` and its length in bytes; `None` when it is incomplete.
///
/// # Errors
/// `InvalidData` when the bytes are not RESP.
pub fn decode(input: &[u8]) -> io::Result<Option<(Value, usize)>> {
    let mut position = 0;
    Ok(decode_at(input, &mut position)?.map(|value| (value, position)))
}

fn decode_at(input: &[u8], position: &mut usize) -> io::Result<Option<Value>> {
    let Some(line) = line_at(input, position) else { return Ok(None) };
    let Some((&kind, text)) = line.split_first() else { return Err(invalid(line)) };
    let number = || std::str::from_utf8(text).ok().and_then(|t| t.parse::<i64>().ok()).ok_or_else(|| invalid(line));
    Ok(Some(match kind {
        b'+' => Value::Simple(text.to_vec()),
        b'-' => Value::Error(text.to_vec()),
        b':' => Value::Integer(number()?),
        b',' => Value::Double(text.to_vec()),
        b'(' => Value::BigNumber(text.to_vec()),
        b'_' if text.is_empty() => Value::Null,
        b'#' if text == b"t" => Value::Boolean(true),
        b'#' if text == b"f" => Value::Boolean(false),
        b'$' | b'=' | b'!' => {
            let len = number()?;
            if len == -1 && kind == b'$' {
                return Ok(Some(Value::NullBulk));
            }
            let len = usize::try_from(len).map_err(|_| invalid(line))?;
            let Some(body) = input.get(*position..*position + len + 2) else { return Ok(None) };
            if &body[len..] != b"\r\n" {
                return Err(invalid(&body[len..]));
            }
            *position += len + 2;
            match kind {
                b'$' => Value::Bulk(body[..len].to_vec()),
                b'!' => Value::BlobError(body[..len].to_vec()),
                _ if len >= 4 => Value::Verbatim(body[..3].to_vec(), body[4..len].to_vec()),
                _ => return Err(invalid(body)),
            }
        }
        b'*' | b'~' | b'>' => {
            let count = number()?;
            if count == -1 && kind == b'*' {
                return Ok(Some(Value::NullArray));
            }
            let count = usize::try_from(count).map_err(|_| invalid(line))?;
            let Some(values) = many(input, position, count)? else { return Ok(None) };
            match kind {
                b'*' => Value::Array(values),
                b'~' => Value::Set(values),
                _ => Value::Push(values),
            }
        }
        b'%' | b'|' => {
            let count = usize::try_from(number()?).map_err(|_| invalid(line))?;
            let Some(values) = many(input, position, count * 2)? else { return Ok(None) };
            let mut values = values.into_iter();
            let mut pairs = Vec::with_capacity(count);
            while let (Some(key), Some(value)) = (values.next(), values.next()) {
                pairs.push((key, value));
            }
            if kind == b'%' { Value::Map(pairs) } else { Value::Attribute(pairs) }
        }
        _ => return Err(invalid(line)),
    }))
}

fn many(input: &[u8], position: &mut usize, count: usize) -> io::Result<Option<Vec<Value>>> {
    let mut values = Vec::with_capacity(count.min(1 << 16));
    for _ in 0..count {
        let Some(value) = decode_at(input, position)? else { return Ok(None) };
        values.push(value);
    }
    Ok(Some(values))
}

fn line_at<'i>(input: &'i [u8], position: &mut usize) -> Option<&'i [u8]> {
    let rest = &input[*position..];
    let end = rest.windows(2).position(|w| w == b"\r\n")?;
    *position += end + 2;
    Some(&rest[..end])
}

fn invalid(near: &[u8]) -> io::Error {
    let text = String::from_utf8_lossy(&near[..near.len().min(80)]).into_owned();
    io::Error::new(io::ErrorKind::InvalidData, format!("not a RESP value: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_decoded_and_a_prefix_is_incomplete() {
        let wire = b"*8\r\n+OK\r\n:-5\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n%1\r\n_\r\n#t\r\n=5\r\ntxt:x\r\n,1.5\r\n";
        let (value, used) = decode(wire).unwrap().unwrap();
        assert_eq!(used, wire.len());
        assert_eq!(value.to_string(), r#"*[+OK, :-5, $"a\r\n", (nil), (nil-array), %{_: #t}, ="txt""x", ,1.5]"#);
        for end in 0..wire.len() {
            assert_eq!(decode(&wire[..end]).unwrap(), None, "prefix of {end}");
        }
    }

    #[test]
    fn what_is_not_resp_is_an_error() {
        for wire in [&b"?\r\n"[..], b":x\r\n", b"$1\r\nabc", b"$-2\r\n", b"\r\n", b"=2\r\nab\r\n"] {
            assert!(decode(wire).is_err(), "{wire:?}");
        }
    }

    #[test]
    fn commands_are_encoded_as_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        encode(&["GET", ""], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
    }
}
