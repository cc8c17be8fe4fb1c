//! The order of units of work: each takes one number, at its end.
//!
//! All changes are made, the latches of the changed keys are still held, the thread is inside the memory epoch, and nothing is
//! left to do but to publish. The number is greater than those that the keys' *stripes* have, which are the greatest numbers of
//! the units that changed a key of the stripe; than the last one of the thread; and it belongs to the *commit epoch* as it is
//! behind all of these. So numbers ascend per key and per thread, and whatever saw something of a unit, in whatever way, has a
//! number of the same commit epoch or a later one: the units of all commit epochs up to one are a causally closed cut.
//!
//! ```text
//! unit U, changes of x made, latch of x held        unit V, latches x behind U
//!  u1  s = stripe of x                               v1  s = stripe of x, sees u4
//!  u2  e = commit epoch          (acquire)           v2  e = commit epoch, not before that of u2
//!  u3  number = max(s, last, e << 18) + 1            v3  number > that of U
//!  u4  stripe of x = max(stripe, number)  (release)  ...
//!  u5  publishes
//!  u6  releases the latch of x
//! ```
//!
//! u1 comes before u2, or a stripe could be of a later epoch than the number. The count within an epoch never carries into the
//! epoch: a thread that finds it half used begins the next epoch first.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};
use crate::unit::{EPOCH_SHIFT, epoch_of};
use almandine_base::step;

/// Stripes of hashes: neighbours share the greatest number.
const STRIPES: usize = if cfg!(loom) { 2 } else { 1 << 16 };
/// Numbers of a commit epoch after which the next one begins. As many again are left for threads that have seen the old one.
const COUNT_MAX: u64 = 1 << (EPOCH_SHIFT - 1);

/// What a unit asks a number for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'u> {
    /// Hashes of the keys that it has changed.
    pub changed: &'u [u64],
    /// Hashes of keys that it may have read.
    pub used: &'u [u64],
    /// A number that its own is greater than: the last one of its thread, or of its connection.
    pub after: u64,
    /// Whether it has changed what databases consist of.
    pub databases: bool,
}

/// Where units of work take their numbers.
pub struct Order {
    stripes: Box<[AtomicU64; STRIPES]>,
    /// The greatest number of the units that changed what databases consist of.
    databases: AtomicU64,
    /// Read by every unit, written some times a second.
    epoch: CachePadded<AtomicU64>,
}

impl Default for Order {
    fn default() -> Self {
        let stripes: Box<[AtomicU64]> = (0..STRIPES).map(|_| AtomicU64::new(0)).collect();
        Self {
            stripes: stripes.try_into().unwrap_or_else(|_| unreachable!("there are as many stripes as are made")),
            databases: AtomicU64::new(0),
            epoch: CachePadded::new(AtomicU64::new(1)),
        }
    }
}

impl Order {
    /// Takes the number of a unit.
    ///
    /// The caller holds the latches of the keys that it has changed, and is inside the memory epoch until it has published.
    #[inline]
    pub fn take(&self, asked: Asked<'_>) -> u64 {
        match *asked.changed {
            // What nearly all units are.
            [hash] if asked.used.is_empty() && !asked.databases => self.take_of_one(hash, asked.after),
            _ => self.take_of_all(asked),
        }
    }

    /// As [`Order::take`], for a unit that has changed one key, has read no other, and comes behind the number `after`.
    #[inline(always)]
    pub fn take_of_one(&self, hash: u64, after: u64) -> u64 {
        let stripe = self.stripe(hash);
        let last = step!(AskStripes, stripe.load(Ordering::Acquire), else 0);
        let number = self.behind(after.max(self.databases.load(Ordering::Acquire)).max(last));
        // The number is greater than the last one, so this is a maximum, unless a neighbour has come between.
        if stripe.compare_exchange(last, number, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            stripe.fetch_max(number, Ordering::AcqRel);
        }
        number
    }

    #[inline(never)]
    fn take_of_all(&self, asked: Asked<'_>) -> u64 {
        let mut greatest = asked.after.max(self.databases.load(Ordering::Acquire));
        step!(AskStripes, {
            for hash in asked.changed.iter().chain(asked.used) {
                greatest = greatest.max(self.last(*hash));
            }
        });
        let number = self.behind(greatest);
        for &hash in asked.changed {
            self.stripe(hash).fetch_max(number, Ordering::AcqRel);
        }
        if asked.databases {
            self.databases.fetch_max(number, Ordering::AcqRel);
        }
        number
    }

