//! Heap keys whose records are gone, until no reader can see them.
//!
//! A key dies under a latch, so its session only notes it. It is freed at the end of a batch, when its epoch is safe; or by the
//! background, if the session ends before.

use crate::record::INLINE_KEY_MAX;
use crate::record::heap::HeapKey;
use almandine_epoch::{Deferred, Epoch};

/// Bytes of dead keys from which on a session begins an epoch itself instead of waiting for others to do so.
const BYTES_BEFORE_BUMP: usize = 64 * 1024;

/// Dead keys of one session. Each handle came from [`HeapKey::into_handle`] and is given up.
#[derive(Default)]
pub(crate) struct DeadKeys {
    handles: Deferred<(u64, usize)>,
    bytes: usize,
}

impl DeadKeys {
    /// Takes the handle of a key that no record holds any more. Inside the epoch.
    pub(crate) fn push(&mut self, handle: u64, bytes: usize) {
        debug_assert!(bytes > INLINE_KEY_MAX, "a key that fits is in its record");
        self.handles.push((handle, bytes));
        self.bytes += bytes;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Whether they take so much memory that waiting for others is not worth it.
    pub(crate) fn press(&self) -> bool {
        self.bytes >= BYTES_BEFORE_BUMP
    }

    /// The keys that have died so far are freed once `epoch` is safe.
    pub(crate) fn tag(&mut self, epoch: u64) {
        self.handles.tag(epoch);
    }

    /// Whether keys have died since the last [`Self::tag`].
    #[inline]
    pub(crate) fn has_untagged(&self) -> bool {
        self.handles.has_untagged()
    }

    /// The epoch of the oldest dead key.
    pub(crate) fn oldest_epoch(&self) -> Option<u64> {
        self.handles.oldest_epoch()
    }

    /// Frees what died in `safe` or before; `safe` is the result of a scan.
    pub(crate) fn settle(&mut self, safe: u64) {
        while let Some((handle, bytes)) = self.handles.pop_due(safe) {
            self.bytes -= bytes;
            // SAFETY: its record was unlinked before the tag, and the tag's epoch is safe: no reader sees it.
            unsafe { HeapKey::free(handle) };
        }
        debug_assert!(!self.handles.is_empty() || self.bytes == 0, "the bytes are those of the keys");
    }

    /// Leaves all of them to the background, for a session that ends.
    pub(crate) fn hand_over(&mut self, epoch: &Epoch) {
        let handles: Vec<u64> = self.handles.take_all().map(|(handle, _)| handle).collect();
        self.bytes = 0;
        if !handles.is_empty() {
            epoch.bump_with(Box::new(move || {
                for handle in handles {
                    // SAFETY: all were unlinked before this epoch ended, and it is safe.
                    unsafe { HeapKey::free(handle) };
                }
            }));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn keys_die_without_the_queue_of_actions_and_are_freed_when_their_epoch_is_safe() {
        const KEY_BYTES: usize = crate::record::INLINE_KEY_MAX + 1;
        let epoch = Arc::new(Epoch::new(2));
        let (own, reader) = (epoch.register().unwrap(), epoch.register().unwrap());
        let mut keys = DeadKeys::default();
        own.enter();
        reader.enter();
        for _ in 0..3 {
            keys.push(HeapKey::into_handle(&[1; KEY_BYTES]), KEY_BYTES);
        }
        keys.tag(epoch.current());
        own.leave();
        assert_eq!(epoch.pending(), 0, "no lock was taken for them");
        assert!(keys.oldest_epoch().is_some_and(|oldest| !epoch.is_over(oldest)) && !keys.press());
        epoch.bump();
        keys.settle(epoch.safe());
        assert_eq!(keys.bytes, 3 * KEY_BYTES, "a reader may see them");
        reader.leave();
        keys.settle(epoch.safe());
        assert!(keys.is_empty());
        keys.push(HeapKey::into_handle(&[1; BYTES_BEFORE_BUMP]), BYTES_BEFORE_BUMP);
        assert!(keys.press());
        keys.hand_over(&epoch);
        assert!(keys.is_empty());
        assert_eq!((epoch.pending(), epoch.drain()), (1, 1));
    }
}
