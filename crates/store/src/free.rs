//! Revivification: space of dead records is used again.
//!
//! A record that dies goes to its session's *limbo* with the current epoch, because optimistic readers may still look at it.
//! Once the epoch is safe it moves to a *bin* of its size. An allocation takes from the bin of its size, then cuts a larger
//! piece, then takes fresh space. Bins hold addresses, not links through the freed memory, so that a page can be evacuated
//! without unlinking anything: an address whose page is no longer open is dropped when it is met (INV-FREE-1).
//!
//! Sessions free into their own bins. A session that frees much more than it allocates (the background, or a worker that only
//! deletes) passes batches on through queues that all sessions share. When many pages have closed, as after FLUSHALL, their
//! pieces would stay in these queues until a session met them; [`ForgetClosed`] drops them before.

use crate::log::Log;
use crossbeam_queue::SegQueue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sizes up to this many words have a bin each.
const EXACT_MAX: usize = 256;
/// Larger sizes share bins this wide.
const COARSE_WIDTH: usize = 128;
const BINS: usize = EXACT_MAX + (crate::record::UNITS_MAX - EXACT_MAX).div_ceil(COARSE_WIDTH) + 1;
const BITMAP: usize = BINS.div_ceil(64);
/// A remainder below this many words is left to its record as slack.
pub(crate) const REMAINDER_MIN: usize = 3;
/// Addresses per batch in a shared queue.
const BATCH: usize = 64;
/// Words that a session keeps in its own bins before it shares (1 MiB).
const KEEP_WORDS: usize = (1 << 20) / 8;

fn bin_of(units: usize) -> usize {
    debug_assert!(units <= crate::record::UNITS_MAX + COARSE_WIDTH, "a piece is no longer than a record");
    if units <= EXACT_MAX { units } else { EXACT_MAX + 1 + (units - EXACT_MAX - 1) / COARSE_WIDTH }
}

/// The first bin whose every piece has at least `units` words.
fn bin_covering(units: usize) -> usize {
    debug_assert!((1..=crate::record::UNITS_MAX).contains(&units), "what is asked for is a record");
    if units <= EXACT_MAX { units } else { bin_of(units - 1 + COARSE_WIDTH).min(BINS) }
}

/// A piece of free space: its address and its words.
type Piece = (u64, u32);

/// Free space of one session.
pub(crate) struct FreeSpace {
    /// Space of records that died, oldest first.
    limbo: VecDeque<Piece>,
    /// Epochs of the pieces in limbo, oldest first, each with the number of its pieces.
    epochs: VecDeque<(u64, usize)>,
    /// How many of the last pieces in limbo have no epoch yet.
    untagged: usize,
    bins: Vec<Vec<Piece>>,
    filled: [u64; BITMAP],
    words: usize,
}

impl FreeSpace {
    pub(crate) fn new() -> Self {
        Self {
            limbo: VecDeque::with_capacity(1024),
            epochs: VecDeque::with_capacity(16),
            untagged: 0,
            bins: (0..BINS).map(|_| Vec::new()).collect(),
            filled: [0; BITMAP],
            words: 0,
        }
    }

    /// Space that readers may still see.
    pub(crate) fn retire(&mut self, address: u64, units: usize) {
        debug_assert!(units != 0 && address != 0, "INV-FREE-1: what dies was a record");
        self.limbo.push_back((address, units as u32));
        self.untagged += 1;
    }

    /// Whether anything has been retired since the last [`FreeSpace::tag`].
    #[inline]
    pub(crate) fn has_untagged(&self) -> bool {
        self.untagged != 0
    }

    /// What has been retired so far is out of reach once `epoch` is safe.
    pub(crate) fn tag(&mut self, epoch: u64) {
        let count = std::mem::take(&mut self.untagged);
        match self.epochs.back_mut() {
            Some((last, pieces)) if *last == epoch => *pieces += count,
            _ => self.epochs.push_back((epoch, count)),
        }
        debug_assert!(self.epochs.iter().is_sorted_by_key(|tagged| tagged.0), "INV-FREE-1: limbo is in the order of its epochs");
    }

