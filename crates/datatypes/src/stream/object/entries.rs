//! All entries of a stream: blocks in a tree, and the last block beside it, where entries are added.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::tree::{ByRank, Leaf, Node, Route, Tree};

use super::iter::{StreamBackwards, StreamIter};
use super::radix::{self, Size};
use crate::stream::StreamId;
use crate::stream::chunk::block::{Block, NodeLimits, Room};
use crate::stream::entry::StreamEntry;

/// Down to the block that an id belongs to; on the way it counts the entries of the blocks before.
#[derive(Clone, Debug)]
pub(in crate::stream) struct ById {
    pub(in crate::stream) id: StreamId,
    pub(in crate::stream) rank: u64,
}

impl Route<Block> for ById {
    #[inline]
    fn child(&mut self, node: &Node<Block>) -> usize {
        steps::take(1);
        let at = node.last(|bound: &StreamId| *bound <= self.id);
        self.rank += node.count_before(at);
        at
    }
}

/// Which entries a trim keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The last ones, of this number.
    Newest(u64),
    /// Those from an id on.
    From(StreamId),
}

/// A trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// What it keeps.
    pub keep: Keep,
    /// Whether it takes whole nodes only.
    pub approximate: bool,
    /// StreamEntries that it takes at most, in whole nodes. None: any number.
    pub limit: Option<u64>,
}

/// The entries of a stream.
#[derive(Clone, Debug)]
pub struct StreamEntries {
    /// All blocks but the last. None if that is the only one.
    pub(in crate::stream) older: Option<Tree<Block>>,
    /// The last block; empty if there is no entry at all.
    pub(in crate::stream) tail: Block,
    /// Of the radix tree with the first ids of nodes. None: a part was not in memory when one came or went.
    radix: Option<Size>,
}

impl Default for StreamEntries {
    fn default() -> Self {
        Self { older: None, tail: Block::default(), radix: Some(Size::default()) }
    }
}

impl StreamEntries {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.older.as_ref().map_or(0, Tree::len) + self.tail.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(in crate::stream) fn memory(&self) -> usize {
        self.older.as_ref().map_or(0, Tree::memory) + self.tail.memory()
    }

    /// The first block.
    pub(in crate::stream) fn front(&self) -> Result<&Block, Missing> {
        self.older.as_ref().map_or(Ok(&self.tail), |older| older.leaf(&mut ByRank(0)))
    }

    /// The block with an entry of this rank, and the rank there. The last one if there is none.
    pub(in crate::stream) fn block(&self, rank: u64) -> Result<(&Block, usize), Missing> {
        match &self.older {
            Some(older) if rank < older.len() => {
                let mut route = ByRank(rank);
                let block = older.leaf(&mut route)?;
                Ok((block, route.0 as usize))
            }
            older => Ok((&self.tail, (rank - older.as_ref().map_or(0, Tree::len)) as usize)),
        }
    }

    /// How many entries have a lower id.
    pub fn rank(&self, id: StreamId) -> Result<u64, Missing> {
        let before = self.older.as_ref().map_or(0, Tree::len);
        match &self.older {
            Some(older) if id <= self.tail.header().base => {
                let mut route = ById { id, rank: 0 };
                let block = older.leaf(&mut route)?;
                Ok(route.rank + block.below(id) as u64)
            }
            _ => Ok(before + self.tail.below(id) as u64),
        }
    }

    /// How many entries have this id or a lower one.
    pub fn rank_behind(&self, id: StreamId) -> Result<u64, Missing> {
        id.next().map_or(Ok(self.len()), |next| self.rank(next))
    }

