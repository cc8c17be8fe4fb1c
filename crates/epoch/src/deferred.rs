//! One thread's list of things that must be unreachable before they are reclaimed.
//!
//! It needs no lock and no allocation per thing: it belongs to the thread that unlinks. What is unlinked during a batch is tagged
//! together at the batch's end, with one fence for all of it. A thing goes through three stages: *untagged* (unlinked, but no epoch
//! says when), *waiting* (tagged, its epoch is not safe), *due*.

use std::collections::VecDeque;

use crate::epoch::OUTSIDE;

/// Things in the order in which they were unlinked.
#[derive(Debug)]
pub struct Deferred<T> {
    /// With their tags, which never go down from front to back.
    waiting: VecDeque<(u64, T)>,
    untagged: Vec<T>,
}

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), untagged: Vec::new() }
    }
}

impl<T> Deferred<T> {
    /// An empty list with memory for `things`.
    #[must_use]
    pub fn with_capacity(things: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(things), untagged: Vec::with_capacity(things) }
    }

    /// Takes a thing that the caller has unlinked.
    #[inline]
    pub fn push(&mut self, thing: T) {
        self.untagged.push(thing);
    }

    /// Whether anything was unlinked since the last [`Deferred::tag`].
    #[inline]
    #[must_use]
    pub fn has_untagged(&self) -> bool {
        !self.untagged.is_empty()
    }

    /// Tags what was unlinked so far; `tag` is what [`crate::Epoch::current`] or [`crate::Epoch::bump`] has returned since.
    pub fn tag(&mut self, tag: u64) {
        debug_assert_ne!(tag, OUTSIDE, "a tag is an epoch");
        debug_assert!(self.waiting.back().is_none_or(|&(last, _)| last <= tag), "epochs only grow");
        self.waiting.extend(self.untagged.drain(..).map(|thing| (tag, thing)));
        debug_assert!(self.untagged.is_empty(), "everything unlinked has a tag");
    }

    /// Takes the oldest thing if its epoch is at or below `safe`, which a scan has returned.
    #[inline]
    pub fn pop_due(&mut self, safe: u64) -> Option<T> {
        debug_assert!(self.waiting.front().map(|thing| thing.0) <= self.waiting.back().map(|thing| thing.0), "the oldest is first");
        match self.waiting.front() {
            Some(&(tag, _)) if tag <= safe => self.waiting.pop_front().map(|(_, thing)| thing),
            _ => None,
        }
    }

    /// Takes everything, due or not, in order. For a thread that ends and leaves the rest to others.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> {
        let (waiting, untagged) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.untagged));
        waiting.into_iter().map(|(_, thing)| thing).chain(untagged)
    }

    /// The tag of the oldest thing that has one. Before that epoch is over, no scan finds anything due.
    #[inline]
    #[must_use]
    pub fn oldest_epoch(&self) -> Option<u64> {
        self.waiting.front().map(|&(tag, _)| tag)
    }

    /// How many things there are, tagged or not.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len() + self.untagged.len()
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Epoch;

    #[test]
    fn things_are_due_in_order_once_their_batch_is_tagged_and_its_epoch_is_safe() {
        let epoch = Arc::new(Epoch::new(2));
        let (own, reader) = (epoch.register().unwrap(), epoch.register().unwrap());
        let mut deferred = Deferred::default();
        own.enter();
        reader.enter();
        deferred.push("a");
        deferred.push("b");
        epoch.bump();
        assert!(deferred.has_untagged() && deferred.oldest_epoch().is_none(), "nothing is tagged");
        assert_eq!(deferred.pop_due(u64::MAX), None);
        deferred.tag(epoch.current());
        own.leave();
        assert!(!deferred.oldest_epoch().is_none_or(|oldest| epoch.is_over(oldest)), "its epoch goes on");
        epoch.bump();
        assert!(deferred.oldest_epoch().is_some_and(|oldest| epoch.is_over(oldest)));
        assert_eq!(deferred.pop_due(epoch.safe()), None, "a reader is inside");
        reader.leave();
        deferred.push("c");
        deferred.tag(epoch.current());
        let safe = epoch.safe();
        assert_eq!([deferred.pop_due(safe), deferred.pop_due(safe), deferred.pop_due(safe)], [Some("a"), Some("b"), None]);
        assert_eq!(deferred.len(), 1);
        epoch.bump();
        assert_eq!(deferred.pop_due(epoch.safe()), Some("c"));
        assert!(deferred.is_empty());
    }
}
