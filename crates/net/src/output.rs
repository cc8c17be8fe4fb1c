//! Output that a peer has not taken yet.
//!
//! A queue of outputs, of which the first may be sent in part. An output's memory goes back as soon as all of it is sent, a
//! large value's as soon as that value is.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use almandine_base::Output;
use almandine_base::output::Broken;
use almandine_io::socket::Stream;

use crate::transport::{Broken as Refused, Transport};

/// Slices of one system call.
const SLICES_MAX: usize = 64;
/// One connection's share of a round in bytes, so that a fast reader of much data does not hold up the others.
const SHARE_BYTES: usize = 1024 * 1024;
/// Bytes of a stream that are made at once.
const SLICE_BYTES: usize = 64 * 1024;
/// Slices of a stream that are made in one round: making them takes the time of others.
const STREAM_SLICES_MAX: usize = 4;
/// Bytes that are encoded at once for a transport: what a slow peer leaves of them is memory beside its output.
const ENCODED_BYTES: usize = 64 * 1024;
/// Smaller parts of an output are joined before they are encoded.
const JOINED_BYTES_MAX: usize = 16 * 1024;
/// Small outputs are joined up to this size.
const JOIN_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Pending {
    queue: VecDeque<Output>,
    /// How far the first output is sent: bytes, attachments, bytes of the current attachment.
    sent: Cursor,
    len: usize,
    /// Capacity of the outputs' bytes.
    memory: usize,
    /// Bytes of the attachments that are not sent whole.
    attached: usize,
    /// What comes before the queue in the form of the connection's transport, and how much of it is sent.
    encoded: Vec<u8>,
    encoded_sent: usize,
    /// Since when the soft limit is exceeded.
    pub(crate) over_since_s: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    bytes: usize,
    attachment: usize,
    within: usize,
}

impl Pending {
    /// Bytes that are not sent.
    pub(crate) fn len(&self) -> usize {
        self.len + self.encoded.len() - self.encoded_sent
    }

