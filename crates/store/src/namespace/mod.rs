//! Namespaces: the part of a key's identity that says which database, and which generation of it.
//!
//! A database is a number above; here it is a namespace of 16 bits that every record carries. Emptying a database gives it
//! a fresh namespace in O(1): the old records are unreachable at once, a background sweep frees them, and only then is the old
//! number used again (INV-NS-1).

pub(crate) mod regions;

use crate::namespace::regions::Regions;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use almandine_io::sync::{Mutex, MutexGuard};

/// Namespace numbers.
pub(crate) const NAMESPACES: usize = 1 << 16;
/// The number that no namespace has.
pub(crate) const NO_NAMESPACE: u16 = 0;

/// Which namespaces are free, live or dropped.
pub(crate) struct Namespaces {
    dropped: Box<[AtomicU64]>,
    dropped_count: AtomicU64,
    lists: Mutex<Lists>,
    pub(crate) regions: Regions,
}

struct Lists {
    free: Vec<u16>,
    fresh: u32,
    dropped: Vec<u16>,
    /// While a base is written: swept ones, which it may have seen before.
    held: Option<Vec<u16>>,
}

impl Namespaces {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            dropped: (0..NAMESPACES / 64).map(|_| AtomicU64::new(0)).collect(),
            dropped_count: AtomicU64::new(0),
            lists: Mutex::new(Lists { free: Vec::new(), fresh: 1, dropped: Vec::new(), held: None }),
            regions: Regions::new()?,
        })
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A namespace without records; `None` while all others wait for the sweep.
    pub(crate) fn allocate(&self) -> Option<u16> {
        let mut lists = self.lists();
        debug_assert!(
            lists.free.last().is_none_or(|free| !self.is_dropped(*free)),
            "INV-NS-1: a namespace is used again only when it was swept"
        );
        lists.free.pop().or_else(|| {
            let number = u16::try_from(lists.fresh).ok()?;
            lists.fresh += 1;
            debug_assert_ne!(number, 0, "INV-NS-1: zero names no namespace");
            Some(number)
        })
    }

    /// Drops a namespace: its records are garbage.
    pub(crate) fn mark_dropped(&self, namespace: u16) {
        debug_assert_ne!(namespace, NO_NAMESPACE, "INV-NS-1: zero names no namespace");
        debug_assert!(!self.is_dropped(namespace), "INV-NS-1: a namespace is dropped once");
        self.dropped[usize::from(namespace) / 64].fetch_or(1 << (namespace % 64), Ordering::Release);
        self.dropped_count.fetch_add(1, Ordering::Release);
        self.lists().dropped.push(namespace);
    }

    #[inline]
    pub(crate) fn is_dropped(&self, namespace: u16) -> bool {
        self.dropped[usize::from(namespace) / 64].load(Ordering::Acquire) & (1 << (namespace % 64)) != 0
    }

    pub(crate) fn any_dropped(&self) -> bool {
        self.waiting() != 0
    }

    /// Namespaces that were dropped and not swept.
    pub(crate) fn waiting(&self) -> u64 {
        let waiting = self.dropped_count.load(Ordering::Acquire);
        debug_assert!(waiting <= u64::from(u16::MAX), "INV-NS-1: a namespace is dropped once, and swept once");
        waiting
    }

    /// The namespaces that a sweep that starts now will clear.
    pub(crate) fn take_dropped(&self) -> Vec<u16> {
        std::mem::take(&mut self.lists().dropped)
    }

    /// Keeps swept namespaces from being used again: some of their records could not be read, so they are still in the index.
    pub(crate) fn give_up(&self, swept: &[u16]) {
        debug_assert!(swept.iter().all(|namespace| self.is_dropped(*namespace)), "INV-NS-1: what is swept was dropped");
        self.dropped_count.fetch_sub(swept.len() as u64, Ordering::Release);
    }

    /// Returns swept namespaces for use.
    pub(crate) fn release(&self, swept: Vec<u16>) {
        debug_assert!(swept.iter().all(|namespace| self.is_dropped(*namespace)), "INV-NS-1: what is swept was dropped");
        debug_assert!(!self.lists().free.iter().any(|free| swept.contains(free)), "INV-NS-1: a number is free once");
        for &namespace in &swept {
            self.dropped[usize::from(namespace) / 64].fetch_and(!(1 << (namespace % 64)), Ordering::Release);
        }
        self.dropped_count.fetch_sub(swept.len() as u64, Ordering::Release);
        let mut lists = self.lists();
        let Lists { free, held, .. } = &mut *lists;
        held.as_mut().unwrap_or(free).extend(swept);
    }

    /// Whether namespaces are kept from being used again, because a base is written: it names records on the device by their
    /// addresses, and says at its end which namespaces databases have.
    pub(crate) fn hold(&self, hold: bool) {
        let mut lists = self.lists();
        debug_assert!(lists.held.iter().flatten().all(|held| !lists.free.contains(held)), "INV-NS-1: a number is free once");
        if hold {
            lists.held.get_or_insert_default();
        } else if let Some(held) = lists.held.take() {
            lists.free.extend(held);
        }
    }

    /// Takes namespaces that an earlier store had; all others are free. While there are no records.
    pub(crate) fn take(&self, namespaces: &[u16]) {
        let mut lists = self.lists();
        debug_assert!(!namespaces.contains(&NO_NAMESPACE), "INV-NS-1: zero names no namespace");
        let last = namespaces.iter().copied().max().unwrap_or(0);
        lists.fresh = u32::from(last) + 1;
        lists.free = (1..=last).filter(|namespace| !namespaces.contains(namespace)).collect();
    }
}
