//! Which namespace of the store each database is, and which database a namespace is, both in O(1): changes are told with their
//! databases while their keys are latched, and there may be thousands of databases.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// In place of a namespace while its database is being swapped.
const SWAPPING: u32 = u32::MAX;
/// Namespaces that the store can have.
const NAMESPACES: usize = 1 << 16;

/// The namespaces of all databases.
pub(crate) struct Namespaces {
    of: Box<[AtomicU32]>,
    /// The last database of each namespace: it has that namespace still if `of` says so.
    databases: Box<[AtomicU16]>,
    /// How many swaps there were.
    swaps: AtomicU64,
}

impl Namespaces {
    /// Databases with these namespaces.
    pub(crate) fn new(of: &[u16]) -> Self {
        let namespaces = Self {
            of: of.iter().map(|&namespace| AtomicU32::new(namespace.into())).collect(),
            databases: (0..NAMESPACES).map(|_| AtomicU16::new(0)).collect(),
            swaps: AtomicU64::new(0),
        };
        for (db, &namespace) in (0..).zip(of) {
            namespaces.databases[usize::from(namespace)].store(db, Ordering::Relaxed);
        }
        namespaces
    }

    /// How many databases there are.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// The namespace of a database, within a batch: none is swapped meanwhile (INV-NS-2).
    #[inline]
    pub(crate) fn namespace(&self, db: u16) -> u16 {
        let namespace = self.of[usize::from(db)].load(Ordering::Acquire);
        debug_assert_ne!(namespace, SWAPPING, "INV-NS-2: who swaps databases is alone");
        namespace as u16
    }

    /// The namespace of a database, for a thread that need not be in a batch; waits while the database is being swapped.
    pub(crate) fn settled(&self, db: u16) -> u16 {
        loop {
            let namespace = self.of[usize::from(db)].load(Ordering::Acquire);
            if namespace != SWAPPING {
                return namespace as u16;
            }
            almandine_io::thread::yield_now();
        }
    }

    /// The database that consists of a namespace; none when that was emptied. For a thread that need not be in a batch.
    pub(crate) fn database(&self, namespace: u16) -> Option<u16> {
        loop {
            let swaps = self.swaps.load(Ordering::Acquire);
            let db = self.databases[usize::from(namespace)].load(Ordering::Acquire);
            if self.settled(db) == namespace {
                return Some(db);
            }
            // A swap may have moved it between both loads.
            if self.swaps.load(Ordering::Acquire) == swaps {
                return None;
            }
        }
    }

    /// A database consists of an empty namespace from now on. Returns the one that it had.
    pub(crate) fn replace(&self, db: u16, namespace: u16) -> u16 {
        self.databases[usize::from(namespace)].store(db, Ordering::Release);
        let before = self.of[usize::from(db)].swap(namespace.into(), Ordering::AcqRel);
        debug_assert_ne!(before, SWAPPING, "INV-NS-2: who changes databases is alone");
        before as u16
    }

    /// Swaps two databases: a thread that has seen one of them swapped does not see the other one not yet swapped.
    pub(crate) fn swap(&self, left: u16, right: u16) {
        debug_assert_ne!(left, right, "INV-NS-2: a database is not swapped with itself, or it would never have a namespace again");
        let was_left = self.of[usize::from(left)].swap(SWAPPING, Ordering::AcqRel);
        let was_right = self.of[usize::from(right)].swap(SWAPPING, Ordering::AcqRel);
        // Before the namespaces are seen again, and counted between: `database` reads them behind the table, and finds a swap
        // that came between both reads.
        self.databases[was_left as usize].store(right, Ordering::Release);
        self.databases[was_right as usize].store(left, Ordering::Release);
        self.swaps.fetch_add(1, Ordering::AcqRel);
        self.of[usize::from(left)].store(was_right, Ordering::Release);
        self.of[usize::from(right)].store(was_left, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_namespace_leads_to_its_database_until_that_is_emptied() {
        let namespaces = Namespaces::new(&[7, 8, 9]);
        assert_eq!([7, 8, 9, 10, 0].map(|namespace| namespaces.database(namespace)), [Some(0), Some(1), Some(2), None, None]);
        assert_eq!(namespaces.replace(1, 10), 8);
        namespaces.swap(0, 1);
        assert_eq!([7, 8, 9, 10].map(|namespace| namespaces.database(namespace)), [Some(1), None, Some(2), Some(0)]);
    }

    /// Whatever is swapped meanwhile, a namespace that some database has is found.
    #[test]
    fn a_namespace_is_found_while_databases_are_swapped() {
        const SWAPS: u64 = 200_000;
        let namespaces = Namespaces::new(&[7, 8, 9]);
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| (0..SWAPS).for_each(|swap| namespaces.swap(0, 1 + (swap % 2) as u16)));
            while !swapping.is_finished() {
                assert!([7, 8, 9].iter().all(|namespace| namespaces.database(*namespace).is_some()));
            }
        });
    }

    /// A thread that has seen the second database swapped sees the first one swapped, outside of batches too.
    #[test]
    fn a_swap_is_seen_of_both_databases_at_once() {
        const SWAPS: u64 = 200_000;
        let namespaces = Namespaces::new(&[1, 2]);
        let begun = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=SWAPS {
                    begun.store(number, Ordering::SeqCst);
                    namespaces.swap(0, 1);
                }
            });
            loop {
                let number = begun.load(Ordering::SeqCst);
                let (right, left) = (namespaces.settled(1), namespaces.settled(0));
                if begun.load(Ordering::SeqCst) == number && number > 0 {
                    // What the second one has got and the first one has not yet given away.
                    let moved = if number.is_multiple_of(2) { 2 } else { 1 };
                    assert!(!(right == moved && left == moved), "swap {number}");
                }
                if number == SWAPS {
                    break;
                }
            }
        });
        assert_eq!([namespaces.settled(0), namespaces.settled(1)], [1, 2]);
    }
}
