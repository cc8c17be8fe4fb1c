//! StreamEntries in order, either way. No memory is taken: each block is found from the root.

use almandine_base::object::Missing;
use almandine_base::steps;

use super::entries::StreamEntries;
use crate::stream::StreamId;
use crate::stream::chunk::block::Block;
use crate::stream::entry::StreamEntry;

/// StreamEntries, ascending. Ends after an error.
#[derive(Clone, Debug)]
pub struct StreamIter<'a> {
    entries: &'a StreamEntries,
    block: Option<&'a Block>,
    /// The next one in the block.
    index: usize,
    /// The first one behind the block.
    rank: u64,
    end: StreamId,
}

impl<'a> StreamIter<'a> {
    pub(in crate::stream) fn new(entries: &'a StreamEntries, rank: u64, end: StreamId) -> Self {
        Self { entries, block: None, index: 0, rank, end }
    }
}

impl<'a> Iterator for StreamIter<'a> {
    type Item = Result<StreamEntry<'a>, Missing>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        loop {
            if let Some(entry) = self.block.and_then(|block| block.nth(self.index)) {
                self.index += 1;
                if entry.id > self.end {
                    (self.block, self.rank) = (None, u64::MAX);
                    return None;
                }
                return Some(Ok(entry));
            }
            if self.rank >= self.entries.len() {
                return None;
            }
            match self.entries.block(self.rank) {
                Ok((block, index)) => {
                    self.rank += (block.len() - index) as u64;
                    (self.block, self.index) = (Some(block), index);
                }
                Err(missing) => {
                    (self.block, self.rank) = (None, u64::MAX);
                    return Some(Err(missing));
                }
            }
        }
    }
}

/// StreamEntries, descending. Ends after an error.
#[derive(Clone, Debug)]
pub struct StreamBackwards<'a> {
    entries: &'a StreamEntries,
    block: Option<&'a Block>,
    /// StreamEntries in the block before those that were given.
    index: usize,
    /// StreamEntries before the block.
    rank: u64,
    start: StreamId,
}

impl<'a> StreamBackwards<'a> {
    /// Begins with the last of the `count` first entries.
    pub(in crate::stream) fn new(entries: &'a StreamEntries, count: u64, start: StreamId) -> Self {
        Self { entries, block: None, index: 0, rank: count, start }
    }
}

impl<'a> Iterator for StreamBackwards<'a> {
    type Item = Result<StreamEntry<'a>, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        if self.index == 0 {
            match self.entries.block(self.rank.checked_sub(1)?) {
                Ok((block, index)) => {
                    self.rank -= index as u64 + 1;
                    (self.block, self.index) = (Some(block), index + 1);
                }
                Err(missing) => {
                    self.rank = 0;
                    return Some(Err(missing));
                }
            }
        }
        self.index -= 1;
        let entry = self.block.and_then(|block| block.nth(self.index)).filter(|entry| entry.id >= self.start);
        if entry.is_none() {
            (self.index, self.rank) = (0, 0);
        }
        entry.map(Ok)
    }
}
