//! The radix tree in which Redis would keep a stream: XINFO tells its size.
//!
//! Its keys are the first ids of nodes, 16 bytes with the most significant first. A path without forks is one node of it, and each
//! key ends in one. How many there are is kept while keys come and go: what changes lies where a key leaves the others, so its
//! neighbours tell.

use almandine_base::object::Missing;

use crate::tree::ByRank;

use super::entries::StreamEntries;
use crate::stream::StreamId;

/// Bytes of a key.
const LEN: u32 = 16;

/// How large the tree is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::stream) struct Size {
    pub(in crate::stream) keys: usize,
    /// Nodes, but for the root of an empty tree.
    nodes: usize,
}

impl Size {
    /// An empty tree has its root.
    pub(in crate::stream) fn nodes(self) -> usize {
        self.nodes.max(1)
    }

    /// After a key has come, which `entries` have.
    pub(in crate::stream) fn with(self, entries: &StreamEntries, key: StreamId) -> Result<Self, Missing> {
        Ok(Self { keys: self.keys + 1, nodes: self.nodes + nodes_of(entries, key)? })
    }

    /// After a key has gone.
    pub(in crate::stream) fn without(self, entries: &StreamEntries, key: StreamId) -> Result<Self, Missing> {
        Ok(Self { keys: self.keys.saturating_sub(1), nodes: self.nodes.saturating_sub(nodes_of(entries, key)?) })
    }
}

/// The size, found by going through all blocks.
pub(in crate::stream) fn count(entries: &StreamEntries) -> Result<Size, Missing> {
    let mut keys = Vec::new();
    if let Some(older) = &entries.older {
        for block in older.leaves(&mut ByRank(0)) {
            let block = block?;
            if keys.is_empty() || !block.continues() {
                keys.push(number(block.header().base));
            }
        }
    }
    if entries.tail.len() > 0 && (keys.is_empty() || !entries.tail.continues()) {
        keys.push(number(entries.tail.header().base));
    }
    Ok(Size { keys: keys.len(), nodes: nodes(&keys, 0) })
}

fn number(id: StreamId) -> u128 {
    u128::from(id.ms) << 64 | u128::from(id.seq)
}

fn id(number: u128) -> StreamId {
    StreamId::new((number >> 64) as u64, number as u64)
}

/// Bytes at the beginning that two keys have in common.
fn common(one: u128, other: u128) -> u32 {
    (one ^ other).leading_zeros() / 8
}

/// Nodes for ascending keys that are the same up to a place.
fn nodes(keys: &[u128], from: u32) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    let fork = common(*first, *last).max(from);
    if fork == LEN || keys.len() == 1 {
        return 1 + usize::from(from < LEN);
    }
    let below: usize = keys.chunk_by(|one, other| common(*one, *other) > fork).map(|part| nodes(part, fork + 1)).sum();
    1 + usize::from(fork > from) + below
}

/// How many nodes more there are with a key than without it.
fn nodes_of(entries: &StreamEntries, key: StreamId) -> Result<usize, Missing> {
    let own = number(key);
    // The other keys around a place.
    let before = |place: u128| -> Result<Option<u128>, Missing> {
        let found = entries.key_before(id(place))?;
        Ok(if found == Some(key) { entries.key_before(key)? } else { found }.map(number))
    };
    let behind = |place: u128| -> Result<Option<u128>, Missing> {
        let found = entries.key_behind(id(place))?;
        Ok(if found == Some(key) { entries.key_behind(key)? } else { found }.map(number))
    };
    let with = |other: Option<u128>, key: u128| other.map_or(0, |other| common(other, key));
    let (left, right) = (before(own)?, behind(own)?);
    if left.or(right).is_none() {
        // One path, and its end.
        return Ok(2);
    }
    // Where the key leaves the others: what it has for itself behind that is a path, if there is anything, and its end.
    let fork = with(left, own).max(with(right, own));
    let tail = usize::from(fork + 1 < LEN) + 1;
    let below = u128::MAX.checked_shr(8 * fork).unwrap_or(0);
    // The first and the last of the others that are the same up to there.
    let least = own & !below;
    // No key is 0-0.
    let first = behind(least.saturating_sub(1))?;
    let last = match (own | below).checked_add(1) {
        Some(place) => before(place)?,
        None => behind(u128::MAX - 1)?.map_or_else(|| before(u128::MAX), |last| Ok(Some(last)))?,
    };
    let (Some(first), Some(last)) = (first, last) else { return Ok(tail) };
    let next_fork = common(first, last).min(LEN);
    if next_fork == fork {
        // There is a fork already.
        return Ok(tail);
    }
    // A path is cut in up to three.
    let outer = with(before(first)?, first).max(with(behind(last)?, last));
    let has_outer = before(first)?.or(behind(last)?).is_some();
    let begin = if has_outer { outer + 1 } else { 0 };
    Ok(usize::from(fork > begin) + usize::from(fork + 1 < next_fork) + tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::NodeLimits;

    #[test]
    fn sizes_are_those_of_the_keys() {
        assert_eq!(nodes(&[], 0), 0);
        assert_eq!(nodes(&[5], 0), 2);
        // A path, a fork, and two ends of which the last byte is the fork's.
        assert_eq!(nodes(&[5, 6], 0), 4);
        assert_eq!(nodes(&[1 << 8, 2 << 8], 0), 6);
    }

    #[test]
    fn what_is_kept_is_what_is_counted_while_keys_come_and_go() {
        let mut state = 7_u64;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for round in 0..40 {
            let (mut entries, mut last, mut ids) = (StreamEntries::default(), StreamId::MIN, Vec::new());
            for _ in 0..300 {
                if ids.is_empty() || random(3) > 0 {
                    let step = [1, 1, 200, 70_000, 1 << 33][random(5) as usize];
                    last = if random(4) == 0 {
                        StreamId::new(last.ms + step, random(3))
                    } else {
                        StreamId::new(last.ms, last.seq + step)
                    };
                    let limits = NodeLimits { bytes: 0, entries: 1 + round % 3 };
                    entries.append(last, std::iter::once((&b"f"[..], &b"v"[..])), limits);
                    ids.push(last);
                } else if random(4) == 0 {
                    let count = random(1 + ids.len() as u64 / 4);
                    entries.skip(count).unwrap();
                    ids.drain(..count as usize);
                } else {
                    let gone = ids.remove(random(ids.len() as u64) as usize);
                    assert!(entries.remove(gone).unwrap());
                }
                assert_eq!(entries.radix(), count(&entries), "{ids:?}");
            }
        }
    }
}
