//! A long array of index cells in reserved memory: zeroed, resident where touched, released by range.
//!
//! Under the model checker, whose atomics are not plain words, it is an ordinary short array.

use std::io;

#[cfg(not(loom))]
mod reserved {
    use super::io;
    use almandine_io::memory::{HUGE_PAGE_BYTES, Reservation};
    use std::marker::PhantomData;

    /// What may lie in zeroed memory: only atomics of plain words.
    pub(in crate::index) trait Zeroed {}
    impl Zeroed for crate::index::bucket::Bucket {}
    impl Zeroed for crate::index::bucket::OverflowBucket {}

    pub(in crate::index) struct Table<T> {
        memory: Reservation,
        len: u64,
        kind: PhantomData<T>,
    }

    impl<T: Zeroed> Table<T> {
        pub(in crate::index) fn new(len: u64) -> io::Result<Self> {
            let memory = Reservation::new(usize::try_from(len).map_err(io::Error::other)?.saturating_mul(size_of::<T>()))?;
            debug_assert_eq!(HUGE_PAGE_BYTES % size_of::<T>(), 0, "elements do not straddle pages");
            let len = (memory.bytes() / size_of::<T>()) as u64;
            Ok(Self { memory, len, kind: PhantomData })
        }

        pub(in crate::index) fn len(&self) -> u64 {
            self.len
        }

        #[inline]
        pub(in crate::index) fn at(&self, number: u64) -> &T {
            debug_assert!(number < self.len, "INV-INDEX-1: a bucket within the reserved ones");
            // SAFETY: the reservation is zeroed memory of `len` cells, zeroes are a valid cell (`Zeroed`), and all access to
            // it is atomic. Callers pass numbers that were handed out, all below `len`.
            unsafe { &*self.memory.base().as_ptr().cast::<T>().add(number as usize) }
        }

        /// Makes `from..to` resident ahead of use.
        pub(in crate::index) fn prefault(&self, from: u64, to: u64) {
            let to = to.min(self.len);
            if from < to {
                self.memory.prefault(from as usize * size_of::<T>(), (to - from) as usize * size_of::<T>());
            }
        }

        /// Gives the whole huge pages inside `from..to` back to the system.
        pub(in crate::index) fn release(&self, from: u64, to: u64) {
            debug_assert!(from <= self.len, "what is given back was reserved");
            let per_page = (HUGE_PAGE_BYTES / size_of::<T>()) as u64;
            let (first, last) = (from.div_ceil(per_page), to.min(self.len) / per_page);
            if first < last {
                self.memory.release(first as usize * HUGE_PAGE_BYTES, (last - first) as usize * HUGE_PAGE_BYTES);
            }
        }
    }
}

#[cfg(not(loom))]
pub(super) use reserved::Table;

#[cfg(loom)]
pub(super) struct Table<T>(Box<[T]>);

#[cfg(loom)]
impl Table<super::bucket::Bucket> {
    pub(super) fn new(_len: u64) -> io::Result<Self> {
        Ok(Self((0..4).map(|_| super::bucket::Bucket::new()).collect()))
    }
}

#[cfg(loom)]
impl Table<super::bucket::OverflowBucket> {
    pub(super) fn new(_len: u64) -> io::Result<Self> {
        Ok(Self((0..6).map(|_| super::bucket::OverflowBucket::new()).collect()))
    }
}

#[cfg(loom)]
impl<T> Table<T> {
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn at(&self, number: u64) -> &T {
        &self.0[number as usize]
    }

    pub(super) fn prefault(&self, _from: u64, _to: u64) {}

    pub(super) fn release(&self, _from: u64, _to: u64) {}
}
