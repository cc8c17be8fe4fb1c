//! A set of offsets as ranges that neither overlap nor touch: what a device holds, and so what it takes.
//!
//! A log makes few ranges, because it writes in order and discards in large pieces. Both cost a step per range touched.

use std::collections::BTreeMap;

/// Begins and ends, and their sum.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ranges {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// Adds a range; says how many of its bytes were not in the set.
    pub(crate) fn insert(&mut self, begin: u64, end: u64) -> u64 {
        if begin >= end {
            return 0;
        }
        let (mut first, mut last, mut had) = (begin, end, 0);
        // From the right, because a range that begins further left may still reach into this one.
        while let Some((&b, &e)) = self.ends.range(..=end).next_back() {
            if e < begin {
                break;
            }
            self.ends.remove(&b);
            had += e.min(end).saturating_sub(b.max(begin));
            (first, last) = (first.min(b), last.max(e));
        }
        self.ends.insert(first, last);
        debug_assert!(had <= end - begin, "ranges do not overlap, so none counts twice");
        debug_assert!(first <= begin && end <= last && self.is_apart(first, last), "ranges that touch are one");
        let new = end - begin - had;
        self.bytes += new;
        new
    }

    /// Removes a range; says how many of its bytes were in the set.
    pub(crate) fn remove(&mut self, begin: u64, end: u64) -> u64 {
        let mut had = 0;
        while let Some((&b, &e)) = self.ends.range(..end).next_back() {
            if e <= begin || begin >= end {
                break;
            }
            self.ends.remove(&b);
            had += e.min(end) - b.max(begin);
            if e > end {
                self.ends.insert(end, e);
            }
            if b < begin {
                self.ends.insert(b, begin);
                break;
            }
        }
        debug_assert!(had <= end.saturating_sub(begin) && had <= self.bytes, "no more is removed than was there");
        debug_assert!(!self.touches(begin, end), "nothing of the range is left");
        self.bytes -= had;
        debug_assert_eq!(self.bytes == 0, self.ends.is_empty(), "the sum is that of the ranges");
        had
    }

    /// Whether no other range overlaps or touches one that is in the set.
    fn is_apart(&self, begin: u64, end: u64) -> bool {
        self.ends.get(&begin) == Some(&end)
            && self.ends.range(..begin).next_back().is_none_or(|(_, e)| *e < begin)
            && self.ends.range(begin + 1..=end).next().is_none()
    }

    /// The end of the range that holds this offset.
    pub(crate) fn held_until(&self, offset: u64) -> Option<u64> {
        self.ends.range(..=offset).next_back().map(|(_, e)| *e).filter(|e| *e > offset)
    }

    /// The first range at or after an offset, without what lies before the offset.
    pub(crate) fn next(&self, offset: u64) -> Option<(u64, u64)> {
        match self.held_until(offset) {
            Some(end) => Some((offset, end)),
            None => self.ends.range(offset..).next().map(|(b, e)| (*b, *e)),
        }
    }

    /// What is in this set and not in another.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (begin, end) in other.iter() {
            rest.remove(begin, end);
        }
        debug_assert!(rest.bytes <= self.bytes && rest.bytes + other.bytes >= self.bytes, "each byte is in the other set or stays");
        rest
    }

    /// Whether all of a range is in the set.
    pub(crate) fn contains(&self, begin: u64, end: u64) -> bool {
        begin >= end || self.held_until(begin).is_some_and(|e| e >= end)
    }

    /// Whether any of a range is in the set.
    pub(crate) fn touches(&self, begin: u64, end: u64) -> bool {
        begin < end && self.ends.range(..end).next_back().is_some_and(|(_, e)| *e > begin)
    }

    /// Bytes in the set.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends.iter().map(|(b, e)| (*b, *e))
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut set = Self::default();
        for (begin, end) in ranges {
            set.insert(begin, end);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_bitmap() {
        let (mut ranges, mut bits, mut seed) = (Ranges::default(), [false; 64], 7_u64);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (begin, length) = ((seed >> 40) as usize % 64, (seed >> 50) as usize % 12);
            let end = (begin + length).min(64);
            let add = seed >> 63 == 0;
            let changed = bits[begin..end].iter().filter(|bit| **bit != add).count() as u64;
            bits[begin..end].fill(add);
            let said = if add { ranges.insert(begin as u64, end as u64) } else { ranges.remove(begin as u64, end as u64) };
            assert_eq!(said, changed);
            assert_eq!(ranges.bytes(), bits.iter().filter(|bit| **bit).count() as u64);
            assert_eq!(ranges.contains(begin as u64, end as u64), bits[begin..end].iter().all(|bit| *bit));
            assert_eq!(ranges.touches(begin as u64, end as u64), begin < end && bits[begin..end].iter().any(|bit| *bit));
            let next = (begin..64).find(|i| bits[*i]).map(|i| i as u64);
            assert_eq!(ranges.next(begin as u64).map(|(b, _)| b), next);
            let mut end_before = None;
            for (b, e) in ranges.iter() {
                assert!(b < e && end_before.is_none_or(|end| end < b), "{ranges:?}");
                assert!(bits[b as usize..e as usize].iter().all(|bit| *bit));
                end_before = Some(e);
            }
        }
    }
}
