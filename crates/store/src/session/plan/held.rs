//! The latches of a lock plan, and which of its keys comes next.
//!
//! A command uses its keys in the order in which it names them, so a plan of many keys keeps their hashes in that order. The key
//! that is expected next is known to be latched without a search, so what a key costs does not grow with their number. Nor does
//! what is latched out of order behind them: it is found in a set.

use crate::index::latch::SharedLatch;
use crate::index::{ExclusiveLatch, Index};
use crate::sync::Backoff;
use almandine_base::object::Missing;
use rapidhash::fast::RandomState;
use std::cell::Cell;
use std::collections::HashSet;

/// Buckets that are asked for before the first of them is latched or released.
const BUCKETS_AHEAD: usize = 16;
/// Keys for which a plan keeps its memory when it is released.
const KEYS_KEPT: usize = 1 << 14;
/// Latches out of order for which it keeps the memory of the set: that is cleared as a whole.
const FURTHER_KEPT: usize = 64;

/// How the buckets of a plan's keys are latched.
#[derive(Clone, Copy)]
pub(in crate::session) enum Modes<'m> {
    /// All exclusively, or all shared.
    All(bool),
    /// Each as its key says; a bucket of several exclusively if one of them says so.
    Each(&'m [bool]),
}

impl Modes<'_> {
    fn of(self, key: usize) -> bool {
        match self {
            Self::All(exclusive) => exclusive,
            Self::Each(exclusive) => exclusive[key],
        }
    }
}

/// One bucket of a plan: its number, and in the lowest bit whether its latch is exclusive. So they sort by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted(u64);

/// Stands in a plan that holds nothing. No index has a bucket with its number.
const NO_BUCKET: Wanted = Wanted(u64::MAX);

impl Wanted {
    #[inline]
    fn new(number: u64, exclusive: bool) -> Self {
        debug_assert!(number < 1 << 63, "an index has fewer buckets");
        Self(number << 1 | u64::from(exclusive))
    }

    #[inline]
    fn number(self) -> u64 {
        self.0 >> 1
    }