    /// The epoch of the oldest piece in limbo.
    pub(crate) fn oldest_epoch(&self) -> Option<u64> {
        self.epochs.front().map(|tagged| tagged.0)
    }

    /// Records in limbo.
    pub(crate) fn limbo_len(&self) -> usize {
        self.limbo.len()
    }

    /// Space that no reader can see.
    pub(crate) fn add(&mut self, address: u64, units: usize) {
        if units < REMAINDER_MIN {
            return;
        }
        debug_assert_eq!(
            Log::page_of(address),
            Log::page_of(address + units as u64 - 1),
            "INV-LOG-2: a free space lies within its page"
        );
        let bin = bin_of(units);
        self.bins[bin].push((address, units as u32));
        self.filled[bin / 64] |= 1 << (bin % 64);
        self.words += units;
    }

    /// Moves up to `most` pieces whose epoch is safe from limbo to the bins.
    pub(crate) fn settle(&mut self, safe: u64, log: &Log, most: usize) {
        let mut left = most;
        while left != 0
            && let Some((epoch, pieces)) = self.epochs.front_mut()
            && *epoch <= safe
        {
            let count = left.min(*pieces);
            left -= count;
            *pieces -= count;
            if *pieces == 0 {
                self.epochs.pop_front();
            }
            for _ in 0..count {
                if let Some((address, units)) = self.limbo.pop_front()
                    && log.pages.is_open(Log::page_of(address))
                {
                    self.add(address, units as usize);
                }
            }
        }
        debug_assert_eq!(
            self.limbo.len(),
            self.untagged + self.epochs.iter().map(|tagged| tagged.1).sum::<usize>(),
            "INV-FREE-1: each piece in limbo waits for its epoch"
        );
    }

    /// A free piece of at least `units` words: its address and size. A much larger piece is only given when nothing fits.
    #[inline]
    pub(crate) fn take(&mut self, units: usize, log: &Log, shared: &SharedFree) -> Option<(u64, usize)> {
        if self.words == 0 && shared.is_empty() {
            return None;
        }
        self.take_from_bins(units, log, shared)
    }

    fn take_from_bins(&mut self, units: usize, log: &Log, shared: &SharedFree) -> Option<(u64, usize)> {
        let covering = bin_covering(units);
        debug_assert!(bin_of(units) <= covering, "INV-FREE-1: a covering bin holds pieces that are large enough");
        if let Some(piece) = self.pop(covering, log) {
            return Some(piece);
        }
        if shared.has(covering)
            && self.refill(covering, shared)
            && let Some(piece) = self.pop(covering, log)
        {
            return Some(piece);
        }
        while let Some(bin) = self.next_filled(covering + 1) {
            if let Some(piece) = self.pop(bin, log) {
                return Some(piece);
            }
        }
        let bin = shared.next_filled(covering + 1)?;
        self.refill(bin, shared);
        self.pop(bin, log)
    }

    fn pop(&mut self, bin: usize, log: &Log) -> Option<(u64, usize)> {
        let list = self.bins.get_mut(bin)?;
        while let Some((address, units)) = list.pop() {
            debug_assert!(self.words >= units as usize, "the words of all bins are counted");
            debug_assert_eq!(bin_of(units as usize), bin, "a piece lies in the bin of its size");
            self.words -= units as usize;
            if log.pages.is_open(Log::page_of(address)) {
                return Some((address, units as usize));
            }
        }
        self.filled[bin / 64] &= !(1 << (bin % 64));
        None
    }

    fn next_filled(&self, from: usize) -> Option<usize> {
        next_bit(from, |word| self.filled[word])
    }

    fn refill(&mut self, bin: usize, shared: &SharedFree) -> bool {
        let Some(batch) = shared.pop(bin) else { return false };
        debug_assert!(batch.iter().all(|piece| bin_of(piece.1 as usize) == bin), "a batch holds pieces of its bin");
        for (address, units) in batch {
            self.add(address, units as usize);
        }
        true
    }

