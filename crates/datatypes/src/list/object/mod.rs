//! A large list: what commands do with it at its ends and by place, and what the store does.

mod convert;
mod ends;
mod find;
mod image;
mod iter;
mod remove;

pub use iter::ListIter;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use super::packed::{EMPTY_LISTPACK_BYTES, listpack_bytes};
use super::{ListEncoding, ListLimits};
use crate::packed::Member;
use crate::packed::listpack::{Encoded, trailer_len};
use crate::tree::{ByRank, Tree};

use super::chunk::Chunk;
use super::chunk::stack::Stack;

/// Elements in the middle up to which the bytes that they take in a listpack are known.
const MEASURED_MAX: usize = 8192;

/// A list of any number of elements, each below 4 GiB.
#[derive(Clone, Debug, Default)]
pub struct ListObject {
    /// The first elements; the first one of all is on top.
    pub(super) head: Stack,
    /// No tree while there is nothing in it.
    pub(super) middle: Option<Tree<Chunk>>,
    /// The last elements; the last one of all is on top.
    pub(super) tail: Stack,
    /// Bytes that the elements in the middle take in a listpack; None: not known.
    pub(super) middle_bytes: Option<usize>,
    pub(super) encoding: ListEncoding,
    /// Parts of an image that were read.
    pub(super) parts: u32,
}

/// Where an element is.
pub(super) enum Place {
    /// In the head, so far from its bottom.
    Head(usize),
    /// In the middle.
    Middle(u64),
    /// In the tail, so far from its bottom.
    Tail(usize),
}

