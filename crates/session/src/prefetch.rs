//! Step 2, *prefetch*: the records of a group's keys are on their way before the first command runs, so that misses overlap.

use almandine_keyspace::Accessor;

/// What is prefetched for one group; kept between groups for its memory.
#[derive(Default)]
pub(crate) struct Prefetch {
    /// Hashes of keys whose entry was not in its bucket's own cache line.
    overflowed: Vec<u64>,
}

impl Prefetch {
    /// Prefetches the records of these keys, whose buckets have been prefetched before.
    #[inline]
    pub(crate) fn records(&mut self, accessor: &Accessor, hashes: impl Iterator<Item = u64>) {
        self.overflowed.clear();
        for hash in hashes {
            if !accessor.prefetch_record(hash) {
                self.overflowed.push(hash);
            }
        }
        self.overflowed.iter().for_each(|hash| accessor.prefetch_overflow(*hash));
    }
}
