//! A large sorted set made at once of members that come in order.

use crate::hashed::{Placement, bound};
use crate::packed::Scored;

use super::index::IndexChunk;
use super::object::SortedSetObject;
use super::order::{Bound, OrderChunk};

/// Members and bytes of a chunk: three quarters of what it may have, so that some can come.
const CHUNK_LEN: usize = 48;
const CHUNK_BYTES: usize = 6 * 1024;
const INDEX_LEN: usize = 96;

impl SortedSetObject {
    /// A sorted set of members that ascend. Their expiries stay.
    #[must_use]
    pub fn from_ascending<'m>(members: impl Iterator<Item = Scored<'m>>, placement: Placement) -> Self {
        let mut set = Self::new(placement);
        let (mut hashes, mut chunk, mut bytes) = (Vec::with_capacity(members.size_hint().0), Vec::with_capacity(CHUNK_LEN), 0);
        let mut last: Option<Scored<'m>> = None;
        for entry in members {
            debug_assert!(last.is_none_or(|last| last.key() < entry.key()), "members ascend");
            hashes.push((bound(placement.hash(entry.member)), entry.score));
            if chunk.len() == CHUNK_LEN || bytes + entry.member.len() > CHUNK_BYTES {
                set.append(&mut chunk);
                bytes = 0;
            }
            bytes += entry.member.len();
            chunk.push(entry);
            last = Some(entry);
        }
        set.append(&mut chunk);
        hashes.sort_unstable_by_key(|(hash, _)| *hash);
        let mut hashes = &hashes[..];
        while let Some(last) = hashes.len().min(INDEX_LEN).checked_sub(1) {
            // Members of one hash belong together.
            let len = hashes.partition_point(|(hash, _)| *hash <= hashes[last].0);
            let (chunk, rest) = hashes.split_at(len);
            set.index.append(chunk[0].0, IndexChunk::build(chunk));
            hashes = rest;
        }
        set
    }

    /// Puts members behind all others, if there are any, and takes them out of `chunk`.
    fn append(&mut self, chunk: &mut Vec<Scored<'_>>) {
        let Some(first) = chunk.first() else { return };
        let last = self.order.len().checked_sub(1).and_then(|rank| self.nth(rank as usize).ok().flatten());
        let bound = last.map_or_else(Bound::default, |last| Bound::between(last.key(), first.key()));
        self.order.append(bound, OrderChunk::of(chunk));
        chunk.clear();
    }
}
