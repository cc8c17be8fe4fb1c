//! Lock plans: the latches of all keys of a command, taken in ascending bucket order.
//!
//! Everyone who holds more than one latch takes them in that order (commands here, resizing in `index::resize`), so there is
//! no cycle of waiting (INV-LATCH-3).

use super::batch::Session;
use crate::index::Index;

impl Session {
    /// Latches the buckets of all `hashes`, exclusively or shared, until [`Session::unlock_all`]. Nothing may be held yet.
    pub fn lock_all(&mut self, hashes: &[u64], exclusive: bool) {
        debug_assert!(self.local.held.is_empty(), "INV-LATCH-3: one lock plan at a time");
        self.look_at_budget();
        let index = &self.store.index;
        let held = &mut self.local.held;
        if let [hash] = hashes {
            held.take_one(index, *hash, exclusive);
            return;
        }
        loop {
            let buckets = index.len();
            held.take(index, hashes, buckets, exclusive);
            // A bucket that split meanwhile may have taken a key elsewhere; one that is latched cannot split any more.
            let now = index.len();
            if now == buckets || hashes.iter().all(|&hash| held.contains(Index::bucket_of(hash, now))) {
                return;
            }
            held.release(index);
        }
    }

    /// Releases all latches.
    #[inline]
    pub fn unlock_all(&mut self) {
        if self.holds_latches() {
            self.local.held.release(&self.store.index);
        }
    }

    /// The bucket of `hash` if the session holds its latch.
    #[inline]
    pub(super) fn held_bucket(&self, hash: u64) -> Option<u64> {
        if self.local.held.is_empty() {
            return None;
        }
        let number = Index::bucket_of(hash, self.store.index.len());
        self.local.held.contains(number).then_some(number)
    }

    /// Whether the session holds any latch.
    #[inline]
    pub(super) fn holds_latches(&self) -> bool {
        !self.local.held.is_empty()
    }
}