    /// Passes on what is beyond the session's own need; everything with `all`.
    pub(crate) fn share(&mut self, shared: &SharedFree, all: bool) {
        if !all && self.words <= KEEP_WORDS {
            return;
        }
        let threshold = if all { 1 } else { 2 * BATCH };
        let mut next = self.next_filled(0);
        while let Some(bin) = next {
            while self.bins[bin].len() >= threshold {
                let keep = self.bins[bin].len().saturating_sub(BATCH);
                // Copied, so that a batch has memory of its size: `split_off(0)` would hand over that of the whole bin.
                let batch: Vec<Piece> = self.bins[bin].drain(keep..).collect();
                self.words -= batch.iter().map(|piece| piece.1 as usize).sum::<usize>();
                shared.push(bin, batch);
            }
            if self.bins[bin].is_empty() {
                self.filled[bin / 64] &= !(1 << (bin % 64));
            }
            self.bins[bin].shrink_to(8 * BATCH);
            next = self.next_filled(bin + 1);
        }
        debug_assert!(!all || self.words == 0, "INV-FREE-1: what was passed on is not used here, too");
    }
}

fn next_bit(from: usize, word_at: impl Fn(usize) -> u64) -> Option<usize> {
    let mut word = from / 64;
    if word >= BITMAP {
        return None;
    }
    let mut bits = word_at(word) & (u64::MAX << (from % 64));
    loop {
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        word += 1;
        if word == BITMAP {
            return None;
        }
        bits = word_at(word);
    }
}

/// Free space that any session may take: a queue of batches per bin.
pub(crate) struct SharedFree {
    queues: Box<[SegQueue<Vec<Piece>>]>,
    filled: [AtomicU64; BITMAP],
    batches: AtomicU64,
}

impl SharedFree {
    pub(crate) fn new() -> Self {
        Self {
            queues: (0..BINS).map(|_| SegQueue::new()).collect(),
            filled: std::array::from_fn(|_| AtomicU64::new(0)),
            batches: AtomicU64::new(0),
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.batches.load(Ordering::Relaxed) == 0
    }

    fn has(&self, bin: usize) -> bool {
        bin < BINS && self.filled[bin / 64].load(Ordering::Relaxed) & (1 << (bin % 64)) != 0
    }

    fn next_filled(&self, from: usize) -> Option<usize> {
        if self.is_empty() { None } else { next_bit(from, |word| self.filled[word].load(Ordering::Relaxed)) }
    }

    fn push(&self, bin: usize, batch: Vec<Piece>) {
        debug_assert!(!batch.is_empty(), "whoever takes a batch gets space with it");
        debug_assert!(batch.iter().all(|piece| bin_of(piece.1 as usize) == bin), "a batch holds pieces of its bin");
        self.queues[bin].push(batch);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.filled[bin / 64].fetch_or(1 << (bin % 64), Ordering::Relaxed);
    }

    fn pop(&self, bin: usize) -> Option<Vec<Piece>> {
        let batch = self.queues[bin].pop();
        if batch.is_some() {
            self.batches.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.filled[bin / 64].fetch_and(!(1 << (bin % 64)), Ordering::Relaxed);
            // A push may have come between; its bit must not be lost.
            if !self.queues[bin].is_empty() {
                self.filled[bin / 64].fetch_or(1 << (bin % 64), Ordering::Relaxed);
            }
        }
        batch
    }
}

/// A walk over the shared queues that drops the pieces of closed pages.
pub(crate) struct ForgetClosed {
    bin: usize,
    /// Batches of the bin that are still to be looked at; `None` before it begins.
    left: Option<usize>,
    /// What stays of the bin, gathered so that few full batches take the place of many nearly empty ones.
    stay: Vec<Piece>,
}

impl ForgetClosed {
    /// A walk from the first bin on.
    pub(crate) fn new() -> Self {
        Self { bin: 0, left: None, stay: Vec::new() }
    }

    /// Looks at up to `most` batches. Returns whether there are more. Batches that sessions share meanwhile are left alone.
    pub(crate) fn step(&mut self, shared: &SharedFree, log: &Log, most: usize) -> bool {
        let mut looked = 0;
        while looked < most {
            let Some(queue) = shared.queues.get(self.bin) else { return false };
            let left = *self.left.get_or_insert(queue.len());
            let Some(batch) = (left > 0).then(|| shared.pop(self.bin)).flatten() else {
                self.push_gathered(shared, 1);
                (self.bin, self.left) = (self.bin + 1, None);
                continue;
            };
            self.stay.extend(batch.into_iter().filter(|(address, _)| log.pages.is_open(Log::page_of(*address))));
            self.push_gathered(shared, BATCH);
            self.left = Some(left - 1);
            looked += 1;
        }
        true
    }

