//! Notes: a session writes down what it changes, and what it removes by itself, and counts it.

use super::batch::Session;
use super::local::Local;
use crate::changes::{Change, RemovalReason};
use crate::counters::add;
use crate::index::Index;
use crate::key::Key;
use crate::record::{Header, Record};
use crate::shared::Inner;
use crate::shared::consumers::Consumer;

impl Inner {
    /// Counts a change that the session was asked for, and says it to those who want to know. The key's bucket is latched exclusively.
    #[inline]
    pub(crate) fn note_change(&self, local: &mut Local, key: &Key<'_>) {
        debug_assert!(local.participant.is_inside(), "INV-CHANGE-1: a change belongs to a batch, which tells it at its end");
        add(&self.thread(local).changes, 1);
        let wanted = self.consumers.wanted();
        if wanted != 0 {
            self.tell_change(local, wanted, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_change(&self, local: &mut Local, wanted: u32, key: &Key<'_>) {
        if wanted & Consumer::Watch as u32 != 0
            && let Some(listener) = self.consumers.under_latch.get()
        {
            listener(key);
        }
        if wanted & Consumer::Notes as u32 != 0 {
            local.notes.changes.push(Change { namespace: key.namespace, key: key.bytes, removal: None });
        }
    }

    /// Counts an expired record that is about to be removed, and notes it. Its bucket is latched exclusively.
    #[inline]
    pub(crate) fn note_expired(&self, local: &mut Local, record: Record, header: Header) {
        debug_assert!(record.is_expired(header, local.now_ms), "INV-EXP-1: only what is due is removed");
        add(&self.thread(local).expired, 1);
        self.note_removal(local, record, header, RemovalReason::Expired);
    }

    /// As [`Inner::note_expired`], for a record that is evicted.
    #[inline]
    pub(crate) fn note_evicted(&self, local: &mut Local, record: Record, header: Header) {
        debug_assert!(self.tier.is_none(), "INV-TIER-1: with a device nothing is evicted");
        add(&self.thread(local).evicted, 1);
        self.note_removal(local, record, header, RemovalReason::Evicted);
    }

    #[inline]
    fn note_removal(&self, local: &mut Local, record: Record, header: Header, reason: RemovalReason) {
        if self.consumers.wanted() & Consumer::Notes as u32 != 0 {
            self.note_wanted(local, record, header, reason);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_wanted(&self, local: &mut Local, record: Record, header: Header, reason: RemovalReason) {
        debug_assert!(
            self.index.bucket(Index::bucket_of(self.hash_of(record, header), self.index.len())).is_latched_exclusively(),
            "INV-CHANGE-1: a removal is noted under its latch"
        );
        let key = self.key_of(record, header);
        local.notes.changes.push(Change { namespace: header.namespace(), key, removal: Some(reason) });
    }
}

impl Session {
    /// Whether changes have been noted since they were taken last.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.local.notes.changes.is_empty()
    }

    /// Takes the changes that have been noted, in their order. Within the batch; what is left when it ends goes to the listener of
    /// [`crate::Store::on_changes`].
    pub fn drain_changes(&mut self, each: impl FnMut(Change<'_>)) {
        debug_assert!(self.local.participant.is_inside(), "INV-CHANGE-1: what a batch has left is given to the listener");
        self.local.notes.changes.iter().for_each(each);
        self.local.notes.changes.clear();
    }

    /// Says that the last two verbs, which have changed two latched keys, were one change, of the second key first.
    pub fn join_changes(&mut self) {
        debug_assert!(self.holds_latches() || self.local.participant.is_alone(), "INV-CHANGE-1: nobody sees one key changed alone");
        self.count_changes(-1);
        if self.store.consumers.wanted() & Consumer::Notes as u32 != 0 {
            self.local.notes.changes.swap_last();
        }
    }

    /// Adds to the count of changes: of those that concern no single key, or where one step is several changes, or several are one.
    pub fn count_changes(&mut self, more: i64) {
        add(&self.store.thread(&self.local).changes, more);
    }

    /// Gives the changes that nobody has taken to the listener. Outside of every latch and epoch.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over_changes(&mut self) {
        debug_assert!(!self.local.participant.is_inside(), "a listener may take its time");
        if let Some(listener) = self.store.consumers.afterwards.get() {
            listener(&self.local.notes.changes);
        }
        self.local.notes.changes.clear();
    }
}
