//! Glances at the buckets of keys that are about to be looked up, so that their misses overlap and the look-ups need not begin
//! anew.

use crate::index::entry::Entry;
use crate::index::{Glance, Index};
use crate::log::Log;
use crate::record::key::{GlanceId, Key};

/// Keys that are glanced at together, at most. Of more, what was fetched first would be gone again before it is used.
const GLANCES_MAX: usize = 4096;

/// The glances of a group of keys.
#[derive(Default)]
pub(in crate::session) struct Glances {
    list: Vec<Glance>,
    /// Those whose entry is not in the bucket's own line.
    overflowed: Vec<u16>,
}

impl Glances {
    /// What was seen of a key, when that is something.
    #[inline]
    pub(in crate::session) fn of(&self, key: &Key<'_>) -> Option<&Glance> {
        let glance = self.list.get(key.glance.index())?;
        debug_assert!(!glance.seen.is_exclusive() || glance.entry == Entry::EMPTY, "INV-READ-1: nothing is seen behind a writer");
        // The second is always so while keys are used for the group that they were expected for.
        (glance.entry != Entry::EMPTY && glance.hash == key.hash).then_some(glance)
    }

    /// What was seen of an expected key.
    #[inline]
    pub(in crate::session) fn seen(&self, id: GlanceId) -> Option<&Glance> {
        self.list.get(id.index()).filter(|glance| glance.entry != Entry::EMPTY && !glance.seen.is_exclusive())
    }

    /// What was seen of the key behind an expected one.
    #[inline]
    pub(in crate::session) fn behind(&self, id: GlanceId) -> Option<&Glance> {
        self.list.get(id.index().wrapping_add(1))
    }

    /// Forgets all keys.
    #[inline]
    pub(in crate::session) fn clear(&mut self) {
        self.list.clear();
    }

    /// How many keys are expected.
    #[inline]
    pub(in crate::session) fn len(&self) -> usize {
        self.list.len()
    }

    /// Asks the cache for a key's bucket.
    #[inline]
    pub(in crate::session) fn expect(&mut self, index: &Index, hash: u64) -> GlanceId {
        debug_assert!(self.list.len() <= GLANCES_MAX, "a group is bounded");
        let glance = index.expect(hash);
        if self.list.len() == GLANCES_MAX {
            return GlanceId::default();
        }
        self.list.push(glance);
        GlanceId::new(self.list.len() - 1)
    }

    /// Looks at the buckets of all keys and asks the cache for their records, as far as those are in memory for a session that
    /// saw `head`.
    #[inline]
    pub(in crate::session) fn look(&mut self, index: &Index, log: &Log, head: u64) {
        let Self { list, overflowed } = self;
        debug_assert!(list.iter().all(|glance| glance.entry == Entry::EMPTY), "a group is looked at once");
        overflowed.clear();
        // What is on the device has no line to ask for.
        let prefetch = |glance: &Glance| {
            if glance.entry.address() >= head {
                log.prefetch(glance.entry.address());
            }
        };
        for (glance, at) in list.iter_mut().zip(0..) {
            if index.glance(glance) {
                prefetch(glance);
            } else {
                overflowed.push(at);
            }
        }
        for &at in &*overflowed {
            let glance = &mut list[usize::from(at)];
            index.glance_further(glance);
            prefetch(glance);
        }
        let in_memory = |glance: &&Glance| glance.entry != Entry::EMPTY && glance.entry.address() >= head;
        // SAFETY: the address was read from the index in this epoch, and its page is in memory.
        let header = |glance: &Glance| unsafe { log.record(glance.entry.address()) }.header();
        // Keys that are used together are alike: where the first record is short, none is looked at for its further lines.
        if list.first().filter(in_memory).is_some_and(|glance| Log::has_further_lines(header(glance))) {
            list.iter().filter(in_memory).for_each(|glance| log.prefetch_further(glance.entry.address(), header(glance)));
        }
    }
}
