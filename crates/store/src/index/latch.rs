//! Latches as guards: a bucket is released when its guard goes, also after an early return or a panic.

use super::bucket::Bucket;

/// The exclusive latch of one bucket, held for as long as this exists.
pub(crate) struct ExclusiveLatch<'i> {
    bucket: &'i Bucket,
    number: u64,
}

/// A shared hold of one bucket, for as long as this exists.
pub(crate) struct SharedLatch<'i> {
    bucket: &'i Bucket,
    number: u64,
}

impl<'i> ExclusiveLatch<'i> {
    #[inline]
    pub(super) fn take(bucket: &'i Bucket, number: u64) -> Self {
        bucket.lock_exclusive();
        debug_assert!(bucket.is_latched_exclusively(), "INV-LATCH-1: a guard proves a hold");
        Self { bucket, number }
    }

    /// The latch, unless another holder has to be waited for and `gives_up` says so then.
    #[inline]
    pub(super) fn take_unless(bucket: &'i Bucket, number: u64, gives_up: impl FnMut() -> bool) -> Option<Self> {
        bucket.lock_unless(true, gives_up).then(|| Self { bucket, number })
    }

    /// The bucket's number.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Keeps the bucket latched. The keeper of its number releases it.
    #[inline]
    pub(crate) fn keep(self) -> u64 {
        std::mem::ManuallyDrop::new(self).number
    }
}

impl Drop for ExclusiveLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.bucket.is_latched_exclusively(), "INV-LATCH-1: released holds were taken");
        self.bucket.unlock_exclusive();
    }
}

impl<'i> SharedLatch<'i> {
    #[inline]
    pub(super) fn take(bucket: &'i Bucket, number: u64) -> Self {
        bucket.lock_shared();
        debug_assert!(bucket.is_latched_shared(), "INV-LATCH-1: a guard proves a hold");
        Self { bucket, number }
    }

    /// A hold, if it is free at once.
    #[inline]
    pub(super) fn attempt(bucket: &'i Bucket, number: u64) -> Option<Self> {
        bucket.try_lock_shared().then(|| Self { bucket, number })
    }

    /// A shared hold, unless another holder has to be waited for and `gives_up` says so then.
    #[inline]
    pub(super) fn take_unless(bucket: &'i Bucket, number: u64, gives_up: impl FnMut() -> bool) -> Option<Self> {
        bucket.lock_unless(false, gives_up).then(|| Self { bucket, number })
    }

    /// The bucket's number.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Keeps the hold. The keeper of the bucket's number releases it.
    #[inline]
    pub(crate) fn keep(self) -> u64 {
        std::mem::ManuallyDrop::new(self).number
    }
}

impl Drop for SharedLatch<'_> {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.bucket.is_latched_shared(), "INV-LATCH-1: released holds were taken");
        self.bucket.unlock_shared();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_fails_leaves_no_trace() {
        let bucket = Bucket::new();
        let exclusive = ExclusiveLatch::take(&bucket, 3);
        assert!(SharedLatch::attempt(&bucket, 3).is_none());
        assert!(bucket.is_latched_exclusively());
        drop(exclusive);
        assert!(!bucket.is_latched());
        let shared = SharedLatch::attempt(&bucket, 3).expect("nobody holds it");
        assert!(bucket.is_latched() && !bucket.is_latched_exclusively() && shared.number() == 3);
        let other = SharedLatch::attempt(&bucket, 3).expect("readers share it");
        drop(shared);
        assert!(bucket.is_latched());
        drop(other);
        assert!(!bucket.is_latched());
    }
}
