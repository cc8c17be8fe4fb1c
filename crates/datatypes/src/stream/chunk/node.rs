//! Nodes as payloads have them.

use almandine_base::object::Missing;

use super::block::{Block, NodeLimits, Room};
use crate::stream::StreamId;
use crate::stream::entry::{EntryFields, StreamEntry};
use crate::stream::object::{StreamEntries, StreamObject};

/// Blocks of a node that is read are full by their own limits alone.
const UNLIMITED: NodeLimits = NodeLimits { bytes: 0, entries: 0 };

/// Entries that share fields.
#[derive(Clone, Copy, Debug)]
pub struct StreamNode<'a>(&'a Block);

impl<'a> StreamNode<'a> {
    /// The id that the others count from.
    pub fn base(&self) -> StreamId {
        self.0.header().base
    }

    /// The names that entries may share.
    pub fn names(&self) -> Vec<&'a [u8]> {
        names(self.0.fields(self.0.header())).collect()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        let block = self.0;
        (0..block.len()).filter_map(|index| block.nth(index))
    }
}

fn names<'a>(mut fields: EntryFields<'a>) -> impl Iterator<Item = &'a [u8]> + Clone {
    std::iter::from_fn(move || fields.next_name())
}

/// A node that is read, entry after entry.
#[derive(Debug)]
pub struct NewStreamNode {
    full: Vec<Block>,
    block: Block,
}

impl NewStreamNode {
    /// An empty one.
    pub fn new<'n>(base: StreamId, names: impl Iterator<Item = &'n [u8]> + Clone) -> Self {
        Self { full: Vec::new(), block: Block::begin(base, names, None) }
    }

    /// Appends an entry. None, and nothing is changed, unless its id is above all others.
    pub fn push<'f>(&mut self, id: StreamId, fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone) -> Option<()> {
        let header = self.block.header();
        if (self.block.len() > 0 && id <= header.last) || id < header.base {
            return None;
        }
        let size = fields.clone().map(|(name, value)| name.len() + value.len()).sum();
        if self.block.len() > 0 && self.block.room(size, UNLIMITED) == Room::Behind {
            let next = Block::begin(id, names(self.block.fields(header)), Some(&self.block));
            self.full.push(std::mem::replace(&mut self.block, next));
        }
        self.block.push(id, fields);
        Some(())
    }
}

impl StreamEntries {
    /// The nodes in order.
    pub fn payload_nodes(&self) -> impl Iterator<Item = Result<StreamNode<'_>, Missing>> {
        let mut rank = 0;
        std::iter::from_fn(move || {
            if rank >= self.len() {
                return None;
            }
            let block = self.block(rank).map(|(block, _)| block);
            rank = block.map_or(u64::MAX, |block| rank + block.len() as u64);
            Some(block.map(StreamNode))
        })
    }
}

impl StreamObject {
    /// Appends a node. `total` is how many entries it ever had, `bytes` their size as a listpack, `last` the id of the last one.
    /// None: it is not behind all others.
    pub fn push_node(&mut self, node: NewStreamNode, (total, bytes, last): (u32, u32, StreamId)) -> Option<()> {
        for mut block in node.full.into_iter().chain([node.block]) {
            let Some(first) = block.nth(0).map(|entry| entry.id) else { continue };
            if self.entries.last().is_some_and(|before| before.id >= first) {
                return None;
            }
            block.set_node(total, bytes, last);
            self.entries.start(block);
        }
        Some(())
    }
}
