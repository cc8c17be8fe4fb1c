//! The output of one connection's batch: contiguous reply bytes, and large values attached without a copy.

use bytes::Bytes;

/// Reply bytes in order. `attachments` are spliced in before the byte of `bytes` at their offset.
#[derive(Debug, Default)]
pub struct Output {
    /// Encoded replies.
    pub bytes: Vec<u8>,
    /// Large values: `(offset into bytes, value)`, offsets ascending.
    pub attachments: Vec<(usize, Bytes)>,
    /// Sum of the attachments' lengths in bytes.
    attached: usize,
}

/// A position in an [`Output`] to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    bytes: usize,
    attachments: usize,
    attached: usize,
}

impl Output {
    /// An empty output.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Total bytes that would go to the peer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.attached
    }

    /// Whether nothing would go to the peer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a large value by reference.
    pub fn attach(&mut self, value: Bytes) {
        self.attached += value.len();
        self.attachments.push((self.bytes.len(), value));
    }

    /// The current end.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), attachments: self.attachments.len(), attached: self.attached }
    }

    /// Forgets everything after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.attachments.truncate(mark.attachments);
        self.attached = mark.attached;
    }

    /// Forgets everything, keeping the allocation.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.attachments.clear();
        self.attached = 0;
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
}
