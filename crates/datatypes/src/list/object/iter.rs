//! Elements in order.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::packed::Member;
use crate::packed::listpack::{parse, short_string, trailer_len};
use crate::tree::{ByRank, Leaves};

use super::{ListObject, Place};
use crate::list::chunk::Chunk;

/// The elements of a large list from some place on. Ends after an error.
#[derive(Clone, Debug)]
pub struct ListIter<'a> {
    list: &'a ListObject,
    at: At<'a>,
    leaves: Option<Leaves<'a, Chunk>>,
    left: usize,
}

#[derive(Clone, Debug)]
enum At<'a> {
    /// In the head, where the bytes of the next element end.
    Head(usize),
    /// In the entries of a chunk.
    Chunk(&'a [u8]),
    /// In the tail, where the bytes of the next element begin.
    Tail(usize),
}

impl<'a> ListIter<'a> {
    pub(in crate::list) fn new(list: &'a ListObject, index: usize) -> Self {
        let left = list.len().saturating_sub(index);
        let mut iter = Self { list, at: At::Chunk(&[]), leaves: None, left };
        if left == 0 {
            return iter;
        }
        match list.place(index) {
            Place::Head(at) => iter.at = At::Head(list.head.offset(at + 1)),
            Place::Tail(at) => iter.at = At::Tail(list.tail.offset(at)),
            Place::Middle(rank) => {
                let mut route = ByRank(rank);
                iter.leaves = list.middle.as_ref().map(|tree| tree.leaves(&mut route));
                if let Some(Ok(chunk)) = iter.leaves.as_mut().and_then(Iterator::next) {
                    iter.at = At::Chunk(&chunk.entries()[chunk.start(route.0 as usize)..]);
                }
            }
        }
        iter
    }

    /// Goes to the next chunk, or to the tail behind the last one.
    fn advance(&mut self) -> Result<(), Missing> {
        if let At::Head(_) = self.at {
            self.leaves = self.list.middle.as_ref().map(|tree| tree.leaves(&mut ByRank(0)));
        }
        self.at = match self.leaves.as_mut().and_then(Iterator::next).transpose()? {
            Some(chunk) => At::Chunk(chunk.entries()),
            None => At::Tail(0),
        };
        Ok(())
    }
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Result<Member<'a>, Missing>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        self.left = self.left.checked_sub(1)?;
        loop {
            match &mut self.at {
                At::Head(end) if *end > 0 => {
                    let (element, size) = self.list.head.entry_before(*end)?;
                    *end -= size;
                    return Some(Ok(element.into()));
                }
                At::Chunk(entries) if !entries.is_empty() => {
                    let (element, size) = parse(entries, 0)?;
                    *entries = &entries[size..];
                    return Some(Ok(element.into()));
                }
                At::Tail(start) => {
                    let (element, size) = self.list.tail.entry_at(*start)?;
                    *start += size;
                    return Some(Ok(element.into()));
                }
                At::Head(_) | At::Chunk(_) => {
                    if let Err(missing) = self.advance() {
                        self.left = 0;
                        return Some(Err(missing));
                    }
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

impl ListObject {
    /// Visits `count` elements from a place on, or those that there are.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the elements before it have been visited.
    #[inline]
    pub fn visit(&self, index: usize, count: usize, mut visit: impl FnMut(&[u8])) -> Result<(), Missing> {
        let mut left = count.min(self.len().saturating_sub(index));
        let (head, middle) = (self.head.len(), self.middle_len());
        if index < head {
            let mut end = self.head.offset(head - index);
            while left > 0
                && let Some((element, size)) = self.head.entry_before(end)
            {
                visit(&Member::from(element));
                end -= size;
                left -= 1;
            }
        }
        if let Some(tree) = self.middle.as_ref().filter(|_| left > 0 && index < head + middle) {
            let mut route = ByRank(index.saturating_sub(head) as u64);
            let mut leaves = tree.leaves(&mut route);
            let mut from = route.0 as usize;
            while left > 0
                && let Some(chunk) = leaves.next().transpose()?
            {
                visit_entries::<false>(&chunk.entries()[chunk.start(from)..], &mut left, &mut visit);
                from = 0;
            }
        }
        if left > 0 {
            let start = self.tail.offset(index.saturating_sub(head + middle));
            visit_entries::<true>(&self.tail.entries()[start..], &mut left, &mut visit);
        }
        Ok(())
    }
}

/// Visits at most `left` of the entries, which have their sizes behind them or not.
#[inline]
fn visit_entries<const SIZES: bool>(mut entries: &[u8], left: &mut usize, visit: &mut impl FnMut(&[u8])) {
    while *left > 0 {
        let size = if let Some(text) = short_string(entries) {
            visit(text);
            1 + text.len()
        } else if let Some((element, size)) = parse(entries, 0) {
            visit(&Member::from(element));
            size
        } else {
            return;
        };
        entries = entries.get(size + if SIZES { trailer_len(size) } else { 0 }..).unwrap_or_default();
        *left -= 1;
    }
}
