//! The output of one connection's batch: contiguous reply bytes, and large values attached without a copy.

use bytes::Bytes;

use crate::limits;

/// The rest of a reply cannot be had: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// The end of a reply that is made while it is sent, a slice each time the peer has taken the one before.
pub trait Stream: Send {
    /// Appends the next slice of about `limit` bytes. False when that was the last one.
    ///
    /// # Errors
    /// [`Broken`], after which it is not called again.
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken>;
}

/// Reply bytes in order. `attachments` are spliced in before the byte of `bytes` at their offset; a stream comes behind all of it.
#[derive(Default)]
pub struct Output {
    /// Encoded replies.
    pub bytes: Vec<u8>,
    /// Large values: `(offset into bytes, value)`, offsets ascending.
    pub attachments: Vec<(usize, Bytes)>,
    /// Sum of the attachments' lengths in bytes.
    attached: usize,
    /// What comes last, and is not made yet.
    stream: Option<Box<dyn Stream>>,
    /// Something will be written behind each reply.
    whole: bool,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Output").field("len", &self.len()).field("streams", &self.has_stream()).finish_non_exhaustive()
    }
}

/// A position in an [`Output`] to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    bytes: usize,
    attachments: usize,
    attached: usize,
    streams: bool,
}

impl Output {
    /// An empty output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Total bytes that would go to the peer, without those of a stream.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.attached
    }

    /// Whether nothing would go to the peer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.stream.is_none()
    }

    /// Whether a reply may end in a stream: not where others follow in the same output, as in EXEC's.
    #[must_use]
    pub fn may_stream(&self) -> bool {
        !self.whole && self.stream.is_none()
    }

    /// Says whether replies must be written whole, because others follow them.
    pub fn set_whole(&mut self, whole: bool) {
        self.whole = whole;
    }

    /// Ends the output with a stream. Nothing may be written behind it.
    pub fn end_with(&mut self, stream: Box<dyn Stream>) {
        debug_assert!(self.may_stream(), "a stream comes last");
        self.stream = Some(stream);
    }

    /// Whether a stream comes last.
    #[must_use]
    pub fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Puts something around the stream that comes last, if one does.
    pub fn wrap_stream(&mut self, wrap: impl FnOnce(Box<dyn Stream>) -> Box<dyn Stream>) {
        self.stream = self.stream.take().map(wrap);
    }

    /// Replaces bytes and attachments, which have been sent, by the next slice of the stream.
    ///
    /// # Errors
    /// [`Broken`]: the peer cannot get the rest.
    pub fn advance_stream(&mut self, limit: usize) -> Result<(), Broken> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        self.bytes.clear();
        self.attachments.clear();
        self.attached = 0;
        if !stream.next(limit, &mut self.bytes)? {
            self.stream = None;
        }
        Ok(())
    }

    /// Makes all of the stream at once, for an output that is not sent in slices.
    ///
    /// # Errors
    /// [`Broken`]: the peer cannot get the rest.
    pub fn finish_stream(&mut self) -> Result<(), Broken> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        while stream.next(usize::MAX, &mut self.bytes)? {}
        Ok(())
    }

    /// Appends what is shared: much is sent from where it is, without a copy.
    pub fn append(&mut self, value: Bytes) {
        if value.len() <= limits::REPLY_COPY_BYTES_MAX {
            self.bytes.extend_from_slice(&value);
        } else {
            self.attach(value);
        }
    }

    /// Appends a large value by reference.
    pub fn attach(&mut self, value: Bytes) {
        self.attached += value.len();
        self.attachments.push((self.bytes.len(), value));
    }

    /// Copies attached values to where they belong, so that the bytes are all there is but for a stream.
    pub fn flatten(&mut self) {
        if self.attachments.is_empty() {
            return;
        }
        let mut whole = Vec::with_capacity(self.len());
        let mut from = 0;
        for (at, value) in self.attachments.drain(..) {
            whole.extend_from_slice(&self.bytes[from..at]);
            whole.extend_from_slice(&value);
            from = at;
        }
        whole.extend_from_slice(&self.bytes[from..]);
        (self.bytes, self.attached) = (whole, 0);
    }

    /// The current end.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            attachments: self.attachments.len(),
            attached: self.attached,
            streams: self.stream.is_some(),
        }
    }

    /// Forgets everything after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.attachments.truncate(mark.attachments);
        self.attached = mark.attached;
        if !mark.streams {
            self.stream = None;
        }
    }

    /// Moves everything after `mark` to the end of another output. Nothing of it may be a stream.
    pub fn move_to(&mut self, mark: Mark, other: &mut Self) {
        debug_assert!(self.stream.is_none(), "what is made while it is sent stays where it is sent from");
        let at = other.bytes.len();
        other.bytes.extend_from_slice(&self.bytes[mark.bytes..]);
        for (offset, value) in self.attachments.drain(mark.attachments..) {
            other.attached += value.len();
            other.attachments.push((at + offset - mark.bytes, value));
        }
        self.truncate(mark);
    }

    /// Forgets everything, keeping the allocation.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.attachments.clear();
        self.attached = 0;
        self.stream = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncate_restores_length_and_attachments() {
        let mut out = Output::new();
        out.bytes.extend_from_slice(b"abc");
        let mark = out.mark();
        out.attach(Bytes::from_static(b"0123456789"));
        out.bytes.extend_from_slice(b"\r\n");
        assert_eq!(out.len(), 15);
        out.truncate(mark);
        assert_eq!((out.len(), out.attachments.len()), (3, 0));
    }

    #[test]
    fn what_lies_behind_a_mark_moves_with_its_attachments() {
        let (mut out, mut other) = (Output::new(), Output::new());
        (out.bytes, other.bytes) = (b"abc".to_vec(), b"xy".to_vec());
        let mark = out.mark();
        out.bytes.push(b'd');
        out.attach(Bytes::from_static(b"0123456789"));
        out.bytes.push(b'e');
        out.move_to(mark, &mut other);
        assert_eq!((&out.bytes[..], out.len(), other.len()), (&b"abc"[..], 3, 14));
        other.flatten();
        assert_eq!(other.bytes, b"xyd0123456789e");
    }

    /// Numbers up to a limit, a byte each.
    struct Numbers(u8);

    impl Stream for Numbers {
        fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
            let first = self.0;
            self.0 = first.saturating_add(limit.min(10) as u8).min(25);
            out.extend(first..self.0);
            Ok(self.0 < 25)
        }
    }

    #[test]
    fn a_stream_comes_in_slices_or_at_once_and_goes_with_its_reply() {
        let mut out = Output::new();
        out.bytes.push(b'*');
        let mark = out.mark();
        out.end_with(Box::new(Numbers(0)));
        assert!(!out.may_stream() && out.has_stream() && out.len() == 1);
        let mut all = Vec::new();
        loop {
            all.extend_from_slice(&out.bytes);
            if !out.has_stream() {
                break;
            }
            out.advance_stream(10).unwrap();
        }
        assert_eq!(all, [&b"*"[..], &(0..25).collect::<Vec<u8>>()].concat());
        out.clear();
        out.bytes.push(b'*');
        out.end_with(Box::new(Numbers(20)));
        out.finish_stream().unwrap();
        assert_eq!(out.bytes, [b'*', 20, 21, 22, 23, 24]);
        out.end_with(Box::new(Numbers(0)));
        out.truncate(mark);
        assert!(!out.has_stream() && out.bytes == b"*");
        out.set_whole(true);
        assert!(!out.may_stream());
    }
}
