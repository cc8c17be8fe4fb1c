//! The entries of a packed collection, one after the other.

use std::marker::PhantomData;

use almandine_base::steps;

use super::entry::FieldEntry;

/// The elements of a packed hash or sorted set, in order.
#[derive(Clone, Debug)]
pub struct PackedIter<'a, E> {
    bytes: &'a [u8],
    /// Where the next entry begins.
    pub(crate) offset: usize,
    left: usize,
    element: PhantomData<E>,
}

impl<'a, E> PackedIter<'a, E> {
    pub(crate) fn new(bytes: &'a [u8], offset: usize, left: usize) -> Self {
        Self { bytes, offset, left, element: PhantomData }
    }
}

impl<'a, E: From<FieldEntry<'a>>> Iterator for PackedIter<'a, E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        steps::take(1);
        self.left = self.left.checked_sub(1)?;
        let (entry, size) = FieldEntry::parse(self.bytes, self.offset)?;
        self.offset += size;
        Some(entry.into())
    }
}
