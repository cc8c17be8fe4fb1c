//! Glances: a look at a key's bucket ahead of the look-up, which brings the record into the cache.
//!
//! A glance that sees an entry of the key's tag is the beginning of an optimistic read: the look-up goes on from the entry, and
//! validates the bucket as of the glance. One that sees none says nothing.

use super::bucket::{ENTRIES, OVERFLOW_ENTRIES, Seen};
use super::chain::Position;
use super::entry::{Entry, Tag};
use super::{Index, prefetch};
use crate::sync::Ordering;

/// What a glance has shown of a key.
#[derive(Clone, Copy)]
pub(crate) struct Glance {
    pub(crate) hash: u64,
    /// The bucket that the hash belonged to.
    pub(crate) number: u64,
    /// The bucket as it was before the entry was read.
    pub(crate) seen: Seen,
    /// The first entry with the key's tag; empty: none.
    pub(crate) entry: Entry,
    /// The overflow bucket that the entry lies in; 0: the bucket's own line.
    overflow: u32,
    /// Its place there.
    at: u32,
}

impl Index {
    /// Asks the cache for the bucket of `hash`, which is to be glanced at later.
    #[inline]
    pub(crate) fn expect(&self, hash: u64) -> Glance {
        let number = Self::bucket_of(hash, self.buckets.load(Ordering::Relaxed));
        debug_assert!(number < self.buckets_max, "INV-INDEX-1: a bucket within what is reserved");
        let bucket = self.bucket(number);
        prefetch(std::ptr::from_ref(bucket).cast());
        Glance { hash, number, seen: Seen::default(), entry: Entry::EMPTY, overflow: 0, at: 0 }
    }

    /// Looks at the bucket's own line, which has been asked for. False when the key may be in an overflow bucket: that is on
    /// its way then, and [`Index::glance_further`] looks there.
    #[inline]
    pub(crate) fn glance(&self, glance: &mut Glance) -> bool {
        let buckets = self.buckets.load(Ordering::Relaxed);
        debug_assert_eq!(glance.entry, Entry::EMPTY, "INV-READ-1: a glance is one look");
        let bucket = self.bucket(glance.number);
        let seen = bucket.peep();
        glance.seen = seen;
        // An index that shrank meanwhile has given the bucket's keys to another one.
        if seen.is_exclusive() || glance.number >= buckets {
            return true;
        }
        let matches = bucket.matches(Tag::new(glance.hash, Self::level(glance.number, buckets)), seen.has_short_tags());
        if matches != 0 {
            glance.at = matches.trailing_zeros();
            glance.entry = bucket.entry(glance.at);
            return true;
        }
        if seen.overflow() == 0 {
            return true;
        }
        prefetch(std::ptr::from_ref(self.overflow.at(seen.overflow())).cast());
        false
    }

    /// Looks at the first overflow bucket, which [`Index::glance`] has asked for.
    #[inline]
    pub(crate) fn glance_further(&self, glance: &mut Glance) {
        debug_assert_eq!(glance.entry, Entry::EMPTY, "looked at further only when the first look found nothing");
        let buckets = self.buckets.load(Ordering::Relaxed);
        if glance.number >= buckets || glance.seen.overflow() == 0 {
            return;
        }
        let tag = Tag::new(glance.hash, Self::level(glance.number, buckets));
        for (cell, at) in self.overflow.at(glance.seen.overflow()).entries.iter().zip(0..) {
            let entry = Entry(cell.load(Ordering::Acquire));
            if entry.matches(tag, glance.seen.has_short_tags()) {
                (glance.entry, glance.overflow, glance.at) = (entry, glance.seen.overflow(), at);
                return;
            }
        }
    }

    /// Where the entry was seen.
    #[inline]
    pub(crate) fn position(&self, glance: &Glance) -> Position<'_> {
        debug_assert_ne!(glance.entry, Entry::EMPTY, "only what was seen has a place");
        let at = glance.at as usize;
        Position(match glance.overflow {
            0 => &self.bucket(glance.number).entries[at % ENTRIES],
            overflow => &self.overflow.at(overflow).entries[at % OVERFLOW_ENTRIES],
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_glance_sees_the_key_of_its_tag_until_the_bucket_changes() {
        let index = Index::new(5000, 5000).unwrap();
        let hash = 0x1234_5678_9ABC_DEF0;
        let look = || {
            let mut glance = index.expect(hash);
            if !index.glance(&mut glance) {
                index.glance_further(&mut glance);
            }
            glance
        };
        assert_eq!(look().entry, Entry::EMPTY);
        let latch = index.lock_exclusive(hash);
        let number = latch.number();
        let own = Entry::new(index.tag(number, hash), 5000);
        // Others fill the bucket's own line: the key comes to lie in an overflow bucket.
        for other in 1..=ENTRIES as u64 {
            index.insert(number, Entry::new(index.tag(number, !hash), 4000 + other)).unwrap();
        }
        index.insert(number, own).unwrap();
        assert_eq!(look().entry, Entry::EMPTY, "a writer is inside");
        drop(latch);
        let glance = look();
        assert_eq!((glance.entry, glance.number, index.position(&glance).entry()), (own, number, own));
        assert!(index.bucket(number).validate(glance.seen) && index.bucket(number).is_version_of(glance.seen));
        let latch = index.lock_exclusive(hash);
        assert!(!index.bucket(number).validate(glance.seen) && index.bucket(number).is_version_of(glance.seen));
        drop(latch);
        assert!(!index.bucket(number).validate(glance.seen) && !index.bucket(number).is_version_of(glance.seen));
    }
}
