//! A blocking connection for procedures that look at every reply: batches go out whole, replies are borrowed from the buffer.
//!
//! Between [`almandine_bench::control`], which allocates each reply, and the load generator, which only counts them. RESP2.

use std::os::fd::OwnedFd;

use memchr::memchr;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use almandine_bench::control::Target;

/// One reply. Aggregates are not among them: nothing here asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'b> {
    /// `+`
    Status(&'b [u8]),
    /// `-`
    Error(&'b [u8]),
    /// `:`
    Integer(i64),
    /// `$`, or a null.
    Value(Option<&'b [u8]>),
}

/// The connection.
#[derive(Debug)]
pub struct Pipe {
    socket: OwnedFd,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl Pipe {
    /// Connects and logs in.
    pub fn connect(target: &Target) -> Result<Self, String> {
        Ok(Self { socket: target.connect()?, buffer: vec![0; 64 << 10], at: 0, end: 0 })
    }

    /// Sends a batch.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("sending failed: {error}; did the server exit?")),
            }
        }
        Ok(())
    }

    /// The next reply.
    pub fn answer(&mut self) -> Result<Answer<'_>, String> {
        loop {
            // Found by its bounds first, so that the borrow of what is returned begins only when it is whole.
            match bounds(&self.buffer[self.at..self.end])? {
                Some((header, whole)) => {
                    let from = self.at;
                    self.at += whole;
                    return read(&self.buffer[from..from + whole], header);
                }
                None => self.receive()?,
            }
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        if self.at > 0 {
            self.buffer.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
        loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[self.end..], RecvFlags::empty()) {
                Ok((_, 0)) => return Err("the server closed the connection".into()),
                Ok((_, received)) => {
                    self.end += received;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err("the server did not answer for a minute".into()),
                Err(error) => return Err(format!("receiving failed: {error}; did the server exit?")),
            }
        }
    }
}

/// Appends a command.
pub fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(digits.format(words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(b"\r\n$");
        out.extend_from_slice(digits.format(word.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word);
    }
    out.extend_from_slice(b"\r\n");
}

/// Bytes of the header line and of the whole reply, once it is there.
fn bounds(bytes: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let Some(end) = memchr(b'\n', bytes) else { return Ok(None) };
    let header = end + 1;
    let whole = match bytes[0] {
        b'$' => match number(&bytes[..header])? {
            len @ 0.. => header + len as usize + 2,
            _ => header,
        },
        b'+' | b'-' | b':' => header,
        _ => return Err(format!("{:?} is not a reply that was expected", String::from_utf8_lossy(&bytes[..header]))),
    };
    Ok((bytes.len() >= whole).then_some((header, whole)))
}

fn read(reply: &[u8], header: usize) -> Result<Answer<'_>, String> {
    let line = reply[1..header].trim_ascii_end();
    Ok(match reply[0] {
        b'+' => Answer::Status(line),
        b'-' => Answer::Error(line),
        b':' => Answer::Integer(number(&reply[..header])?),
        _ if reply.len() == header => Answer::Value(None),
        _ => Answer::Value(Some(&reply[header..reply.len() - 2])),
    })
}

fn number(line: &[u8]) -> Result<i64, String> {
    let digits = std::str::from_utf8(line[1..].trim_ascii_end()).ok();
    digits.and_then(|d| d.parse().ok()).ok_or_else(|| format!("{:?} is not a number", String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Option<Answer<'_>> {
        bounds(bytes).unwrap().map(|(header, whole)| read(&bytes[..whole], header).unwrap())
    }

    #[test]
    fn replies_are_read_when_they_are_whole() {
        assert_eq!(first(b"+OK\r\n:1\r\n"), Some(Answer::Status(b"OK")));
        assert_eq!(first(b"-OOM no\r\n"), Some(Answer::Error(b"OOM no")));
        assert_eq!(first(b":-12\r\n"), Some(Answer::Integer(-12)));
        assert_eq!(first(b"$-1\r\n"), Some(Answer::Value(None)));
        assert_eq!(first(b"$4\r\na\r\nb\r\n+"), Some(Answer::Value(Some(b"a\r\nb"))));
        for cut in 0..10 {
            assert_eq!(first(&b"$4\r\na\r\nb\r\n"[..cut]), None, "{cut}");
        }
        assert!(bounds(b"*1\r\n").is_err());
    }

    #[test]
    fn commands_are_encoded() {
        let mut out = Vec::new();
        command(&[b"GET", b"key:1"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n");
    }
}
