//! Removing elements of a large list: equal ones, and all outside of a range.

use std::ops::Range;

use almandine_base::object::Missing;

use crate::list::End;
use crate::packed::listpack::trailer_len;
use crate::tree::{ByRank, Tree};

use super::find::{Search, Wanted};
use super::{ListObject, bytes_of};
use crate::list::chunk::Chunk;
use crate::list::chunk::stack::Stack;

impl ListObject {
    /// Removes at most `limit` elements that are equal to `element`, those next to an end, and says how many. A list without
    /// elements is the caller's to remove.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; those before it have been removed.
    pub fn remove_equal(&mut self, end: End, element: &[u8], limit: usize) -> Result<usize, Missing> {
        let wanted = Wanted::new(element);
        let search = wanted.search();
        let mut left = limit;
        // In the head, what is lower is further from the left end.
        match end {
            End::Left => {
                left -= remove_from_stack(&mut self.head, &search, left, End::Right);
                left -= self.remove_from_middle(&search, left, end)?;
                left -= remove_from_stack(&mut self.tail, &search, left, End::Left);
            }
            End::Right => {
                left -= remove_from_stack(&mut self.tail, &search, left, End::Right);
                left -= self.remove_from_middle(&search, left, end)?;
                left -= remove_from_stack(&mut self.head, &search, left, End::Left);
            }
        }
        Ok(limit - left)
    }

    fn remove_from_middle(&mut self, search: &Search<'_>, limit: usize, end: End) -> Result<usize, Missing> {
        let (mut left, mut places) = (limit, Vec::new());
        // Elements that were looked at, from the end on.
        let mut done = 0;
        while let Some(tree) = &mut self.middle
            && left > 0
            && done < tree.len()
        {
            let mut route = ByRank(if end == End::Left { done } else { tree.len() - 1 - done });
            let rank = route.0;
            let chunk = tree.leaf(&mut route)?;
            let (at, len) = (route.0, chunk.len() as u64);
            search.places(chunk.entries(), false, &mut places);
            // A chunk that was merged with the one before it has elements which were looked at.
            match end {
                End::Left => places.retain(|place| *place as u64 >= at),
                End::Right => places.retain(|place| *place as u64 <= at),
            }
            nearest(&mut places, left, end);
            done += if end == End::Left { len - at } else { at + 1 } - places.len() as u64;
            if places.is_empty() {
                continue;
            }
            left -= places.len();
            let size = chunk.start(places[0] + 1) - chunk.start(places[0]);
            let bytes = (size + trailer_len(size)) * places.len();
            tree.update(&mut ByRank(rank), &(), |chunk| chunk.remove(&places))?;
            let is_empty = tree.is_empty();
            self.add_middle_bytes(-(bytes as isize));
            if is_empty {
                self.middle = None;
            }
        }
        Ok(limit - left)
    }

    /// Removes all elements outside of a range of places. What may be many of them is given to `dropped` as lists that mean
    /// nothing, to be freed in steps.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the list is as before, or the elements behind the range have been removed.
    pub fn trim(&mut self, keep: Range<usize>, dropped: &mut dyn FnMut(Self)) -> Result<(), Missing> {
        let len = self.len();
        let end = keep.end.min(len);
        let start = keep.start.min(end);
        self.drop_last(len - end, dropped)?;
        self.drop_first(start, dropped)
    }

    fn drop_last(&mut self, count: usize, dropped: &mut dyn FnMut(Self)) -> Result<(), Missing> {
        let from_tail = count.min(self.tail.len());
        let middle = self.middle_len();
        let from_middle = (count - from_tail).min(middle);
        if from_middle > 0 {
            self.keep_in_middle(0..middle - from_middle, dropped)?;
        }
        self.tail.keep_bottom(self.tail.len() - from_tail);
        self.head.keep_top(self.head.len() - (count - from_tail - from_middle));
        Ok(())
    }

    fn drop_first(&mut self, count: usize, dropped: &mut dyn FnMut(Self)) -> Result<(), Missing> {
        let from_head = count.min(self.head.len());
        let middle = self.middle_len();
        let from_middle = (count - from_head).min(middle);
        if from_middle > 0 {
            self.keep_in_middle(from_middle..middle, dropped)?;
        }
        self.head.keep_bottom(self.head.len() - from_head);
        self.tail.keep_top(self.tail.len() - (count - from_head - from_middle));
        Ok(())
    }

    /// Keeps the elements of a range that begins with the first one in the middle, or ends with the last one.
    fn keep_in_middle(&mut self, keep: Range<usize>, dropped: &mut dyn FnMut(Self)) -> Result<(), Missing> {
        if keep.is_empty() {
            self.middle.take().into_iter().for_each(|tree| drop_tree(tree, dropped));
            self.middle_bytes = Some(0);
            return Ok(());
        }
        let Some(tree) = &mut self.middle else { return Ok(()) };
        let is_front = keep.start == 0;
        let cut = if is_front { keep.end } else { keep.start } as u64;
        // The chunk with the cut is read first, so that nothing changes if it is not there.
        let mut route = ByRank(cut);
        tree.leaf(&mut route)?;
        let within = route.0 as usize;
        let mut gone = None;
        if is_front {
            // Whole chunks go from the one behind the cut on, and that with the cut loses its end.
            let from = if within == 0 { cut } else { cut - within as u64 + tree.leaf(&mut ByRank(cut))?.len() as u64 };
            gone = tree.split_off(from);
        } else if let Some(kept) = tree.split_off(cut) {
            gone = Some(std::mem::replace(tree, kept));
        }
        let mut bytes = 0;
        if within > 0 {
            let last = tree.len() - 1;
            let mut route = ByRank(if is_front { last } else { 0 });
            tree.update(&mut route, &(), |chunk| {
                let before = bytes_of(chunk);
                let range = if is_front { within..chunk.len() } else { 0..within };
                chunk.splice(range.start, range.len(), None);
                bytes = before - bytes_of(chunk);
            })?;
        }
        match gone {
            Some(gone) => {
                self.middle_bytes = None;
                self.know_middle_bytes();
                drop_tree(gone, dropped);
            }
            None => self.add_middle_bytes(-(bytes as isize)),
        }
        Ok(())
    }
}

fn drop_tree(tree: Tree<Chunk>, dropped: &mut dyn FnMut(ListObject)) {
    dropped(ListObject { middle: Some(tree), ..ListObject::default() });
}

/// Of places that ascend, those next to an end.
fn nearest(places: &mut Vec<usize>, limit: usize, end: End) {
    match end {
        End::Left => places.truncate(limit),
        End::Right => drop(places.drain(..places.len().saturating_sub(limit))),
    }
}

/// Removes equal elements, of a stack's from an end of its bytes.
fn remove_from_stack(stack: &mut Stack, search: &Search<'_>, limit: usize, end: End) -> usize {
    let mut places = Vec::new();
    if limit > 0 {
        search.places(stack.entries(), true, &mut places);
    }
    nearest(&mut places, limit, end);
    if !places.is_empty() {
        stack.remove(&places);
    }
    places.len()
}
