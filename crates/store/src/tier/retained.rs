//! Space on the device that nothing uses any more, and that a base of the operation log may still name.
//!
//! INV-RETAIN-1: what is given up at some time goes back when a base is complete whose walk began behind that: until then a start
//! from the base before finds all pages that it names. Where no base is named and none is being written, which is so without a
//! log, it goes back at once.
//!
//! What is in no complete base is in the log: a start has it from there, whatever the device says by then.
//!
//! INV-LEASE-1: what a base with a *lease* names stays beyond that, until the lease ends: a backup copies it.

use super::extent::Extent;
use crate::log::{Log, PAGE_BYTES};
use almandine_base::step;
use almandine_io::storage::BLOCK_BYTES;
use almandine_io::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// All that a base names stays on the device as long as this has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLease {
    /// The walk of the base.
    number: u64,
    /// It names pages below this one.
    below: u64,
}

impl DeviceLease {
    /// For the base whose walk has this number and names records below this address.
    pub(crate) fn new(number: u64, below: u64) -> Self {
        debug_assert_ne!(number, 0, "INV-LEASE-1: a lease is one of a walk that has begun");
        Self { number, below: Log::page_of(below) }
    }

    /// Whether the base may name what was given up.
    fn covers(&self, space: &Space) -> bool {
        debug_assert!(space.bytes() >= PAGE_BYTES as u64, "INV-TIER-3: a page takes its space");
        space.since >= self.number && space.page < self.below
    }
}

/// See the module.
pub(crate) struct Retained {
    /// Walks of bases that have begun; changed under the lock.
    begun: AtomicU64,
    /// No complete base names a page from this one on; [`NONE_NAMED`] while there is none. Changed under the lock.
    named_below: AtomicU64,
    kept: Mutex<Kept>,
    bytes: AtomicU64,
    /// Of these, what only leases keep, or will keep when the next base is complete.
    leased_bytes: AtomicU64,
}

/// No base is complete that a start would begin with.
const NONE_NAMED: u64 = u64::MAX;

impl Default for Retained {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let (begun, named_below, bytes, leased_bytes) = (zero(), AtomicU64::new(NONE_NAMED), zero(), zero());
        Self { begun, named_below, kept: Mutex::default(), bytes, leased_bytes }
    }
}

#[derive(Default)]
struct Kept {
    /// In the order in which it was given up.
    spaces: VecDeque<Space>,
    /// A start may begin with a base.
    is_named: bool,
    /// Walks of bases that are under way.
    walks: u32,
    /// The last walk whose base is complete.
    complete: u64,
    leases: Vec<DeviceLease>,
}

impl Kept {
    /// Whether a base names what is there, or may come to do so.
    fn has_base(&self) -> bool {
        self.is_named || self.walks != 0
    }

    fn is_leased(&self, space: &Space) -> bool {
        self.leases.iter().any(|lease| lease.covers(space))
    }

    fn leased_bytes(&self) -> u64 {
        self.spaces.iter().filter(|space| self.is_leased(space)).map(Space::bytes).sum()
    }

    /// Takes out what was given up before the walk of the last complete base began, or all where no base needs it; but for what a
    /// lease covers.
    fn take_free(&mut self) -> Vec<Space> {
        debug_assert!(
            self.spaces.iter().is_sorted_by_key(|space| space.since),
            "INV-RETAIN-1: in the order in which it was given up"
        );
        let count = match self.has_base() {
            true => self.spaces.partition_point(|space| space.since < self.complete),
            false => self.spaces.len(),
        };
        let given_up: Vec<Space> = self.spaces.drain(..count).collect();
        let (leased, free) = given_up.into_iter().partition::<Vec<_>, _>(|space| self.is_leased(space));
        leased.into_iter().rev().for_each(|space| self.spaces.push_front(space));
        free
    }
}

impl Retained {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A start may begin with a base that is there, and names pages below this one.
    pub(crate) fn turn_on(&self, named_below: u64) {
        let mut kept = self.kept();
        debug_assert_eq!(kept.walks, 0, "INV-RETAIN-1: no base is written before that");
        kept.is_named = true;
        self.named_below.store(named_below, Ordering::SeqCst);
    }

    /// A base is about to be named: from now on a start may begin with one.
    pub(crate) fn begin_naming(&self) {
        let mut kept = self.kept();
        debug_assert_ne!(kept.walks, 0, "INV-RETAIN-1: what is named was walked through, and nothing of it has gone back");
        kept.is_named = true;
    }

    /// No start begins with a base any more: what only bases have kept goes back.
    pub(crate) fn turn_off(&self) -> Vec<Space> {
        let mut kept = self.kept();
        kept.is_named = false;
        self.named_below.store(NONE_NAMED, Ordering::SeqCst);
        self.take_free(&mut kept)
    }

