//! A list as bytes: up to [`ELEMENTS_MAX`] elements in their order.
//!
//! ```text
//! bits 1-2: encoding         1 byte
//! number of elements         1 byte
//! entries
//! ```

mod encoding;

pub use encoding::EMPTY_LISTPACK_BYTES;
pub use encoding::{ListEncoding, ListLimits};

use almandine_base::steps;
use std::ops::Range;

use crate::packed::listpack::{self, Encoded, parse, size_at, trailer_len};
use crate::packed::{ELEMENTS_MAX, Full, Member};

/// Bytes of a packed list at most: less than other collections, since each push and pop at the left moves all that is behind it.
pub const LIST_MAX_BYTES: usize = 4096;

const HEADER: usize = 2;

/// Where elements are pushed and popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Before the first element.
    Left,
    /// Behind the last one.
    Right,
}

/// A view on the bytes of a packed list.
#[derive(Clone, Copy, Debug)]
pub struct PackedList<'a> {
    encoding: ListEncoding,
    count: usize,
    entries: &'a [u8],
}

impl<'a> PackedList<'a> {
    /// A view on bytes; any bytes will do, no bytes at all are an empty list.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let (flags, count, entries) = match bytes {
            [flags, count, entries @ ..] => (*flags, usize::from(*count), entries),
            _ => (0, 0, &[][..]),
        };
        Self { encoding: ListEncoding::from_number((flags >> 1) & 3), count, entries }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> ListEncoding {
        self.encoding
    }

    /// Where the entry of an element begins in the entries, or the end of the last one.
    fn start(&self, index: usize) -> Option<usize> {
        (0..index.min(self.count)).try_fold(0, |at, _| Some(at + size_at(self.entries, at)?))
    }

    /// The element at a place, from 0 on.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<Member<'a>> {
        self.iter_from(index).next()
    }

    /// All elements in order.
    #[must_use]
    pub fn iter(&self) -> PackedListIter<'a> {
        self.iter_from(0)
    }

    /// The elements from a place on.
    #[must_use]
    pub fn iter_from(&self, index: usize) -> PackedListIter<'a> {
        let start = self.start(index);
        let left = if start.is_some() { self.count.saturating_sub(index) } else { 0 };
        PackedListIter { entries: self.entries, at: start.unwrap_or(0), left }
    }

    /// Visits the places of all elements that are equal to `element`, ascending, until it says that this is enough.
    pub fn find(&self, element: &[u8], visit: &mut dyn FnMut(usize) -> bool) {
        let wanted = Encoded::new(element);
        let [head, data] = wanted.parts();
        let mut at = 0;
        for index in 0..self.count {
            let Some(size) = size_at(self.entries, at) else { return };
            let found = size == wanted.size()
                && self.entries.get(at..at + size).is_some_and(|entry| entry.starts_with(head) && entry.ends_with(data));
            if found && !visit(index) {
                return;
            }
            at += size;
        }
    }

    /// Bytes that the elements take as one listpack.
    #[must_use]
    pub fn listpack_bytes(&self) -> usize {
        listpack_bytes(self.entries)
    }

    /// No less than [`PackedList::listpack_bytes`], and little more, without looking at the elements.
    #[must_use]
    pub fn listpack_bytes_bound(&self) -> usize {
        EMPTY_LISTPACK_BYTES + self.entries.len() + self.count * trailer_len(LIST_MAX_BYTES)
    }

    /// Whether the bytes are what this module writes, and there is an element: for what comes from a file or the network.
    #[must_use]
    pub fn is_sound(&self, bytes: &[u8]) -> bool {
        let mut at = 0;
        for _ in 0..self.count {
            if !listpack::is_canonical(self.entries, at) {
                return false;
            }
            at += size_at(self.entries, at).unwrap_or(0);
        }
        let is_whole = at == self.entries.len() && bytes.first() == Some(&((self.encoding as u8) << 1));
        is_whole && (1..=ELEMENTS_MAX).contains(&self.count) && bytes.len() <= LIST_MAX_BYTES
    }

    /// Puts an element at an end.
    ///
    /// # Errors
    /// [`Full`]: the result would not be a packed list; nothing has changed.
    pub fn push(bytes: &mut Vec<u8>, end: End, element: &[u8]) -> Result<(), Full> {
        let at = match end {
            End::Left => HEADER,
            End::Right => bytes.len().max(HEADER),
        };
        splice(bytes, at..at, 0, Some(element))
    }

    /// Puts an element before the one at a place, or behind all if there is none.
    ///
    /// # Errors
    /// [`Full`]: as with [`PackedList::push`].
    pub fn insert(bytes: &mut Vec<u8>, index: usize, element: &[u8]) -> Result<(), Full> {
        let at = HEADER + PackedList::new(bytes).start(index).ok_or(Full)?;
        splice(bytes, at..at, 0, Some(element))
    }

    /// Replaces the element at a place. Says whether there is one.
    ///
    /// # Errors
    /// [`Full`]: as with [`PackedList::push`].
    pub fn set(bytes: &mut Vec<u8>, index: usize, element: &[u8]) -> Result<bool, Full> {
        let list = PackedList::new(bytes);
        let (Some(start), Some(end)) = (list.start(index), list.start(index + 1)) else { return Ok(false) };
        if index >= list.count {
            return Ok(false);
        }
        splice(bytes, HEADER + start..HEADER + end, 1, Some(element)).map(|()| true)
    }

    /// Removes elements from a place on. Says how many. A list without elements is the caller's to remove.
    pub fn remove(bytes: &mut Vec<u8>, index: usize, count: usize) -> usize {
        let list = PackedList::new(bytes);
        let end = index.saturating_add(count).min(list.count);
        let (Some(from), Some(to)) = (list.start(index), list.start(end)) else { return 0 };
        let gone = end.saturating_sub(index);
        if gone == 0 || HEADER + to > bytes.len() {
            return 0;
        }
        // What becomes smaller fits, if it is sound.
        splice(bytes, HEADER + from..HEADER + to, gone, None).map_or(0, |()| gone)
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(bytes: &mut Vec<u8>, encoding: ListEncoding) {
        bytes.resize(bytes.len().max(HEADER), 0);
        bytes[0] = (encoding as u8) << 1;
    }
}