    /// Whether all is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0 && !self.has_stream()
    }

    /// What is pending, if it is one piece of at most `bytes_max` bytes of which nothing is sent.
    pub(crate) fn one_piece(&self, bytes_max: usize) -> Option<&[u8]> {
        let output = self.queue.front().filter(|output| self.queue.len() == 1 && output.bytes.len() == self.len)?;
        (self.len <= bytes_max && self.encoded.is_empty() && !output.has_stream()).then_some(&output.bytes)
    }

    /// Whether a reply is still being made.
    pub(crate) fn has_stream(&self) -> bool {
        self.queue.iter().any(Output::has_stream)
    }

    /// Memory of its own. Attachments do not count: the store counts the values that are attached.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory + self.queue.capacity() * size_of::<Output>() + self.encoded.capacity()
    }

    /// Bytes of the attachments that are not sent whole.
    pub(crate) fn attached_bytes(&self) -> usize {
        self.attached
    }

    /// Pieces that are not sent whole.
    pub(crate) fn outputs(&self) -> usize {
        self.queue.len()
    }

    /// Moves everything from `output` to the end.
    pub(crate) fn push(&mut self, output: &mut Output) {
        self.len += output.len();
        self.attached += attached(output);
        let last_before = self.queue.back().map_or(0, |last| last.bytes.capacity());
        let outputs_before = self.queue.len();
        self.append(output);
        let last = self.queue.back().map_or(0, |last| last.bytes.capacity());
        self.memory += last - if self.queue.len() == outputs_before { last_before } else { 0 };
    }

    fn append(&mut self, output: &mut Output) {
        if output.has_stream() {
            self.queue.push_back(std::mem::take(output));
        } else if let Some(last) = self.queue.back_mut()
            && !last.has_stream()
            && output.attachments.is_empty()
            && last.bytes.len() + output.bytes.len() <= JOIN_BYTES_MAX
        {
            last.bytes.extend_from_slice(&output.bytes);
            output.clear();
        } else if output.attachments.is_empty() && output.bytes.len() < output.bytes.capacity() / 8 * 7 {
            // It may wait for long: it takes no more memory than it needs.
            self.queue.push_back(plain(output.bytes.clone()));
            output.clear();
        } else {
            self.queue.push_back(std::mem::take(output));
        }
    }

    /// Appends bytes.
    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.push(&mut plain(bytes));
    }

    /// Appends what the transport has encoded, before anything that it has not.
    pub(crate) fn push_encoded(&mut self, bytes: &[u8]) {
        self.encoded.extend_from_slice(bytes);
    }

    /// As [`Pending::send`], through a transport. What is encoded was counted by its plain length before, and is a little more.
    pub(crate) fn send_encoded(
        &mut self,
        stream: &Stream,
        transport: &mut dyn Transport,
        plain: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let (mut total, mut slices_left) = (0, STREAM_SLICES_MAX);
        while total < SHARE_BYTES {
            if self.encoded.is_empty() {
                if self.len == 0 || self.front_is_sent() {
                    if slices_left == 0 || !self.make_slice()? {
                        break;
                    }
                    slices_left -= 1;
                }
                self.encode(transport, plain)?;
            }
            let sent = stream.send(&self.encoded[self.encoded_sent..])?;
            self.encoded_sent += sent;
            total += sent;
            if self.encoded_sent < self.encoded.len() {
                break;
            }
            self.encoded.clear();
            self.encoded_sent = 0;
        }
        Ok(total)
    }

    /// Encodes about [`ENCODED_BYTES`] of the queue.
    fn encode(&mut self, transport: &mut dyn Transport, plain: &mut Vec<u8>) -> io::Result<()> {
        plain.clear();
        let mut encoded = std::mem::take(&mut self.encoded);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let batch = self.fill(&mut slices);
        let mut taken = 0;
        for slice in &slices[..batch.count] {
            let part = &slice[..slice.len().min(ENCODED_BYTES - taken)];
            // Nothing small waits to come before it: it is encoded where it is.
            let encoded_here = plain.is_empty() && part.len() >= JOINED_BYTES_MAX;
            if encoded_here {
                transport.encode(part, &mut encoded).map_err(refused)?;
            } else {
                plain.extend_from_slice(part);
            }
            taken += part.len();
            if taken == ENCODED_BYTES {
                break;
            }
        }
        if !plain.is_empty() {
            transport.encode(plain, &mut encoded).map_err(refused)?;
        }
        self.encoded = encoded;
        self.advance(taken);
        Ok(())
    }

    /// Sends what the kernel takes, up to one connection's share of a round. Returns how much that was.
    pub(crate) fn send(&mut self, stream: &Stream) -> io::Result<usize> {
        let (mut total, mut slices_left) = (0, STREAM_SLICES_MAX);
        while total < SHARE_BYTES {
            if self.len == 0 || self.front_is_sent() {
                if slices_left == 0 || !self.make_slice()? {
                    break;
                }
                slices_left -= 1;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let batch = self.fill(&mut slices);
            let sent = stream.send_slices(&slices[..batch.count])?;
            self.advance(sent);
            total += sent;
            if sent < batch.bytes {
                break;
            }
        }
        Ok(total)
    }

    /// Whether of the first output all is sent but what its stream makes.
    fn front_is_sent(&self) -> bool {
        self.queue.front().is_some_and(|output| piece(output, &self.sent).is_none())
    }

    /// Has the first output's stream make its next slice. False when there is no stream.
    fn make_slice(&mut self) -> io::Result<bool> {
        let Some(output) = self.queue.front_mut().filter(|output| output.has_stream()) else { return Ok(false) };
        self.memory -= output.bytes.capacity();
        self.attached -= attached(output);
        let advanced = output.advance_stream(SLICE_BYTES);
        self.memory += output.bytes.capacity();
        self.attached += attached(output);
        advanced.map_err(|Broken| io::Error::other("a reply cannot be finished"))?;
        self.sent = Cursor::default();
        self.len += output.len();
        self.advance(0);
        Ok(true)
    }

    /// Puts the first unsent slices into `slices`, about one share of a round.
    fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> Batch {
        let mut batch = Batch { count: 0, bytes: 0 };
        let mut cursor = self.sent;
        for output in &self.queue {
            if !batch.add(output, cursor, slices) || output.has_stream() {
                break;
            }
            cursor = Cursor::default();
        }
        batch
    }

    /// Forgets the first `count` unsent bytes.
    pub(crate) fn advance(&mut self, mut count: usize) {
        self.len -= count;
        while let Some(output) = self.queue.front_mut() {
            while count > 0
                && let Some(piece) = piece(output, &self.sent)
            {
                let taken = piece.len().min(count);
                count -= taken;
                let before = self.sent.attachment;
                step(output, &mut self.sent, taken);
                if self.sent.attachment > before {
                    self.attached -= std::mem::take(&mut output.attachments[before].1).len();
                }
            }
            if output.has_stream() || piece(output, &self.sent).is_some() {
                return;
            }
            self.memory -= output.bytes.capacity();
            self.attached -= attached(output);
            self.queue.pop_front();
            self.sent = Cursor::default();
        }
    }
}

/// Sends `first` and then `output` with one system call, as far as the kernel takes them. Returns how much that was.
pub(crate) fn send_once(stream: &Stream, first: &[u8], output: &Output) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    slices[0] = IoSlice::new(first);
    let mut batch = Batch { count: 1, bytes: first.len() };
    batch.add(output, Cursor::default(), &mut slices);
    stream.send_slices(&slices[..batch.count])
}