    /// Whether a start has what is on a page from the log, and not from the page.
    pub(crate) fn is_in_log(&self, page: u64) -> bool {
        debug_assert_ne!(page, 0, "INV-LOG-1: no record is at address 0");
        page >= self.named_below.load(Ordering::SeqCst)
    }

    /// Takes the space of a page that is not in the table of pages any more; it comes back if nothing may name it.
    pub(crate) fn keep(&self, page: u64, extents: Vec<Extent>) -> Option<Space> {
        let mut space = Space { page, extents, since: 0 };
        debug_assert!(space.bytes() >= PAGE_BYTES as u64, "INV-TIER-3: a page takes its space");
        let retains = step!(RetainPages, true, else false);
        let mut kept = self.kept();
        // The page has left the table before: a walk that began before this may have seen it there, a later one has not.
        space.since = self.begun.load(Ordering::Relaxed);
        let is_needed = kept.has_base() || kept.is_leased(&space);
        if !(retains && is_needed) {
            return Some(space);
        }
        self.bytes.fetch_add(space.bytes(), Ordering::Relaxed);
        if kept.is_leased(&space) {
            self.leased_bytes.fetch_add(space.bytes(), Ordering::Relaxed);
        }
        kept.spaces.push_back(space);
        None
    }

    /// The walk of a base begins, before it looks at the table of pages; returns its number.
    pub(crate) fn begin_base(&self) -> u64 {
        let mut kept = self.kept();
        kept.walks += 1;
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert_ne!(number, 0, "INV-RETAIN-1: no space is given up before the first of zero walks");
        number
    }

    /// A base is complete and named, and names pages below this one: what was given up before its walk began goes back, but for
    /// what leases cover.
    pub(crate) fn complete_base(&self, number: u64, named_below: u64) -> Vec<Space> {
        let mut kept = self.kept();
        let before = self.named_below.load(Ordering::Relaxed);
        debug_assert_ne!(kept.walks, 0, "INV-RETAIN-1: a base ends that was begun");
        kept.walks = kept.walks.saturating_sub(1);
        kept.complete = kept.complete.max(number);
        // The log may have ended since.
        if kept.is_named {
            let now = if before == NONE_NAMED { named_below } else { before.max(named_below) };
            self.named_below.store(now, Ordering::SeqCst);
        }
        self.take_free(&mut kept)
    }

    /// A base will not be complete.
    pub(crate) fn give_base_up(&self) -> Vec<Space> {
        let mut kept = self.kept();
        debug_assert_ne!(kept.walks, 0, "INV-RETAIN-1: a base ends that was begun");
        kept.walks = kept.walks.saturating_sub(1);
        self.take_free(&mut kept)
    }

    /// What a base names stays from now on, which is the last complete one or is not complete yet.
    pub(crate) fn begin_lease(&self, lease: DeviceLease) {
        let holds = step!(HoldLease, true, else false);
        let mut kept = self.kept();
        debug_assert!(kept.complete <= lease.number, "INV-LEASE-1: nothing that the base names has gone back");
        kept.leases.extend(holds.then_some(lease));
        self.leased_bytes.store(kept.leased_bytes(), Ordering::Relaxed);
    }

    /// Ends a lease: what only it has kept goes back.
    pub(crate) fn end_lease(&self, lease: DeviceLease) -> Vec<Space> {
        let mut kept = self.kept();
        let place = kept.leases.iter().position(|other| *other == lease);
        debug_assert!(place.is_some() || kept.leases.is_empty(), "INV-LEASE-1: a lease ends once");
        place.map(|place| kept.leases.swap_remove(place));
        self.take_free(&mut kept)
    }

    fn take_free(&self, kept: &mut Kept) -> Vec<Space> {
        let free = kept.take_free();
        debug_assert!(!free.iter().any(|space| kept.is_leased(space)), "INV-LEASE-1: what is leased stays");
        self.bytes.fetch_sub(free.iter().map(Space::bytes).sum(), Ordering::Relaxed);
        self.leased_bytes.store(kept.leased_bytes(), Ordering::Relaxed);
        free
    }

