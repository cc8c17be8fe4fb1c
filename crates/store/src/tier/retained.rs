//! Space on the device that nothing uses any more, and that a base of the operation log may still name.
//!
//! INV-RETAIN-1: what is given up at some time goes back when a base is complete whose walk began behind that: until then a start
//! from the base before finds all pages that it names. Without a log it goes back at once.

use super::extent::Extent;
use crate::log::PAGE_BYTES;
use almandine_base::step;
use almandine_io::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The space of a page that was given up.
pub(crate) struct Space {
    pub(crate) page: u64,
    pub(crate) extents: Vec<Extent>,
    /// How many walks of bases had begun.
    since: u64,
}

impl Space {
    fn bytes(&self) -> u64 {
        PAGE_BYTES as u64 + self.extents.iter().map(|extent| extent.bytes() as u64).sum::<u64>()
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Retained {
    on: AtomicBool,
    /// Walks of bases that have begun.
    begun: AtomicU64,
    /// In the order in which it was given up.
    spaces: Mutex<VecDeque<Space>>,
    bytes: AtomicU64,
}

impl Retained {
    fn spaces(&self) -> MutexGuard<'_, VecDeque<Space>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on space is kept for bases.
    pub(crate) fn turn_on(&self) {
        self.on.store(true, Ordering::SeqCst);
    }

    /// Takes the space of a page that is not in the table of pages any more; it comes back if nothing may name it.
    pub(crate) fn keep(&self, page: u64, extents: Vec<Extent>) -> Option<Space> {
        let mut space = Space { page, extents, since: 0 };
        debug_assert!(space.bytes() >= PAGE_BYTES as u64, "INV-TIER-3: a page takes its space");
        if !step!(RetainPages, self.on.load(Ordering::SeqCst), else false) {
            return Some(space);
        }
        let mut spaces = self.spaces();
        // The page has left the table before: a walk that began before this load may have seen it there, a later one has not.
        space.since = self.begun.load(Ordering::SeqCst);
        self.bytes.fetch_add(space.bytes(), Ordering::Relaxed);
        spaces.push_back(space);
        None
    }

    /// The walk of a base begins, before it looks at the table of pages; returns its number.
    pub(crate) fn begin_base(&self) -> u64 {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        debug_assert_ne!(number, 0, "INV-RETAIN-1: no space is given up before the first of zero walks");
        number
    }

    /// A base is complete and named: what was given up before its walk began goes back.
    pub(crate) fn complete_base(&self, number: u64) -> Vec<Space> {
        let mut spaces = self.spaces();
        debug_assert!(spaces.iter().is_sorted_by_key(|space| space.since), "INV-RETAIN-1: in the order in which it was given up");
        let count = spaces.partition_point(|space| space.since < number);
        let free: Vec<Space> = spaces.drain(..count).collect();
        self.bytes.fetch_sub(free.iter().map(Space::bytes).sum(), Ordering::Relaxed);
        free
    }

    /// Bytes on the devices that are kept for bases.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// INV-RETAIN-1.
    #[test]
    fn space_goes_back_with_a_base_that_began_behind_it() {
        let retained = Retained::default();
        assert!(retained.keep(1, Vec::new()).is_some(), "no log");
        retained.turn_on();
        assert!(retained.keep(2, Vec::new()).is_none());
        let first = retained.begin_base();
        assert!(retained.keep(3, vec![Extent::from_word(7 << 24 | 2)]).is_none(), "the walk may have seen it");
        let second = retained.begin_base();
        assert_eq!(retained.bytes(), 2 * PAGE_BYTES as u64 + 8192);
        let pages = |freed: Vec<Space>| freed.iter().map(|space| space.page).collect::<Vec<_>>();
        assert_eq!(pages(retained.complete_base(first)), [2]);
        assert!(retained.keep(4, Vec::new()).is_none());
        assert_eq!(pages(retained.complete_base(second)), [3]);
        assert_eq!(retained.bytes(), PAGE_BYTES as u64);
        let third = retained.begin_base();
        assert_eq!(pages(retained.complete_base(third)), [4]);
    }
}
