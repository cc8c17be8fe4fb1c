//! How far a group has come, counted in entries, as Redis reckons it.
//!
//! What counts are all entries that were ever added. Where entries may be missing ahead, because some were deleted, how many are
//! left is unknown.

use crate::stream::StreamId;

/// What the reckoning needs of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounters {
    /// Entries that are there.
    pub len: u64,
    /// Entries that were ever added.
    pub added: u64,
    /// The first entry that is there; zero if there is none.
    pub first: StreamId,
    /// The last entry that was ever added.
    pub last: StreamId,
    /// The highest one that was deleted.
    pub max_deleted: StreamId,
}

impl StreamCounters {
    /// Whether an entry was deleted from this id on.
    fn has_gap_from(&self, start: StreamId) -> bool {
        self.len > 0 && self.max_deleted != StreamId::MIN && self.first <= self.max_deleted && start <= self.max_deleted
    }

    /// How many entries were added up to this id. None: unknown.
    #[must_use]
    pub fn read_up_to(&self, id: StreamId) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        if (self.len == 0 && id <= self.last) || id == self.last {
            return Some(self.added);
        }
        let has_gap = self.max_deleted != StreamId::MIN && self.max_deleted >= self.first;
        if id > self.last || has_gap || id > self.first {
            return None;
        }
        let before = self.added.wrapping_sub(self.len);
        Some(if id == self.first { before.wrapping_add(1) } else { before })
    }

    /// How many entries a group has read that goes on from `last_id`, after `read` entries, to the entry `id`. Entries that were
    /// trimmed between them count as read.
    #[must_use]
    pub fn read_next(&self, read: Option<u64>, last_id: StreamId, id: StreamId) -> Option<u64> {
        match read {
            Some(read) if last_id >= self.first && !self.has_gap_from(id) => Some(read.wrapping_add(1)),
            _ if self.added > 0 => self.read_up_to(id),
            read => read,
        }
    }

    /// How many entries a group has not read, of which the number it has read and the id of the last are given. None: unknown.
    #[must_use]
    pub fn lag(&self, read: Option<u64>, last_id: StreamId) -> Option<i64> {
        if self.added == 0 {
            return Some(0);
        }
        // What is left lies behind all that the group has read and all that was deleted.
        if last_id < self.first && self.max_deleted < self.first {
            return Some(self.len as i64);
        }
        let read = match read {
            Some(read) if !self.has_gap_from(last_id) => read,
            _ => self.read_up_to(last_id)?,
        };
        Some((self.added as i64).wrapping_sub(read as i64))
    }
}
