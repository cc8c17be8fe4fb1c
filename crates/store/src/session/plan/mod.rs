//! Lock plans: the latches of all keys of a command, taken in ascending bucket order.
//!
//! Every session that holds more than one latch takes them in that order (commands here, resizing in `index::resize`), so there is
//! no cycle of waiting (INV-LATCH-3). While a command uses one key, the cache lines of those behind it are on their way.

pub(crate) mod ahead;
pub(crate) mod glances;
pub(crate) mod held;

use crate::index::{Index, Peek};
use crate::session::batch::Session;
use crate::session::plan::held::Modes;

/// Keys whose cache lines are asked for together.
const GROUP: usize = 16;

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
        held.take(index, hashes, Modes::All(exclusive));
        self.fetch_ahead(0);
    }

    /// As [`Session::lock_all`], each key's bucket exclusively or shared as `exclusive` says of the hash in its place.
    pub fn lock_each(&mut self, hashes: &[u64], exclusive: &[bool]) {
        debug_assert!(self.local.held.is_empty(), "INV-LATCH-3: one lock plan at a time");
        debug_assert_eq!(hashes.len(), exclusive.len(), "INV-LATCH-3: each key has its mode");
        self.look_at_budget();
        self.local.held.take(&self.store.index, hashes, Modes::Each(exclusive));
        self.fetch_ahead(0);
    }

    /// Releases all latches.
    #[inline]
    pub fn unlock_all(&mut self) {
        if self.holds_latches() {
            self.local.held.release(&self.store.index);
        }
    }

    /// Releases the latches of a command that has ended. Not if it has made a key with waiters ready: then the latches stay, so
    /// that no other client takes what is there for the first waiter (INV-BLOCK-1). Says whether they have.
    #[inline]
    #[must_use = "latches that stay must be released later"]
    pub fn end_command(&mut self) -> bool {
        if !self.holds_latches() {
            return false;
        }
        if self.has_ready() {
            return true;
        }
        self.local.held.release(&self.store.index);
        false
    }

    /// The bucket of `hash` if the session holds its latch.
    #[inline]
    pub(in crate::session) fn held_bucket(&self, hash: u64) -> Option<u64> {
        if self.local.held.is_empty() {
            return None;
        }
        let number = Index::bucket_of(hash, self.store.index.len());
        let (held, position) = self.local.held.holds(hash, number);
        if let Some(position) = position
            && position.is_multiple_of(GROUP)
        {
            self.fetch_ahead(position);
        }
        held.then_some(number)
    }

    /// Whether the session holds any latch.
    #[inline]
    #[must_use]
    pub fn holds_latches(&self) -> bool {
        !self.local.held.is_empty()
    }

    /// Asks the cache for what the keys behind those of the group that begins at `position` need: for far ones their bucket,
    /// for near ones their record.
    #[inline(never)]
    fn fetch_ahead(&self, position: usize) {
        let (index, log) = (&self.store.index, &self.store.log);
        let group = |groups: usize| self.local.held.keys(position + groups * GROUP, GROUP).iter();
        group(3).for_each(|&hash| index.prefetch(hash));
        let near = if position == 0 { 0..3 } else { 2..3 };
        for &hash in near.flat_map(group) {
            if let Peek::Record(address) = index.peek(hash)
                && address >= self.local.head
            {
                log.prefetch(address);
            }
        }
        group(1).filter_map(|&hash| index.peek_overflow(hash)).for_each(|address| log.prefetch(address));
    }
}