    fn push_gathered(&mut self, shared: &SharedFree, least: usize) {
        while self.stay.len() >= least {
            let keep = self.stay.len().saturating_sub(BATCH);
            shared.push(self.bin, self.stay.drain(keep..).collect());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_shared_batch_has_memory_of_its_size() {
        let (mut free, shared) = (FreeSpace::new(), SharedFree::new());
        (0..10_000).for_each(|number| free.add(number * 10, 10));
        free.share(&shared, true);
        let batches: Vec<Vec<Piece>> = std::iter::from_fn(|| shared.pop(bin_of(10))).collect();
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 10_000);
        assert!(batches.iter().all(|batch| batch.capacity() <= BATCH));
        assert!(free.bins[bin_of(10)].capacity() <= 8 * BATCH);
    }

    #[test]
    fn pieces_of_closed_pages_are_forgotten_and_others_stay() {
        let log = Log::new(1 << 25, 2).unwrap();
        let shared = SharedFree::new();
        let gone = log.take_chunk().unwrap();
        let mut stays = log.take_chunk().unwrap();
        while Log::page_of(stays.next) == Log::page_of(gone.next) {
            stays = log.take_chunk().unwrap();
        }
        for number in 0..100 {
            shared.push(bin_of(10), vec![(gone.next + number * 10, 10)]);
            shared.push(bin_of(300), vec![(gone.next, 300), (stays.next, 300)]);
        }
        assert!(log.pages.close(Log::page_of(gone.next)));
        let mut walk = ForgetClosed::new();
        let mut steps = 0;
        while walk.step(&shared, &log, 7) {
            steps += 1;
        }
        assert!((200 / 7..=200 / 7 + 2).contains(&steps), "{steps} steps of 7 batches");
        assert!(shared.queues[bin_of(10)].is_empty());
        let rest: Vec<Vec<Piece>> = std::iter::from_fn(|| shared.pop(bin_of(300))).collect();
        assert_eq!(rest.concat(), vec![(stays.next, 300); 100]);
        assert_eq!(rest.len(), 2, "few full batches take the place of many");
    }

    #[test]
    fn a_covering_bin_holds_only_pieces_that_fit() {
        for units in 1..=crate::record::UNITS_MAX {
            let covering = bin_covering(units);
            for piece in 1..=crate::record::UNITS_MAX {
                assert!(bin_of(piece) < covering || piece >= units || bin_of(piece) > covering, "{units} {piece}");
                if bin_of(piece) >= covering {
                    assert!(piece >= units, "{units} {piece}");
                }
            }
        }
    }

    #[test]
    fn space_is_reused_only_when_its_epoch_is_safe() {
        let log = Log::new(1 << 25, 2).unwrap();
        let chunk = log.take_chunk().unwrap();
        let (mut free, shared) = (FreeSpace::new(), SharedFree::new());
        free.retire(chunk.next, 10);
        free.settle(u64::MAX, &log, 8);
        assert!(free.take(10, &log, &shared).is_none(), "what has no epoch yet is seen by its own batch");
        free.tag(5);
        assert_eq!(free.oldest_epoch(), Some(5));
        free.settle(4, &log, 8);
        assert!(free.take(10, &log, &shared).is_none());
        free.settle(5, &log, 8);
        assert_eq!(free.take(7, &log, &shared), Some((chunk.next, 10)));
        free.add(chunk.next, 10);
        free.share(&shared, true);
        let mut other = FreeSpace::new();
        assert_eq!(other.take(3, &log, &shared), Some((chunk.next, 10)));
        other.add(chunk.next, 10);
        assert!(log.pages.close(Log::page_of(chunk.next)));
        assert!(other.take(10, &log, &shared).is_none(), "a closing page is not reused");
    }
}
