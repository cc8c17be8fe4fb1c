//! Aggregates whose number of elements is known only behind them.

use super::{ProtocolVersion, Reply};

/// An aggregate that has begun. One that does not end must be cut off with [`almandine_base::Output::truncate`].
#[derive(Debug)]
#[must_use = "an aggregate without its count is not a reply"]
pub struct Deferred {
    /// Where the header is to be.
    at: usize,
}

/// Room that a deferred header takes in advance: `*N\r\n` with one digit.
const HEADER: [u8; 4] = *b"*0\r\n";

impl Deferred {
    pub(super) fn begin(reply: &mut Reply<'_>) -> Self {
        let at = reply.out.bytes.len();
        reply.raw(&HEADER);
        Self { at }
    }

    /// Ends an array of `len` elements.
    pub fn end_array(self, reply: &mut Reply<'_>, len: usize) {
        self.end(reply, b'*', len);
    }

    /// Ends a set of `len` elements.
    pub fn end_set(self, reply: &mut Reply<'_>, len: usize) {
        self.end(reply, if reply.version() == ProtocolVersion::Resp3 { b'~' } else { b'*' }, len);
    }

    /// Ends a map of `pairs` keys and values.
    pub fn end_map(self, reply: &mut Reply<'_>, pairs: usize) {
        match reply.version() {
            ProtocolVersion::Resp2 => self.end(reply, b'*', 2 * pairs),
            ProtocolVersion::Resp3 => self.end(reply, b'%', pairs),
        }
    }

    /// Writes the header, moving the elements when the count has more than one digit.
    fn end(self, reply: &mut Reply<'_>, lead: u8, len: usize) {
        let (at, bytes) = (self.at, &mut reply.out.bytes);
        bytes[at] = lead;
        if len < 10 {
            bytes[at + 1] = b'0' + len as u8;
            return;
        }
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(len).as_bytes();
        let more = digits.len() - 1;
        let (elements, end) = (at + HEADER.len(), bytes.len());
        bytes.resize(end + more, 0);
        bytes.copy_within(elements..end, elements + more);
        bytes[at + 1..][..digits.len()].copy_from_slice(digits);
        bytes[elements + more - 2..][..2].copy_from_slice(b"\r\n");
        // Attachments are in order, and those of the elements are the last.
        for (offset, _) in reply.out.attachments.iter_mut().rev().take_while(|(offset, _)| *offset >= elements) {
            *offset += more;
        }
    }
}
