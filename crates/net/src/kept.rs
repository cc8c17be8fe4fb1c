//! Input that is kept until it can be executed.
//!
//! What is consumed at its start is not moved away each time: a peer may have sent far more than is executed before it reads.

/// Bytes behind a start that moves. Without memory when nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct KeptInput {
    bytes: Vec<u8>,
    start: usize,
}

impl KeptInput {
    /// Keeps what `buffer` holds.
    pub(crate) fn new(buffer: Vec<u8>) -> Self {
        Self { bytes: buffer, start: 0 }
    }

    /// What is not consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether this number of further bytes needs more memory.
    pub(crate) fn would_grow(&self, count: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() < count
    }

    /// Makes room for `count` more bytes and no others.
    pub(crate) fn reserve_exact(&mut self, count: usize) {
        self.bytes.reserve_exact(count);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        if self.would_grow(bytes.len()) && self.start * 4 >= self.len() {
            self.forget_consumed();
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets the first `count` bytes. What is left is moved only when at least a quarter as much has been consumed, so all
    /// moves together cost no more than four times what was received.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start >= self.len() {
            self.forget_consumed();
        }
    }

    fn forget_consumed(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
    }

    /// The memory, for something else.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_consumed_is_gone_and_the_rest_is_moved_seldom() {
        let all: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut kept = KeptInput::new(all.clone());
        let (mut consumed, mut moved) = (0, 0);
        while kept.len() > 10 {
            kept.consume(10);
            consumed += 10;
            moved += if kept.start == 0 { kept.len() } else { 0 };
            assert_eq!((kept.unread(), kept.len()), (&all[consumed..], all.len() - consumed));
        }
        assert!(moved <= all.len(), "{moved} bytes were moved");
        kept.extend(b"more");
        assert_eq!(kept.unread()[10..], *b"more");
        kept.consume(14);
        assert!(kept.is_empty());
    }
}
