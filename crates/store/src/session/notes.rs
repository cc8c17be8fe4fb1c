//! Notes of removals: a session writes down what it removes by itself, for the listener, and counts it.

use super::local::Local;
use crate::counters::add;
use crate::index::Index;
use crate::record::{Header, Record};
use crate::removed::{Removal, RemovalReason};
use crate::shared::Inner;

impl Inner {
    /// Counts an expired record that is about to be removed, and notes it for the listener. Its bucket is latched exclusively.
    #[inline]
    pub(crate) fn note_expired(&self, local: &Local, record: Record, header: Header) {
        debug_assert!(record.is_expired(header, local.now_ms), "INV-EXP-1: only what is due is removed");
        add(&self.thread(local).expired, 1);
        self.note_removal(record, header, RemovalReason::Expired);
    }

    /// As [`Inner::note_expired`], for a record that is evicted.
    #[inline]
    pub(crate) fn note_evicted(&self, local: &Local, record: Record, header: Header) {
        add(&self.thread(local).evicted, 1);
        self.note_removal(record, header, RemovalReason::Evicted);
    }

    #[inline]
    fn note_removal(&self, record: Record, header: Header, reason: RemovalReason) {
        if self.removals.is_watched() {
            self.note_watched(record, header, reason);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_watched(&self, record: Record, header: Header, reason: RemovalReason) {
        debug_assert!(
            self.index.bucket(Index::bucket_of(self.hash_of(record, header), self.index.len())).is_latched_exclusively(),
            "INV-REMOVED-1: a removal is noted under its latch"
        );
        self.removals.push(Removal { namespace: header.namespace(), key: self.key_of(record, header).into(), reason });
        self.background.waker.wake();
    }
}
