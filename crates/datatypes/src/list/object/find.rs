//! Looking for equal elements from either end, a chunk at a time.
//!
//! Equal elements have equal bytes, so a chunk is first searched for the bytes of what is wanted, by vector instructions; those
//! that have them are walked through, to see whether it is an element that they belong to, and which. Few bytes are found too often
//! for that to pay.

use almandine_base::object::Missing;
use memchr::memmem::Finder;

use crate::list::End;
use crate::packed::listpack::{Encoded, size_at, trailer_len};
use crate::tree::ByRank;

use super::ListObject;

/// Bytes from which on an element is searched for before a chunk is walked through.
const SEARCHED_FROM: usize = 4;

/// An element that is looked for.
pub(in crate::list) struct Wanted {
    bytes: Vec<u8>,
}

/// It, with what makes the search for it fast.
pub(in crate::list) struct Search<'w> {
    wanted: &'w Wanted,
    finder: Option<Finder<'w>>,
}

impl Wanted {
    pub(in crate::list) fn new(element: &[u8]) -> Self {
        Self { bytes: Encoded::new(element).to_vec() }
    }

    pub(in crate::list) fn search(&self) -> Search<'_> {
        let finder = (self.bytes.len() >= SEARCHED_FROM).then(|| Finder::new(&self.bytes));
        Search { wanted: self, finder }
    }
}

impl Search<'_> {
    /// The places of equal elements in a run of entries, ascending. Each entry has its size behind it, or none has.
    pub(in crate::list) fn places(&self, entries: &[u8], have_sizes: bool, places: &mut Vec<usize>) {
        places.clear();
        let wanted = &self.wanted.bytes[..];
        if self.finder.as_ref().is_some_and(|finder| finder.find(entries).is_none()) {
            return;
        }
        let (mut at, mut index) = (0, 0);
        while let Some(size) = size_at(entries, at) {
            if size == wanted.len() && entries.get(at..at + size) == Some(wanted) {
                places.push(index);
            }
            at += size + if have_sizes { trailer_len(size) } else { 0 };
            index += 1;
        }
    }
}

impl ListObject {
    /// Visits the places of elements that are equal to `element`, from an end on and of the `limit` elements there, until `visit`
    /// says that this is enough.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was visited is right.
    pub fn find(&self, end: End, element: &[u8], limit: usize, visit: &mut dyn FnMut(usize) -> bool) -> Result<(), Missing> {
        let wanted = Wanted::new(element);
        let search = wanted.search();
        let mut places = Vec::new();
        let (head, middle, len) = (self.head.len(), self.middle_len(), self.len());
        // The first and the last place that are looked at.
        let (low, high) = match end {
            End::Left => (0, limit.min(len)),
            End::Right => (len - limit.min(len), len),
        };
        let mut part = |base: usize, places: &mut dyn DoubleEndedIterator<Item = usize>| {
            while let Some(place) = if end == End::Left { places.next() } else { places.next_back() } {
                if (low..high).contains(&(base + place)) && !visit(base + place) {
                    return false;
                }
            }
            true
        };
        for section in if end == End::Left { [0, 1, 2] } else { [2, 1, 0] } {
            let goes_on = match section {
                0 if low < head => {
                    search.places(self.head.entries(), true, &mut places);
                    part(0, &mut places.iter().rev().map(|place| head - 1 - place))
                }
                2 if high > head + middle => {
                    search.places(self.tail.entries(), true, &mut places);
                    part(head + middle, &mut places.iter().copied())
                }
                1 if middle > 0 && low < head + middle && high > head => self.find_in_middle(
                    &search,
                    (low.max(head) - head, high.min(head + middle) - head),
                    end,
                    &mut |base, places| part(head + base, &mut places.iter().copied()),
                )?,
                _ => true,
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Tells `part` the places in each chunk that has elements in a range of the middle, and where the chunk begins. Says whether
    /// all were told.
    fn find_in_middle(
        &self,
        search: &Search<'_>,
        (low, high): (usize, usize),
        end: End,
        part: &mut dyn FnMut(usize, &[usize]) -> bool,
    ) -> Result<bool, Missing> {
        let (Some(tree), mut places) = (&self.middle, Vec::new()) else { return Ok(true) };
        if end == End::Left {
            let mut base = 0;
            for chunk in tree.leaves(&mut ByRank(0)) {
                let chunk = chunk?;
                if base >= high {
                    break;
                }
                search.places(chunk.entries(), false, &mut places);
                if !places.is_empty() && !part(base, &places) {
                    return Ok(false);
                }
                base += chunk.len();
            }
            return Ok(true);
        }
        let mut left = high;
        while left > low {
            let mut route = ByRank(left as u64 - 1);
            let chunk = tree.leaf(&mut route)?;
            let base = left - 1 - route.0 as usize;
            search.places(chunk.entries(), false, &mut places);
            if !places.is_empty() && !part(base, &places) {
                return Ok(false);
            }
            left = base;
        }
        Ok(true)
    }
}