    #[inline]
    fn is_exclusive(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The latches of a lock plan.
pub(in crate::session) struct Held {
    /// Their buckets, each once: those of the plan, ascending, and behind them those that were latched out of order.
    buckets: Vec<Wanted>,
    /// The numbers of the latter.
    further: HashSet<u64, RandomState>,
    /// Number of them that have been latched.
    taken: usize,
    /// The hashes of several keys, in the command's order.
    hashes: Vec<u64>,
    /// Which of them the command is expected to use next.
    next: Cell<usize>,
    /// Its session is the server, which latches out of order; see `latch_coordinator`.
    pub(in crate::session) is_server: bool,
    /// Its session passes by what a long unit has latched, and begins anew when that has ended.
    pub(in crate::session) passes: bool,
    /// Its unit is such a one.
    is_long: bool,
}

impl Held {
    pub(in crate::session) fn new() -> Self {
        let (buckets, hashes) = (Vec::with_capacity(64), Vec::with_capacity(64));
        Self {
            buckets,
            further: HashSet::default(),
            taken: 0,
            hashes,
            next: Cell::new(0),
            is_server: false,
            passes: false,
            is_long: false,
        }
    }

    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Latches the bucket of a hash, unless a long unit has it and the session passes by. Whether it has.
    #[inline]
    pub(in crate::session) fn take_one(&mut self, index: &Index, hash: u64, exclusive: bool) -> bool {
        debug_assert!(self.buckets.is_empty() && self.taken == 0, "INV-LATCH-3: one lock plan at a time");
        let gives_up = |number| self.passes && index.long_unit.holds(number);
        let kept = if exclusive {
            index.lock_exclusive_unless(hash, None, gives_up).map(ExclusiveLatch::keep)
        } else {
            index.lock_shared_unless(hash, gives_up).map(SharedLatch::keep)
        };
        let Some(number) = kept else {
            self.refuse();
            return false;
        };
        self.buckets.push(Wanted::new(number, exclusive));
        self.taken = 1;
        true
    }

    /// The plan has none of its latches, and no key of it can be used, until it is released: a long unit has one of them.
    #[cold]
    fn refuse(&mut self) {
        debug_assert!(self.taken == 0, "INV-LATCH-5: a plan that is refused holds nothing");
        self.buckets.clear();
        self.hashes.clear();
        self.next.set(0);
        self.buckets.push(NO_BUCKET);
    }

    /// Whether the plan has none of its latches because a long unit has one of them.
    #[inline]
    pub(in crate::session) fn is_refused(&self) -> bool {
        self.taken == 0 && !self.buckets.is_empty()
    }

    /// Why a key outside of the plan cannot be used.
    pub(in crate::session) fn why_not(&self) -> Missing {
        debug_assert!(!self.is_empty(), "INV-LATCH-3: a key is outside of a plan");
        if self.is_refused() { Missing::Held } else { Missing::Unplanned }
    }

    /// The unit of the plan takes long, and goes on in another thread. One without latches has none to tell of.
    pub(in crate::session) fn tell_long(&mut self, index: &Index) {
        debug_assert!(!self.is_refused(), "INV-LATCH-5: a unit that goes on has its latches");
        debug_assert!(!self.is_long, "INV-LATCH-5: a unit says once that it is long");
        debug_assert!(!self.passes, "INV-LATCH-5: a long unit cannot begin anew");
        if !self.buckets.is_empty() {
            self.is_long = true;
            index.long_unit.hold(self.buckets.iter().map(|bucket| bucket.number()));
        }
    }

    /// A unit that may take long has latched one more bucket.
    pub(in crate::session) fn tell_grown(&self, index: &Index) {
        debug_assert!(!self.is_refused(), "INV-LATCH-5: a unit that grows has its latches");
        if self.is_long {
            index.long_unit.hold(self.buckets.last().into_iter().map(|bucket| bucket.number()));
        }
    }

    /// It is about to release its first latch, or to give them away.
    #[inline]
    fn end_long(&mut self, index: &Index) {
        if self.is_long {
            debug_assert!(!self.is_refused(), "INV-LATCH-5: a long unit ends with its latches");
            self.is_long = false;
            index.long_unit.end();
        }
    }

    /// Latches the buckets of several hashes, unless a long unit has one of them and the session passes by. Whether it has.
    pub(in crate::session) fn take(&mut self, index: &Index, hashes: &[u64], modes: Modes<'_>) -> bool {
        debug_assert!(self.buckets.is_empty() && self.taken == 0, "INV-LATCH-3: one lock plan at a time");
        self.hashes.extend_from_slice(hashes);
        self.next.set(0);
        let (mut known, mut first_wanted) = (index.len(), 0);
        loop {
            let wanted = hashes.iter().enumerate().map(|(key, &hash)| Wanted::new(Index::bucket_of(hash, known), modes.of(key)));
            self.buckets.extend(wanted.filter(|bucket| bucket.number() >= first_wanted));
            if !self.latch_wanted(index) {
                let missed = self.buckets.get(self.taken).copied();
                self.release_latches(index);
                if self.passes && missed.is_some_and(|missed| index.long_unit.holds(missed.number())) {
                    self.refuse();
                    return false;
                }
                let mut backoff = Backoff::new();
                while index.is_out_of_order() {
                    backoff.wait();
                }
                (known, first_wanted) = (index.len(), 0);
                continue;
            }
            let now = index.len();
            if now == known {
                return true;
            }
            // A bucket that split meanwhile may have given keys to new ones, which have the highest numbers; one that is latched
            // splits no more. One that merged has given its keys to a lower one, so that the order begins anew.
            first_wanted = known;
            if now < known {
                self.release_latches(index);
                first_wanted = 0;
            }
            known = now;
        }
    }

    /// Latches the buckets behind those that have been latched. False if all of them have to be released first
    /// ([`Index::gives_way`]).
    fn latch_wanted(&mut self, index: &Index) -> bool {
        self.buckets[self.taken..].sort_unstable();
        self.buckets.dedup_by(|later, earlier| {
            let same = later.number() == earlier.number();
            if same {
                // The exclusive one of the two comes later.
                *earlier = *later;
            }
            same
        });
        debug_assert!(
            self.buckets.is_sorted_by(|a, b| a.number() < b.number()),
            "INV-LATCH-3: latches are taken in ascending bucket order"
        );
        self.buckets[self.taken..].iter().take(BUCKETS_AHEAD).for_each(|bucket| index.prefetch_bucket(bucket.number()));
        let passes = self.passes;
        while let Some(&bucket) = self.buckets.get(self.taken) {
            if let Some(&ahead) = self.buckets.get(self.taken + BUCKETS_AHEAD) {
                index.prefetch_bucket(ahead.number());
            }
            let number = bucket.number();
            let is_first = self.taken == 0 && bucket.is_exclusive();
            let gives_up = || (!is_first && index.gives_way()) || (passes && index.long_unit.holds(number));
            let kept = if bucket.is_exclusive() {
                index.latch_planned(number, gives_up).map(ExclusiveLatch::keep)
            } else {
                index.latch_planned_shared(number, gives_up).map(SharedLatch::keep)
            };
            if kept.is_none() {
                return false;
            }
            debug_assert_eq!(kept, Some(number), "INV-LATCH-1: what is latched is what is released later");
            self.taken += 1;
        }
        true
    }

    /// Releases the shared latches. The keys of the plan are these from now on, which are held exclusively.
    pub(in crate::session) fn keep_exclusive(&mut self, index: &Index, hashes: impl Iterator<Item = u64>) {
        debug_assert!(self.further.is_empty(), "INV-LATCH-3: only the server latches out of order");
        self.end_long(index);
        self.buckets.retain(|bucket| {
            if !bucket.is_exclusive() {
                index.unlatch(bucket.number(), false);
            }
            bucket.is_exclusive()
        });
        self.taken = self.buckets.len();
        self.hashes.clear();
        self.hashes.extend(hashes);
        self.next.set(0);
        debug_assert!(
            self.hashes.iter().all(|&hash| self.holds_exclusively(index, hash)),
            "INV-BLOCK-1: what was made ready was changed under its latch"
        );
    }

    /// Whether the bucket of a hash is latched exclusively.
    pub(in crate::session) fn holds_exclusively(&self, index: &Index, hash: u64) -> bool {
        let number = Index::bucket_of(hash, index.len());
        self.further.contains(&number) || self.planned().binary_search(&Wanted::new(number, true)).is_ok()
    }

    /// The buckets of the plan.
    fn planned(&self) -> &[Wanted] {
        &self.buckets[..self.buckets.len() - self.further.len()]
    }

    /// Takes over a latch that was kept, of the bucket of a hash.
    pub(in crate::session) fn adopt(&mut self, number: u64, hash: u64) {
        debug_assert!(!self.has(number), "INV-LATCH-1: an exclusive latch has one holder");
        self.buckets.push(Wanted::new(number, true));
        self.further.insert(number);
        self.taken = self.buckets.len();
        self.hashes.push(hash);
    }

    /// The unit uses a key whose bucket may have been latched for another one.
    pub(in crate::session) fn note_key(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Gives all latches away: the receiver of their buckets' numbers releases them.
    pub(in crate::session) fn give_away(&mut self, index: &Index) -> Vec<u64> {
        self.end_long(index);
        debug_assert!(
            self.buckets.iter().all(|bucket| bucket.is_exclusive()),
            "INV-BLOCK-1: what was made ready was changed under its latch"
        );
        debug_assert!(self.further.is_empty(), "INV-LATCH-3: only the server latches out of order");
        self.taken = 0;
        let numbers = self.buckets.drain(..).map(Wanted::number).collect();
        self.forget_keys();
        numbers
    }

    /// Releases all latches.
    #[inline]
    pub(in crate::session) fn release(&mut self, index: &Index) {
        self.release_latches(index);
        if !self.hashes.is_empty() {
            self.forget_keys();
        }
    }

    #[inline]
    fn release_latches(&mut self, index: &Index) {
        debug_assert!(self.taken <= self.buckets.len(), "INV-LATCH-1: released holds were taken");
        self.end_long(index);
        let taken = std::mem::take(&mut self.taken);
        for (at, &bucket) in self.buckets[..taken].iter().enumerate() {
            if let Some(&ahead) = self.buckets.get(at + BUCKETS_AHEAD) {
                index.prefetch_bucket(ahead.number());
            }
            index.unlatch(bucket.number(), bucket.is_exclusive());
        }
        self.buckets.clear();
    }

    #[cold]
    fn forget_keys(&mut self) {
        debug_assert!(self.is_empty(), "INV-LATCH-2: a plan is forgotten when nothing is held");
        self.hashes.clear();
        // The next session that adopts latches begins with their keys.
        self.next.set(0);
        if !self.further.is_empty() {
            self.further.clear();
            self.further.shrink_to(FURTHER_KEPT);
        }
        self.hashes.shrink_to(KEYS_KEPT);
        self.buckets.shrink_to(KEYS_KEPT);
    }

    /// Hashes of the plan's keys in the command's order from position `from` on, at most `count`; none in a plan of one key.
    pub(in crate::session) fn keys(&self, from: usize, count: usize) -> &[u64] {
        let start = from.min(self.hashes.len());
        &self.hashes[start..(start + count).min(self.hashes.len())]
    }

    /// The hashes of all keys, in the command's order.
    #[inline]
    pub(in crate::session) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Whether the bucket `number`, where `hash` belongs, is latched. With the key's position when it is the one that was expected.
    #[inline]
    pub(in crate::session) fn holds(&self, hash: u64, number: u64) -> (bool, Option<usize>) {
        if self.hashes.is_empty() {
            return (self.buckets.first().is_some_and(|bucket| bucket.number() == number), None);
        }
        let next = self.next.get();
        if self.hashes.get(next) == Some(&hash) {
            debug_assert!(self.has(number), "INV-LATCH-3: the buckets of a plan's keys are latched");
            self.next.set(next + 1);
            return (true, Some(next));
        }
        // The same key once more, or all of them from the beginning.
        if next > 0 && self.hashes[next - 1] == hash {
            return (true, None);
        }
        if self.hashes[0] == hash {
            self.next.set(1);
            return (true, Some(0));
        }
        (self.has(number), None)
    }

    fn has(&self, number: u64) -> bool {
        self.further.contains(&number) || self.planned().binary_search_by_key(&number, |bucket| bucket.number()).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_plan_holds_its_keys_in_any_order() {
        let index = Index::new(5000, 5000).unwrap();
        let hashes: Vec<u64> = (0..3000u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(20)).collect();
        let mut held = Held::new();
        held.take(&index, &hashes, Modes::All(true));
        let holds = |hash: u64| held.holds(hash, Index::bucket_of(hash, index.len()));
        // In the command's order, each key twice; then all again; then backwards.
        for _ in 0..2 {
            for (position, &hash) in hashes.iter().enumerate() {
                assert_eq!(holds(hash), (true, Some(position)));
                assert_eq!(holds(hash), (true, None));
            }
        }
        assert!(hashes.iter().rev().all(|&hash| holds(hash).0));
        let others = (0..5000u64).filter(|number| !held.has(*number));
        assert!(others.clone().count() > 1000 && others.into_iter().all(|number| !holds(number).0));
        assert!(held.buckets.iter().all(|bucket| index.bucket(bucket.number()).is_latched_exclusively()));
        held.release(&index);
        assert!(held.is_empty() && held.hashes.is_empty());
        assert!((0..index.len()).all(|number| !index.bucket(number).is_latched_exclusively()));
    }

    #[test]
    fn latches_are_adopted_behind_a_plan_that_was_walked_through() {
        let index = Index::new(1000, 1000).unwrap();
        let bucket = |hash: u64| Index::bucket_of(hash, index.len());
        let mut held = Held::new();
        held.take(&index, &[5, 7, 9], Modes::All(true));
        assert!([5, 7, 9].iter().all(|&hash| held.holds(hash, bucket(hash)).0));
        held.release(&index);
        held.adopt(index.latch(bucket(11)).keep(), 11);
        assert_eq!((held.planned().len(), held.buckets.len()), (0, 1));
        assert!(!held.holds(9, bucket(9)).0 && !held.holds(5, bucket(5)).0);
        assert!(held.holds(11, bucket(11)).0);
        held.release(&index);
        assert!(!index.bucket(bucket(11)).is_latched());
    }

    #[test]
    fn latches_out_of_order_are_held_beside_a_plan() {
        let index = Index::new(200_000, 200_000).unwrap();
        let bucket = |hash: u64| Index::bucket_of(hash, index.len());
        let mut held = Held::new();
        let planned = [70_000, 5, 9];
        held.take(&index, &planned, Modes::Each(&[true, false, true]));
        held.keep_exclusive(&index, [70_000, 9].into_iter());
        let mut further = Vec::new();
        for hash in (0..60_000u64).rev().filter(|hash| !planned.contains(hash)) {
            if !held.holds_exclusively(&index, hash) {
                held.adopt(index.latch(bucket(hash)).keep(), hash);
                further.push(hash);
            }
        }
        assert!(further.len() > 1000 && held.planned().len() == 2);
        assert!(
            further
                .iter()
                .chain(&[70_000, 9])
                .all(|&hash| held.holds_exclusively(&index, hash) && held.holds(hash, bucket(hash)).0)
        );
        held.release(&index);
        assert!(held.is_empty() && held.further.is_empty() && held.further.capacity() <= 2 * FURTHER_KEPT);
        assert!((0..index.len()).all(|number| !index.bucket(number).is_latched()));
    }

    #[test]
    fn a_bucket_of_several_keys_is_latched_exclusively_if_one_of_them_needs_it() {
        let index = Index::new(1000, 1000).unwrap();
        let buckets = index.len();
        // Three keys of one bucket, one of another, two of a third.
        let hashes = [5, 5 + (1 << 40), 7, 5 + (1 << 41), 9, 9 + (1 << 40)];
        let exclusive = [false, true, false, false, true, true];
        let mut held = Held::new();
        held.take(&index, &hashes, Modes::Each(&exclusive));
        let state = |hash: u64| {
            let bucket = index.bucket(Index::bucket_of(hash, buckets));
            (bucket.is_latched(), bucket.is_latched_exclusively())
        };
        assert_eq!([state(5), state(7), state(9)], [(true, true), (true, false), (true, true)]);
        assert!(hashes.iter().all(|&hash| held.holds(hash, Index::bucket_of(hash, buckets)).0));
        held.release(&index);
        assert!([5, 7, 9].iter().all(|&hash| !state(hash).0));
    }
}
