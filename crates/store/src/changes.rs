//! Changes: what a session has done to keys, noted for those who want to know.
//!
//! A session notes a change while it holds the latch of the key's bucket, so before anybody could see it (INV-CHANGE-1). Its owner takes the
//! notes when it likes ([`crate::Session::drain_changes`]): a worker behind a command, whose client has made the changes. What nobody has
//! taken when the batch ends goes to the listener of [`crate::Store::on_changes`], outside of every latch and epoch; so does what the threads
//! of the background remove. While nobody wants to know, nothing is noted.
//!
//! Not noted: the records of emptied namespaces; records that move to a device, between its pages, or back, because their keys stay.

use std::ops::Range;

/// Bytes of notes for which a session keeps its memory.
const BYTES_KEPT: usize = 64 * 1024;

/// Why a key was removed without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It was past its time.
    Expired,
    /// To make room.
    Evicted,
}

/// A change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// The namespace that the key is in. It may have been dropped since.
    pub namespace: u16,
    /// The key.
    pub key: &'c [u8],
    /// Why the store removed it; none for what the session was asked to do.
    pub removal: Option<RemovalReason>,
}

/// Noted changes, in their order.
#[derive(Debug, Default)]
pub struct Changes {
    notes: Vec<Note>,
    /// The keys, one behind the other.
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Note {
    namespace: u16,
    removal: Option<RemovalReason>,
    /// Where the key is.
    key: Range<usize>,
}

impl Changes {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.notes.iter().map(|note| Change {
            namespace: note.namespace,
            key: &self.bytes[note.key.clone()],
            removal: note.removal,
        })
    }

    /// Exchanges the last two changes, which concern different keys.
    pub(crate) fn swap_last(&mut self) {
        if let [.., one, other] = &mut self.notes[..] {
            debug_assert!(one.removal.is_none() && other.removal.is_none(), "INV-CHANGE-1: what the store removes keeps its place");
            std::mem::swap(one, other);
        }
    }

    pub(crate) fn push(&mut self, change: Change<'_>) {
        debug_assert_ne!(change.namespace, 0, "INV-NS-1: zero names no namespace");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(change.key);
        self.notes.push(Note { namespace: change.namespace, removal: change.removal, key: start..self.bytes.len() });
    }

    pub(crate) fn clear(&mut self) {
        self.notes.clear();
        self.notes.shrink_to(BYTES_KEPT / size_of::<Note>());
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_as_they_were_noted() {
        let mut changes = Changes::default();
        let all = [
            Change { namespace: 1, key: b"long", removal: Some(RemovalReason::Evicted) },
            Change { namespace: 1, key: b"a", removal: None },
            Change { namespace: 2, key: b"", removal: None },
        ];
        for round in 0..2 {
            assert!(changes.is_empty(), "round {round}");
            all.iter().for_each(|change| changes.push(*change));
            assert_eq!(changes.iter().collect::<Vec<_>>(), all);
            changes.swap_last();
            assert_eq!(changes.iter().collect::<Vec<_>>(), [all[0], all[2], all[1]]);
            changes.clear();
        }
        changes.push(Change { key: &[0; 1 << 20], ..all[0] });
        changes.clear();
        assert!(changes.bytes.capacity() <= BYTES_KEPT);
    }
}