/// Replaces `gone` entries in a range of the bytes by a new one, if there is any.
fn splice(bytes: &mut Vec<u8>, range: Range<usize>, gone: usize, new: Option<&[u8]>) -> Result<(), Full> {
    let new = new.map(Encoded::new);
    let size = new.map_or(0, |new| new.size());
    let count = PackedList::new(bytes).count - gone + usize::from(new.is_some());
    let len = bytes.len().max(HEADER);
    if range.end > len || count > ELEMENTS_MAX || len - range.len() + size > LIST_MAX_BYTES {
        return Err(Full);
    }
    bytes.resize(len.max(len - range.len() + size), 0);
    bytes.copy_within(range.end..len, range.start + size);
    bytes.truncate(len - range.len() + size);
    new.into_iter().for_each(|new| new.write(&mut bytes[range.start..]));
    bytes[1] = count as u8;
    Ok(())
}

/// Bytes that entries take as one listpack.
pub(crate) fn listpack_bytes(entries: &[u8]) -> usize {
    let (mut at, mut bytes) = (0, EMPTY_LISTPACK_BYTES);
    while let Some(size) = size_at(entries, at).filter(|size| at + size <= entries.len()) {
        at += size;
        bytes += size + trailer_len(size);
    }
    bytes
}

/// The elements of a packed list.
#[derive(Clone, Debug)]
pub struct PackedListIter<'a> {
    entries: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Iterator for PackedListIter<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        steps::take(1);
        self.left = self.left.checked_sub(1)?;
        let (element, size) = parse(self.entries, self.at)?;
        self.at += size;
        Some(element.into())
    }
}