    /// Bytes on the devices that are kept for bases.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Of these, bytes that the next base will not give back, because leases cover them.
    pub(crate) fn leased_bytes(&self) -> u64 {
        let bytes = self.leased_bytes.load(Ordering::Relaxed);
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES as u64), "INV-TIER-3: whole blocks are kept");
        bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// INV-RETAIN-1.
    #[test]
    fn space_goes_back_with_a_base_that_began_behind_it() {
        let retained = Retained::default();
        assert!(retained.keep(1, Vec::new()).is_some() && !retained.is_in_log(1), "no log");
        retained.turn_on(1);
        assert!(retained.keep(2, Vec::new()).is_none());
        let first = retained.begin_base();
        assert!(retained.keep(3, vec![Extent::from_word(7 << 24 | 2)]).is_none(), "the walk may have seen it");
        let second = retained.begin_base();
        assert_eq!(retained.bytes(), 2 * PAGE_BYTES as u64 + 8192);
        let pages = |freed: Vec<Space>| freed.iter().map(|space| space.page).collect::<Vec<_>>();
        assert!(retained.is_in_log(1) && retained.is_in_log(9));
        assert_eq!(pages(retained.complete_base(first, 9)), [2]);
        assert!(!retained.is_in_log(8) && retained.is_in_log(9));
        assert!(retained.keep(4, Vec::new()).is_none());
        assert_eq!(pages(retained.complete_base(second, 9)), [3]);
        assert_eq!(retained.bytes(), PAGE_BYTES as u64);
        let third = retained.begin_base();
        assert_eq!(pages(retained.complete_base(third, 9)), [4]);
    }

    /// INV-RETAIN-1.
    #[test]
    fn without_a_base_space_is_kept_while_one_is_written() {
        let retained = Retained::default();
        let pages = |freed: Vec<Space>| freed.iter().map(|space| space.page).collect::<Vec<_>>();
        let keeps = |page| retained.keep(page, Vec::new()).is_none();
        assert!(!keeps(1));
        retained.begin_base();
        assert!(keeps(2) && !retained.is_in_log(2));
        assert_eq!(pages(retained.give_base_up()), [2], "no start begins with it");
        assert!(!keeps(3));
        retained.begin_base();
        assert!(keeps(4));
        retained.begin_naming();
        assert_eq!(pages(retained.give_base_up()), [], "it may be named all the same");
        let third = retained.begin_base();
        assert!(keeps(5) && !retained.is_in_log(9));
        assert_eq!(pages(retained.complete_base(third, 9)), [4]);
        assert!(retained.is_in_log(9) && !retained.is_in_log(8));
        // The log ends while a base is written, which is complete then.
        let fourth = retained.begin_base();
        assert!(keeps(6));
        assert_eq!(pages(retained.turn_off()), [], "the walk may come to what was given up");
        assert_eq!(pages(retained.complete_base(fourth, 10)), [5, 6]);
        assert!(!keeps(7) && !retained.is_in_log(10) && retained.bytes() == 0);
        // A backup copies on what the log has named.
        let fifth = retained.begin_base();
        retained.begin_naming();
        assert_eq!(pages(retained.complete_base(fifth, 9)), []);
        let lease = DeviceLease::new(fifth, 8 * crate::log::PAGE_WORDS);
        retained.begin_lease(lease);
        assert!(keeps(2) && keeps(8));
        assert_eq!(pages(retained.turn_off()), [8]);
        assert!(keeps(3) && !keeps(9));
        assert_eq!(pages(retained.end_lease(lease)), [2, 3]);
    }

    /// INV-LEASE-1.
    #[test]
    fn what_a_leased_base_names_stays_until_the_lease_ends() {
        let retained = Retained::default();
        retained.turn_on(1);
        let pages = |freed: Vec<Space>| freed.iter().map(|space| space.page).collect::<Vec<_>>();
        let page = PAGE_BYTES as u64;
        assert!(retained.keep(1, Vec::new()).is_none());
        let first = retained.begin_base();
        assert!(retained.keep(2, Vec::new()).is_none(), "the walk may have seen it");
        let lease = DeviceLease::new(first, 8 * crate::log::PAGE_WORDS);
        retained.begin_lease(lease);
        assert_eq!((pages(retained.complete_base(first, 9)), retained.leased_bytes()), (vec![1], page));
        assert!(retained.keep(3, Vec::new()).is_none() && retained.keep(8, Vec::new()).is_none());
        assert_eq!((retained.bytes(), retained.leased_bytes()), (3 * page, 2 * page));
        let second = retained.begin_base();
        assert_eq!(pages(retained.complete_base(second, 9)), [8], "a page that came behind the leased base");
        assert!(retained.keep(4, Vec::new()).is_none());
        assert_eq!((retained.bytes(), retained.leased_bytes()), (3 * page, 3 * page));
        assert_eq!(pages(retained.end_lease(lease)), [2, 3], "and not what the last base may name");
        assert_eq!((retained.bytes(), retained.leased_bytes()), (page, 0));
        let third = retained.begin_base();
        assert_eq!(pages(retained.complete_base(third, 9)), [4]);
    }
}
