//! What the containers have in common: their bytes are checked once, and are then read without doubt.

use std::marker::PhantomData;

/// How the elements of a container lie one after the other, between a header and a last byte.
pub trait Format: Clone + Copy {
    /// An element.
    type Element<'i>;
    /// Bytes before the first one.
    const HEADER_BYTES: usize;

    /// Reads an element. `None` when it is malformed, cut off, or there is none.
    fn read<'i>(input: &mut &'i [u8]) -> Option<Self::Element<'i>>;
}

/// A container all of whose bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Checked<'i, F: Format> {
    elements: &'i [u8],
    len: usize,
    format: PhantomData<F>,
}

impl<'i, F: Format> Checked<'i, F> {
    /// A container of `len` elements, which were checked.
    pub(super) fn new(elements: &'i [u8], len: usize) -> Self {
        Self { elements, len, format: PhantomData }
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements in order.
    #[must_use]
    pub fn iter(&self) -> Elements<'i, F> {
        Elements { unread: self.elements, format: PhantomData }
    }
}

/// The elements of a container.
#[derive(Clone, Debug)]
pub struct Elements<'i, F: Format> {
    unread: &'i [u8],
    format: PhantomData<F>,
}

impl<'i, F: Format> Elements<'i, F> {
    /// Those of a container that was checked before from the same bytes.
    pub(crate) fn of_checked(bytes: &'i [u8]) -> Self {
        let unread = bytes.get(F::HEADER_BYTES..bytes.len().saturating_sub(1)).unwrap_or_default();
        Self { unread, format: PhantomData }
    }
}

impl<'i, F: Format> Iterator for Elements<'i, F> {
    type Item = F::Element<'i>;

    fn next(&mut self) -> Option<Self::Item> {
        F::read(&mut self.unread)
    }
}