impl ListObject {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self { middle_bytes: Some(0), encoding: ListEncoding::QuickList, ..Self::default() }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.middle_len() + self.tail.len()
    }

    pub(super) fn middle_len(&self) -> usize {
        self.middle.as_ref().map_or(0, |tree| tree.len() as usize)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> ListEncoding {
        self.encoding
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(&mut self, encoding: ListEncoding) {
        self.encoding = encoding;
    }

    /// Whether the elements, with others of `bytes` in all, are more than one node of a quicklist may have.
    pub fn exceeds(&self, limits: ListLimits, added_bytes: usize, added: usize) -> Result<bool, Missing> {
        // Each element takes two bytes at least.
        if limits.is_exceeded(EMPTY_LISTPACK_BYTES + 2 * self.len() + added_bytes, self.len() + added) {
            return Ok(true);
        }
        let middle = match self.middle_bytes {
            Some(bytes) => bytes,
            None => self.measure_middle()?,
        };
        let bytes = EMPTY_LISTPACK_BYTES + self.head.entries().len() + middle + self.tail.entries().len();
        Ok(limits.is_exceeded(bytes + added_bytes, self.len() + added))
    }

    fn measure_middle(&self) -> Result<usize, Missing> {
        let chunks = self.middle.iter().flat_map(|tree| tree.leaves(&mut ByRank(0)));
        chunks.map(|chunk| Ok(bytes_of(chunk?))).sum()
    }

    /// Finds out how many bytes the elements in the middle take in a listpack, once they are so few that this matters.
    pub(super) fn know_middle_bytes(&mut self) {
        if self.middle_bytes.is_none() && self.middle_len() <= MEASURED_MAX {
            self.middle_bytes = self.measure_middle().ok();
        }
    }

    pub(super) fn add_middle_bytes(&mut self, bytes: isize) {
        self.middle_bytes = self.middle_bytes.map(|before| before.wrapping_add_signed(bytes));
    }

    /// Where the element at a place below [`ListObject::len`] is.
    #[inline]
    pub(super) fn place(&self, index: usize) -> Place {
        let (head, middle) = (self.head.len(), self.middle_len());
        if index < head {
            Place::Head(head - 1 - index)
        } else if index < head + middle {
            Place::Middle((index - head) as u64)
        } else {
            Place::Tail(index - head - middle)
        }
    }

    /// The element at a place, from 0 on.
    pub fn nth(&self, index: usize) -> Result<Option<Member<'_>>, Missing> {
        if index >= self.len() {
            return Ok(None);
        }
        let element = match self.place(index) {
            Place::Head(at) => self.head.entry_at(self.head.offset(at)).map(|(element, _)| element),
            Place::Tail(at) => self.tail.entry_at(self.tail.offset(at)).map(|(element, _)| element),
            Place::Middle(rank) => {
                let Some(tree) = &self.middle else { return Ok(None) };
                let mut route = ByRank(rank);
                tree.leaf(&mut route)?.nth(route.0 as usize)
            }
        };
        Ok(element.map(Member::from))
    }

    /// All elements in order. Ends after an error.
    #[must_use]
    pub fn iter(&self) -> ListIter<'_> {
        self.iter_from(0)
    }

    /// As [`ListObject::iter`], from a place on.
    #[must_use]
    pub fn iter_from(&self, index: usize) -> ListIter<'_> {
        ListIter::new(self, index)
    }

    /// Replaces the element at a place. Says whether there is one.
    pub fn set(&mut self, index: usize, element: &[u8]) -> Result<bool, Missing> {
        if index >= self.len() {
            return Ok(false);
        }
        self.splice(index, 1, &Encoded::new(element))?;
        Ok(true)
    }

    /// Puts an element before the one at a place, or behind all if there is none.
    pub fn insert(&mut self, index: usize, element: &[u8]) -> Result<(), Missing> {
        if index >= self.len() {
            self.push(crate::list::End::Right, element);
            return Ok(());
        }
        self.splice(index, 0, &Encoded::new(element))
    }

    /// Puts an element before the one at a place, or in its stead.
    fn splice(&mut self, index: usize, gone: usize, new: &Encoded) -> Result<(), Missing> {
        match self.place(index) {
            // What comes before an element in the list is above it in the head.
            Place::Head(at) => self.head.splice(at + 1 - gone, gone, Some(new)),
            Place::Tail(at) => self.tail.splice(at, gone, Some(new)),
            Place::Middle(rank) => {
                let Some(tree) = &mut self.middle else { return Ok(()) };
                let mut route = ByRank(rank);
                let chunk = tree.leaf(&mut route)?;
                let at = route.0 as usize;
                let old: usize = if gone == 0 { 0 } else { chunk.start(at + 1) - chunk.start(at) };
                let old = if gone == 0 { 0 } else { old + trailer_len(old) };
                tree.update(&mut ByRank(rank), &(), |chunk| chunk.splice(at, gone, Some(new)))?;
                self.add_middle_bytes((new.size() + trailer_len(new.size())) as isize - old as isize);
            }
        }
        self.relieve();
        Ok(())
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        self.head.check();
        self.tail.check();
        let Some(tree) = &self.middle else { return };
        tree.check(&());
        assert!(!tree.is_empty(), "INV-LIST-1: there is no empty tree");
        let chunks = tree.leaves(&mut ByRank(0)).map(|chunk| bytes_of(chunk.expect("all is in memory")));
        let bytes: usize = chunks.sum();
        assert!(self.middle_bytes.is_none_or(|known| known == bytes), "the bytes of a listpack are exact");
    }
}

/// Bytes that the elements of a chunk take in a listpack.
pub(super) fn bytes_of(chunk: &Chunk) -> usize {
    listpack_bytes(chunk.entries()) - EMPTY_LISTPACK_BYTES
}

impl Object for ListObject {
    fn kind(&self) -> Kind {
        Kind::List
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.head.memory() + self.tail.memory() + self.middle.as_ref().map_or(0, Tree::memory)
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        image::write_part(self, cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        image::read_part(self, part)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        if self.middle.as_mut().is_some_and(|tree| !tree.release(limit)) {
            return false;
        }
        *self = Self::new();
        true
    }

    fn prefetch(&self, step: u32, _hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        // Which element is wanted is not known; pushes and pops need the ends.
        if step == 0 {
            for stack in [&self.head, &self.tail] {
                fetch(stack.entries().as_ptr_range().end);
            }
        }
    }
}
