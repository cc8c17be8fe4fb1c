//! The radix tree in which Redis would keep a stream: XINFO tells its size.
//!
//! Its keys are the first ids of nodes, 16 bytes with the most significant first. A path without forks is one node of it, and each key ends in one.

use almandine_base::object::Missing;

use crate::tree::ByRank;

use super::StreamId;
use super::entries::Entries;

type Key = [u8; 16];

/// How many keys and nodes there are.
pub(super) fn count(entries: &Entries) -> Result<(usize, usize), Missing> {
    let mut keys = Vec::new();
    if let Some(older) = &entries.older {
        for block in older.leaves(&mut ByRank(0)) {
            let block = block?;
            if keys.is_empty() || !block.continues() {
                keys.push(key(block.header().base));
            }
        }
    }
    if entries.tail.len() > 0 && (keys.is_empty() || !entries.tail.continues()) {
        keys.push(key(entries.tail.header().base));
    }
    // An empty tree has its root.
    Ok((keys.len(), if keys.is_empty() { 1 } else { nodes(&keys, 0) }))
}

fn key(id: StreamId) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&id.ms.to_be_bytes());
    key[8..].copy_from_slice(&id.seq.to_be_bytes());
    key
}

/// Nodes for ascending keys that are the same up to a place.
fn nodes(keys: &[Key], from: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    let fork = (from..16).find(|at| first[*at] != last[*at]);
    let Some(fork) = fork else { return 1 + usize::from(from < 16) };
    let below: usize = keys.chunk_by(|one, other| one[fork] == other[fork]).map(|part| nodes(part, fork + 1)).sum();
    1 + usize::from(fork > from) + below
}