    /// The next number behind the greatest that a unit depends on.
    #[inline]
    fn behind(&self, greatest: u64) -> u64 {
        // Behind the stripes: what they have is of this epoch or an earlier one.
        let mut epoch = self.epoch.load(Ordering::Acquire);
        debug_assert!(epoch_of(greatest) <= epoch, "INV-ORDER-1: the epoch of a number had begun when it was taken");
        if greatest.max(epoch << EPOCH_SHIFT) - (epoch << EPOCH_SHIFT) >= COUNT_MAX {
            epoch = self.next_epoch(epoch);
        }
        let number = greatest.max(epoch << EPOCH_SHIFT) + 1;
        debug_assert_eq!(epoch_of(number), epoch, "INV-ORDER-1: the count of numbers never carries into the epoch");
        number
    }

    /// The count of an epoch is half used: the next one has begun, or begins.
    #[cold]
    fn next_epoch(&self, epoch: u64) -> u64 {
        self.epoch.fetch_max(epoch + 1, Ordering::AcqRel);
        self.epoch.load(Ordering::Acquire)
    }

    /// The number of the last unit that has changed a key of this hash, or a neighbour.
    #[must_use]
    pub fn last(&self, hash: u64) -> u64 {
        self.stripe(hash).load(Ordering::Acquire)
    }

    /// The number of the last unit that has changed what databases consist of. While no other thread changes that, which is done
    /// alone: within a batch.
    #[must_use]
    pub fn last_of_databases(&self) -> u64 {
        self.databases.load(Ordering::Acquire)
    }

    /// Asks the cache for what a unit that changes a key of this hash looks up.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        #[cfg(not(loom))]
        almandine_io::mapping::prefetch(self.stripe(hash));
        #[cfg(loom)]
        let _ = hash;
    }

    /// A number that is not below that of any unit whose changes of a key of this hash a look at it has met, or of what databases
    /// consist of. Asked behind the look.
    #[must_use]
    pub fn seen(&self, hash: u64) -> u64 {
        self.last(hash).max(self.databases.load(Ordering::Acquire))
    }

    /// The commit epoch of the units that take a number now.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Begins the next commit epoch, and returns the one that ends. It is closed when the memory epoch has drained since.
    pub fn begin_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel)
    }

    /// Goes on from an earlier run: the commit epoch is at least this one.
    pub fn begin_at(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    #[inline]
    fn stripe(&self, hash: u64) -> &AtomicU64 {
        // The low bits choose the bucket; these are as good.
        &self.stripes[(hash >> 32) as usize % STRIPES]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The hash of a key in this stripe.
    fn of(stripe: u64) -> u64 {
        stripe << 32
    }

    /// INV-ORDER-1.
    #[test]
    fn numbers_ascend_per_key_thread_and_what_was_read() {
        let order = Order::default();
        let first = order.take(Asked { changed: &[of(1)], ..Asked::default() });
        assert_eq!((epoch_of(first), order.last(of(1)), order.last(of(2))), (1, first, 0));
        let elsewhere = order.take(Asked { changed: &[of(2)], ..Asked::default() });
        assert_eq!(elsewhere, first, "units that do not meet may have one number");
        let second = order.take(Asked { changed: &[of(1), of(3)], ..Asked::default() });
        assert!(second > first);
        let reader = order.take(Asked { changed: &[of(4)], used: &[of(3)], ..Asked::default() });
        assert!(reader > second && order.last(of(3)) == second, "who reads raises nothing");
        let later = order.take(Asked { after: reader, ..Asked::default() });
        assert!(later > reader);
        let swap = order.take(Asked { after: later, databases: true, ..Asked::default() });
        assert_eq!((order.seen(of(9)), order.seen(of(3))), (swap, swap), "a look depends on the databases, too");
        assert!(order.take(Asked { changed: &[of(9)], ..Asked::default() }) > swap, "all see the databases");
    }

    #[test]
    fn an_epoch_is_begun_and_never_carried_into() {
        let order = Order::default();
        order.begin_at(7);
        assert_eq!((order.epoch(), order.begin_epoch(), order.epoch()), (8 - 1, 7, 8));
        order.begin_at(3);
        let mut last = 0;
        for taken in 0..3 * COUNT_MAX {
            let number = order.take(Asked { changed: &[of(5)], after: last, ..Asked::default() });
            assert!(number > last, "{taken}");
            last = number;
        }
        assert_eq!(epoch_of(last), 8 + 2);
        assert!(last & ((1 << EPOCH_SHIFT) - 1) <= COUNT_MAX + 1);
    }
}