/// The slices of one system call.
struct Batch {
    count: usize,
    bytes: usize,
}

impl Batch {
    /// Adds what `output` has from the cursor on. Returns whether there was room for all of it.
    fn add<'a>(&mut self, output: &'a Output, mut cursor: Cursor, slices: &mut [IoSlice<'a>]) -> bool {
        while let Some(piece) = piece(output, &cursor) {
            if self.count == slices.len() || self.bytes >= SHARE_BYTES {
                return false;
            }
            let piece = &piece[..piece.len().min(SHARE_BYTES)];
            slices[self.count] = IoSlice::new(piece);
            self.count += 1;
            self.bytes += piece.len();
            step(output, &mut cursor, piece.len());
        }
        true
    }
}

fn refused(Refused: Refused) -> io::Error {
    io::Error::other("the transport sends no more")
}

/// Bytes of the attachments that are still there.
fn attached(output: &Output) -> usize {
    output.attachments.iter().map(|(_, value)| value.len()).sum()
}

fn plain(bytes: Vec<u8>) -> Output {
    let mut output = Output::new();
    output.bytes = bytes;
    output
}

/// The unsent bytes at the cursor, up to the next border between bytes and attachments.
fn piece<'a>(output: &'a Output, cursor: &Cursor) -> Option<&'a [u8]> {
    let mut cursor = *cursor;
    loop {
        match output.attachments.get(cursor.attachment) {
            Some((offset, _)) if cursor.bytes < *offset => return Some(&output.bytes[cursor.bytes..*offset]),
            Some((_, value)) if cursor.within < value.len() => return Some(&value[cursor.within..]),
            Some(_) => {
                cursor.attachment += 1;
                cursor.within = 0;
            }
            None if cursor.bytes < output.bytes.len() => return Some(&output.bytes[cursor.bytes..]),
            None => return None,
        }
    }
}

/// Moves the cursor over `count` bytes of the piece at it.
fn step(output: &Output, cursor: &mut Cursor, count: usize) {
    loop {
        match output.attachments.get(cursor.attachment) {
            Some((offset, _)) if cursor.bytes < *offset => return cursor.bytes += count,
            Some((_, value)) if cursor.within + count < value.len() => return cursor.within += count,
            Some((_, value)) => {
                let done = cursor.within < value.len();
                cursor.attachment += 1;
                cursor.within = 0;
                if done {
                    return;
                }
            }
            None => return cursor.bytes += count,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// What is left, as a peer would see it.
    fn rest(pending: &Pending) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let batch = pending.fill(&mut slices);
        slices[..batch.count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn one_piece_is_bytes_of_which_nothing_is_sent() {
        let mut pending = Pending::default();
        assert_eq!(pending.one_piece(100), None, "there is none");
        pending.push_bytes(b"first".to_vec());
        assert_eq!((pending.one_piece(4), pending.one_piece(5)), (None, Some(&b"first"[..])));
        pending.push_bytes(b"second".to_vec());
        assert_eq!(pending.one_piece(100), Some(&b"firstsecond"[..]), "small outputs are joined");
        pending.advance(1);
        assert_eq!(pending.one_piece(100), None, "a part is sent");
        pending.advance(10);
        let mut out = Output::new();
        out.bytes.push(b'a');
        out.attach(Bytes::from_static(b"value"));
        pending.push(&mut out);
        assert_eq!(pending.one_piece(100), None, "it has an attachment");
    }

    #[test]
    fn any_partial_send_leaves_the_rest_in_order() {
        let build = || {
            let mut pending = Pending::default();
            let mut out = Output::new();
            out.attach(Bytes::from_static(b"first"));
            out.bytes.extend_from_slice(b"ab");
            out.attach(Bytes::new());
            out.attach(Bytes::from_static(b"second"));
            out.bytes.extend_from_slice(b"cd");
            pending.push(&mut out);
            pending.push_bytes(b"ef".to_vec());
            let mut last = Output::new();
            last.bytes.push(b'g');
            last.attach(Bytes::from_static(b"third"));
            pending.push(&mut last);
            pending
        };
        let all = b"firstabsecondcdefgthird";
        for first in 0..=all.len() {
            for second in 0..=all.len() - first {
                let mut pending = build();
                assert_eq!(pending.len(), all.len());
                pending.advance(first);
                pending.advance(second);
                assert_eq!(rest(&pending), &all[first + second..]);
                assert_eq!(pending.len(), all.len() - first - second);
                let held: usize = pending.queue.iter().map(|output| output.bytes.capacity()).sum();
                let attached: usize = pending.queue.iter().map(attached).sum();
                assert_eq!((pending.memory, pending.attached), (held, attached));
                assert!(!pending.is_empty() || held == 0);
            }
        }
    }
}