    /// The first entry.
    pub fn first(&self) -> Result<Option<StreamEntry<'_>>, Missing> {
        Ok(self.front()?.nth(0))
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<StreamEntry<'_>> {
        self.tail.nth(self.tail.len().checked_sub(1)?)
    }

    /// An entry.
    pub fn get(&self, id: StreamId) -> Result<Option<StreamEntry<'_>>, Missing> {
        let block = match &self.older {
            Some(older) if id < self.tail.header().base => older.leaf(&mut ById { id, rank: 0 })?,
            _ => &self.tail,
        };
        Ok(block.find(id).and_then(|index| block.nth(index)))
    }

    /// StreamEntries from one id to another, both included.
    pub fn range(&self, start: StreamId, end: StreamId) -> Result<StreamIter<'_>, Missing> {
        Ok(StreamIter::new(self, self.rank(start)?, end))
    }

    /// The same, from the last to the first.
    pub fn backwards(&self, start: StreamId, end: StreamId) -> Result<StreamBackwards<'_>, Missing> {
        Ok(StreamBackwards::new(self, self.rank_behind(end)?, start))
    }

    /// Appends an entry, whose id is above all others.
    pub(in crate::stream) fn append<'f>(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        limits: NodeLimits,
    ) {
        let size = fields.clone().map(|(name, value)| name.len() + value.len()).sum();
        let names = fields.clone().map(|(name, _)| name);
        match self.tail.room(size, limits) {
            Room::Here => {}
            room => {
                let continued = (room == Room::Behind).then_some(&self.tail);
                let tail = Block::begin(id, names, continued);
                self.start(tail);
            }
        }
        self.tail.push(id, fields);
        if self.tail.len() == 1 {
            self.note_tail();
        }
    }

    /// Lets entries be added to another block.
    pub(in crate::stream) fn start(&mut self, tail: Block) {
        let mut full = std::mem::replace(&mut self.tail, tail);
        if full.len() > 0 {
            full.seal();
            self.older.get_or_insert_default().append(full.header().base, full);
        }
        if self.tail.len() > 0 {
            self.note_tail();
        }
    }

    /// After the last block has got its first entries: its first id is a key of the radix tree if a node begins there.
    fn note_tail(&mut self) {
        if self.older.is_none() || !self.tail.continues() {
            self.radix = self.radix.and_then(|size| size.with(self, self.tail.header().base).ok());
        }
    }

    /// What of the radix tree a block is that may go: the key, and whether it is the first of all.
    fn key_of(&self, block: &Block) -> Result<Option<(StreamId, bool)>, Missing> {
        let base = block.header().base;
        let is_front = self.front()?.header().base == base;
        Ok((is_front || !block.continues()).then_some((base, is_front)))
    }

    /// After a block has gone.
    fn note_gone(&mut self, key: Option<(StreamId, bool)>) {
        let Some((base, was_front)) = key else { return };
        self.radix = self.radix.and_then(|size| {
            let size = size.without(self, base).ok()?;
            let front = self.front().ok()?;
            // What is left of a node begins at what is left.
            if was_front && front.len() > 0 && front.continues() { size.with(self, front.header().base).ok() } else { Some(size) }
        });
    }

    /// How many keys and nodes the radix tree has in which Redis would keep the stream. It has a key for each of Redis' nodes.
    pub fn radix_tree(&self) -> Result<(usize, usize), Missing> {
        self.radix().map(|size| (size.keys, size.nodes()))
    }

    /// The size of the radix tree with the first ids of nodes.
    pub(in crate::stream) fn radix(&self) -> Result<Size, Missing> {
        self.radix.map_or_else(|| radix::count(self), Ok)
    }

    /// The rank of the first entry of the last block that begins before an id.
    fn block_before(&self, id: StreamId) -> Result<Option<u64>, Missing> {
        if self.tail.len() > 0 && self.tail.header().base < id {
            return Ok(Some(self.older.as_ref().map_or(0, Tree::len)));
        }
        let (Some(older), Some(id)) = (&self.older, id.previous()) else { return Ok(None) };
        let mut route = ById { id, rank: 0 };
        let block = older.leaf(&mut route)?;
        Ok((block.header().base <= id).then_some(route.rank))
    }

    /// The last key of the radix tree that is before an id.
    pub(in crate::stream) fn key_before(&self, id: StreamId) -> Result<Option<StreamId>, Missing> {
        let Some(mut rank) = self.block_before(id)? else { return Ok(None) };
        loop {
            let (block, index) = self.block(rank)?;
            rank -= index as u64;
            if rank == 0 || !block.continues() {
                return Ok(Some(block.header().base));
            }
            rank -= 1;
        }
    }

    /// The first key of the radix tree that is behind an id.
    pub(in crate::stream) fn key_behind(&self, id: StreamId) -> Result<Option<StreamId>, Missing> {
        let Some(next) = id.next() else { return Ok(None) };
        let mut rank = match self.block_before(next)? {
            Some(rank) => rank + self.block(rank)?.0.len() as u64,
            None => 0,
        };
        while rank < self.len() {
            let (block, _) = self.block(rank)?;
            if rank == 0 || !block.continues() {
                return Ok(Some(block.header().base));
            }
            rank += block.len() as u64;
        }
        Ok(None)
    }

    /// Takes an entry away. Says whether it was there.
    pub(in crate::stream) fn remove(&mut self, id: StreamId) -> Result<bool, Missing> {
        let block = match &self.older {
            Some(older) if id < self.tail.header().base => older.leaf(&mut ById { id, rank: 0 })?,
            _ => &self.tail,
        };
        // A block that others have too is not copied for nothing.
        let Some(index) = block.find(id) else { return Ok(false) };
        let key = if block.len() == 1 { self.key_of(block)? } else { None };
        match &mut self.older {
            Some(older) if id < self.tail.header().base => {
                older.update(&mut ById { id, rank: 0 }, &(), |block| block.remove(index))?;
            }
            _ => self.tail.remove(index),
        }
        self.settle()?;
        self.note_gone(key);
        Ok(true)
    }

    /// After entries have gone: the tree has some, and so has the last block.
    fn settle(&mut self) -> Result<(), Missing> {
        if self.older.as_ref().is_some_and(Tree::is_empty) {
            self.older = None;
        }
        if let Some(older) = &mut self.older
            && self.tail.len() == 0
        {
            self.tail = older.update(&mut ByRank(older.len() - 1), &(), std::mem::take)?;
            return self.settle();
        }
        Ok(())
    }

    /// Takes the first entries away.
    pub(in crate::stream) fn skip(&mut self, mut count: u64) -> Result<(), Missing> {
        while count > 0 {
            let front = self.front()?;
            let (len, key) = (front.len() as u64, self.key_of(front)?);
            let taken = count.min(len);
            if taken == 0 {
                break;
            }
            match &mut self.older {
                Some(older) => older.update(&mut ByRank(0), &(), |block| block.skip(taken as usize))?,
                None => self.tail.skip(taken as usize),
            }
            self.settle()?;
            if taken == len {
                self.note_gone(key);
            }
            count -= taken;
        }
        Ok(())
    }

    /// How many entries the node at a rank has, where one begins, and the id of the last one that it ever had.
    pub fn node(&self, rank: u64) -> Result<(u64, StreamId), Missing> {
        let (mut entries, mut last) = (0, StreamId::MIN);
        while rank + entries < self.len() {
            let (block, _) = self.block(rank + entries)?;
            if entries > 0 && !block.continues() {
                break;
            }
            (entries, last) = (entries + block.len() as u64, block.header().last);
        }
        Ok((entries, last))
    }

    /// How many entries a trim takes from the front.
    pub fn trimmed(&self, trim: &Trim) -> Result<u64, Missing> {
        let len = self.len();
        let exact = match trim.keep {
            Keep::Newest(max) => len.saturating_sub(max),
            Keep::From(id) => self.rank(id)?,
        };
        if !trim.approximate {
            return Ok(exact);
        }
        let mut taken = 0;
        while taken < len {
            let (entries, last) = self.node(taken)?;
            let is_within = match trim.keep {
                Keep::Newest(max) => len - taken > max && len - taken - entries >= max,
                Keep::From(id) => last < id,
            };
            if !is_within || trim.limit.is_some_and(|limit| taken + entries > limit) {
                break;
            }
            taken += entries;
        }
        Ok(taken)
    }
}
