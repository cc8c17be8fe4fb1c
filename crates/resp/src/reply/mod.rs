//! Replies, in the version of the protocol that the client speaks.
//!
//! A handler says what it means (a map, a double, a null) and the writer picks the encoding. In RESP2 the newer types fall back as
//! in Redis: map, set and push to an array, double, verbatim and big number to a bulk string, boolean to an integer, null to the
//! null bulk string. Aggregates are written as a header, then their elements by the caller; the writer
//! does not count them.

mod deferred;

pub use deferred::Deferred;

use crate::number;
use almandine_base::Output;
use bytes::Bytes;

/// The version of the protocol that a client speaks; chosen by `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// RESP2, until the client asks for something else.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// Writes replies to one client.
#[derive(Debug)]
pub struct Reply<'o> {
    /// Where the replies go.
    pub out: &'o mut Output,
    version: ProtocolVersion,
}

impl<'o> Reply<'o> {
    /// A writer that appends to `out`.
    #[inline]
    #[must_use]
    pub fn new(out: &'o mut Output, version: ProtocolVersion) -> Self {
        Self { out, version }
    }

    /// The version in which replies are written.
    #[inline]
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    #[inline]
    fn resp3(&self) -> bool {
        self.version == ProtocolVersion::Resp3
    }

    /// Appends encoded replies as they are.
    #[inline]
    pub fn raw(&mut self, encoded: &[u8]) {
        self.out.bytes.extend_from_slice(encoded);
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A status of one line.
    #[inline]
    pub fn simple(&mut self, status: &str) {
        debug_assert!(!status.contains(['\r', '\n']), "a status is one line");
        self.line(b'+', status.as_bytes());
    }

    /// An error: its prefix, a space, and the text, as in `ERR no such key`. What it quotes from the client need not be UTF-8.
    /// Ends of line inside become spaces.
    pub fn error(&mut self, message: impl AsRef<[u8]>) {
        let message = message.as_ref();
        let is_end_of_line = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let end = message.len() - message.iter().rev().take_while(|byte| is_end_of_line(byte)).count();
        let bytes = &mut self.out.bytes;
        bytes.push(b'-');
        bytes.extend(message[..end].iter().map(|byte| if is_end_of_line(byte) { b' ' } else { *byte }));
        bytes.extend_from_slice(b"\r\n");
    }

    /// A string.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.blob(b'$', value);
    }

    /// A string that is shared: a large one is sent from where it is, without a copy.
    pub fn bulk_shared(&mut self, value: Bytes) {
        self.header(b'$', value.len());
        self.out.append(value);
        self.raw(b"\r\n");
    }

    /// A double as a string, also in RESP3.
    fn bulk_double(&mut self, value: f64) {
        let at = self.out.bytes.len();
        // Of the texts of doubles, all but the shortest need two digits of length.
        self.raw(b"$00\r\n");
        number::write_double(&mut self.out.bytes, value);
        let len = self.out.bytes.len() - at - 5;
        if len < 10 {
            self.out.bytes[at + 1] = b'0' + len as u8;
            self.out.bytes.remove(at + 2);
        } else {
            self.out.bytes[at + 1] = b'0' + (len / 10) as u8;
            self.out.bytes[at + 2] = b'0' + (len % 10) as u8;
        }
        self.raw(b"\r\n");
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No value where an array would be.
    #[inline]
    pub fn null_array(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        if (0..10).contains(&value) {
            return self.raw(&[b':', b'0' + value as u8, b'\r', b'\n']);
        }
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }

    /// An integer that may exceed the signed range.
    #[inline]
    pub fn unsigned(&mut self, value: u64) {
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }

    /// A truth value; 1 or 0 in RESP2.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.version, value) {
            (ProtocolVersion::Resp2, false) => b":0\r\n",
            (ProtocolVersion::Resp2, true) => b":1\r\n",
            (ProtocolVersion::Resp3, false) => b"#f\r\n",
            (ProtocolVersion::Resp3, true) => b"#t\r\n",
        });
    }

    /// A double; a string in RESP2.
    pub fn double(&mut self, value: f64) {
        if !self.resp3() {
            return self.bulk_double(value);
        }
        self.raw(b",");
        number::write_double(&mut self.out.bytes, value);
        self.raw(b"\r\n");
    }

    /// Text for people. A string in RESP2.
    pub fn verbatim(&mut self, text: &[u8]) {
        if !self.resp3() {
            return self.bulk(text);
        }
        self.header(b'=', text.len() + 4);
        self.raw(b"txt:");
        self.raw(text);
        self.raw(b"\r\n");
    }

    /// The header of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The header of `pairs` keys and values, alternating.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        if self.resp3() { self.header(b'%', pairs) } else { self.header(b'*', 2 * pairs) }
    }

    /// The header of `len` different elements.
    #[inline]
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, len);
    }

    /// The header of a message that answers no request, of `len` elements.
    #[inline]
    pub fn push(&mut self, len: usize) {
        self.header(if self.resp3() { b'>' } else { b'*' }, len);
    }

    /// Starts an array, a set or a map whose length is known only at its end.
    pub fn begin(&mut self) -> Deferred {
        Deferred::begin(self)
    }

    /// `lead`, `text`, end of line.
    #[inline]
    fn line(&mut self, lead: u8, text: &[u8]) {
        let bytes = &mut self.out.bytes;
        bytes.reserve(text.len() + 3);
        bytes.push(lead);
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(b"\r\n");
    }

    /// `lead`, length, end of line, `value`, end of line.
    #[inline]
    fn blob(&mut self, lead: u8, value: &[u8]) {
        self.out.bytes.reserve(value.len() + 16);
        self.header(lead, value.len());
        self.raw(value);
        self.raw(b"\r\n");
    }

    /// `lead`, a length, end of line.
    #[inline]
    fn header(&mut self, lead: u8, len: usize) {
        write_header(&mut self.out.bytes, lead, len);
    }
}

/// Appends `lead`, a length, end of line: `$5\r\n`. For code that writes a value in pieces.
#[inline]
pub fn write_header(out: &mut Vec<u8>, lead: u8, len: usize) {
    match len {
        0..10 => out.extend_from_slice(&[lead, b'0' + len as u8, b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[lead, b'0' + (len / 10) as u8, b'0' + (len % 10) as u8, b'\r', b'\n']),
        _ => write_long_header(out, lead, len),
    }
}

#[cold]
fn write_long_header(out: &mut Vec<u8>, lead: u8, len: usize) {
    out.push(lead);
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
