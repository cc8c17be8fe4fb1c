//! What a write does to the bytes of a packed collection.

use super::entry::Head;

/// Replaces `remove` bytes from `offset` on by others.
#[derive(Clone, Copy, Debug)]
pub struct Splice<'a> {
    /// Where the bytes begin that go.
    pub offset: usize,
    /// How many go.
    pub remove: usize,
    head: Head,
    tail: [&'a [u8]; 2],
}

impl<'a> Splice<'a> {
    pub(crate) fn new(offset: usize, remove: usize, head: Head, tail: [&'a [u8]; 2]) -> Self {
        Self { offset, remove, head, tail }
    }

    /// The bytes that come, in three pieces.
    #[must_use]
    pub fn insert(&self) -> [&[u8]; 3] {
        [self.head.bytes(), self.tail[0], self.tail[1]]
    }

    /// How many bytes come.
    #[must_use]
    pub fn insert_len(&self) -> usize {
        self.insert().iter().map(|piece| piece.len()).sum()
    }

    /// Applies the splice to the first `len` bytes of a buffer that has room for the result. Returns the new length.
    fn apply(&self, buffer: &mut [u8], len: usize) -> usize {
        let insert = self.insert_len();
        debug_assert!(self.offset + self.remove <= len, "a splice lies within the bytes it was made for");
        buffer.copy_within(self.offset + self.remove..len, self.offset + insert);
        let mut at = self.offset;
        for piece in self.insert() {
            buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        len - self.remove + insert
    }
}

/// One write: up to two splices, the last in the bytes first, so that none moves what another one means.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    splices: [Splice<'a>; 2],
    count: usize,
}

impl<'a> Edit<'a> {
    pub(crate) fn one(splice: Splice<'a>) -> Self {
        Self { splices: [splice, Splice::new(0, 0, Head::EMPTY, [&[], &[]])], count: 1 }
    }

    pub(crate) fn two(later: Splice<'a>, earlier: Splice<'a>) -> Self {
        debug_assert!(earlier.offset + earlier.remove <= later.offset, "splices come from the end and do not overlap");
        Self { splices: [later, earlier], count: 2 }
    }

    /// The splices in the order in which they apply.
    #[must_use]
    pub fn splices(&self) -> &[Splice<'a>] {
        &self.splices[..self.count]
    }

    /// The bytes of a collection after the edit, that had `len`.
    #[must_use]
    pub fn new_len(&self, len: usize) -> usize {
        self.splices().iter().fold(len, |len, splice| len - splice.remove + splice.insert_len())
    }

    /// Applies the edit in place, to the first `len` bytes of a buffer that has room for [`Edit::new_len`]. Returns that.
    ///
    /// # Panics
    /// If there is no room, or the bytes are fewer than those that the edit was made for.
    pub fn apply_within(&self, buffer: &mut [u8], len: usize) -> usize {
        if let [later, earlier] = self.splices()
            && earlier.insert_len() < earlier.remove
        {
            // What shrinks goes first, or the bytes would not fit in between.
            let moved = Splice { offset: later.offset - (earlier.remove - earlier.insert_len()), ..*later };
            let len = earlier.apply(buffer, len);
            return moved.apply(buffer, len);
        }
        self.splices().iter().fold(len, |len, splice| splice.apply(buffer, len))
    }

    /// Applies the edit to all of `bytes`.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        let new_len = self.new_len(len);
        bytes.resize(len.max(new_len), 0);
        self.apply_within(bytes, len);
        bytes.truncate(new_len);
    }
}
