//! The timing wheel: which keys are due when, at eight bytes per volatile key.
//!
//! Three levels of 256 cells (125 ms, 32 s and 2.3 h wide) and a list for what is further away. A cell holds only hashes: its
//! level and number say roughly when, and the record says exactly. An entry that turns out stale (the key is gone, or was
//! given more time) costs one look-up when its cell comes up. A key whose expiry moves later keeps its old entry and is
//! filed anew when that one comes up, so refreshing a key's expiry a million times leaves one entry.

use super::feed::Notice;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Width of a cell on the lowest level in milliseconds.
pub(crate) const TICK_MS: i64 = 125;
const CELLS: usize = 256;
const LEVELS: usize = 3;

/// Entries between which a cell grows by an eighth.
const GENTLE_MIN: usize = 256;
const GENTLE_MAX: usize = 1 << 16;

/// The wheel. Owned by the background.
pub(crate) struct Wheel {
    levels: [Vec<Vec<u64>>; LEVELS],
    far: Vec<u64>,
    /// What has come up and was not taken yet.
    due: Vec<u64>,
    /// The soonest, with their exact times, once they were asked for: pairs of time and hash.
    near: BinaryHeap<Reverse<(i64, u64)>>,
    /// When the first cell begins that holds something; `None`: not known.
    first_ms: Option<i64>,
    /// The last tick that was handled; negative before the first turn.
    now: i64,
    entries: usize,
    /// How many a rebuild has left, if they are not fewer now.
    kept: usize,
}

/// A place in a walk through all cells, the far ones last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    cell: usize,
    at: usize,
}

/// What comes up soonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Soonest {
    Known(Notice),
    /// One of those that [`Wheel::take_first`] gives: only their records know the exact times.
    Unknown,
    Nothing,
}

/// What has come up.
struct Turn {
    /// Hashes to look at: due, or to be filed anew.
    hashes: Vec<u64>,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        let level = |_| (0..CELLS).map(|_| Vec::new()).collect();
        Self {
            levels: std::array::from_fn(level),
            far: Vec::new(),
            due: Vec::new(),
            near: BinaryHeap::new(),
            first_ms: None,
            now: -1,
            entries: 0,
            kept: 0,
        }
    }

    /// Entries filed, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Bytes that the entries take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let cells = self.levels.iter().flatten().map(Vec::capacity).sum::<usize>() + self.far.capacity() + self.due.capacity();
        cells * size_of::<u64>() + self.near.capacity() * size_of::<(i64, u64)>()
    }

    /// Files a key. What is already due comes up with the next turn.
    pub(crate) fn file(&mut self, notice: Notice) {
        // The cell after the due time, so that the key is due when its cell comes up.
        let tick = (notice.at_ms.div_euclid(TICK_MS).saturating_add(1)).max(self.now + 1);
        debug_assert!(tick > self.now, "INV-EXP-1: a notice is filed for a tick to come");
        self.entries += 1;
        self.first_ms = self.first_ms.map(|first| first.min(notice.at_ms));
        if self.now < 0 {
            self.far.push(notice.hash);
            return;
        }
        let mut width = 1i64;
        for level in &mut self.levels {
            if tick / width - self.now / width < CELLS as i64 {
                push(&mut level[(tick / width) as usize % CELLS], notice.hash);
                return;
            }
            width *= CELLS as i64;
        }
        push(&mut self.far, notice.hash);
    }

    /// Takes up to `most` hashes that have come up by `now_ms`: due, or to be filed anew. `None` when there are no more.
    pub(crate) fn take_due(&mut self, now_ms: i64, most: usize) -> Option<Vec<u64>> {
        debug_assert_ne!(most, 0, "who takes nothing gets nowhere");
        if self.due.is_empty() {
            self.due = self.turn(now_ms)?.hashes;
        }
        let rest = self.due.len().saturating_sub(most);
        Some(if rest == 0 { std::mem::take(&mut self.due) } else { self.due.split_off(rest) })
    }

    /// Turns the wheel by at most one tick towards `now_ms`; `None` when it is up to date.
    fn turn(&mut self, now_ms: i64) -> Option<Turn> {
        let today = now_ms.div_euclid(TICK_MS);
        if self.now < 0 {
            // The first turn sets the time; what was filed before is looked at once and filed anew.
            self.now = today;
            let hashes = std::mem::take(&mut self.far);
            self.entries -= hashes.len();
            return Some(Turn { hashes });
        }
        if self.now >= today {
            return None;
        }
        debug_assert!(self.now < today, "INV-EXP-1: no tick is left out");
        self.now += 1;
        self.first_ms = None;
        let mut hashes = Vec::new();
        while self.near.peek().is_some_and(|soonest| soonest.0.0.div_euclid(TICK_MS) < self.now) {
            hashes.extend(self.near.pop().map(|soonest| soonest.0.1));
        }
        let mut width = 1i64;
        for level in &mut self.levels {
            if self.now % width != 0 {
                break;
            }
            // Taken, not emptied: a cell that was once long must not keep its memory.
            hashes.extend(std::mem::take(&mut level[(self.now / width) as usize % CELLS]));
            width *= CELLS as i64;
        }
        if self.now % width == 0 {
            hashes.extend(std::mem::take(&mut self.far));
        }
        self.entries -= hashes.len();
        Some(Turn { hashes })
    }

    /// Takes out the notice that comes up soonest.
    pub(crate) fn pop_soonest(&mut self) -> Soonest {
        let first_ms = match self.first_ms {
            Some(first_ms) => first_ms,
            None => self.find_first().map_or(i64::MAX, |(first_ms, _)| first_ms),
        };
        self.first_ms = Some(first_ms);
        if first_ms != i64::MAX && self.near.peek().is_none_or(|soonest| soonest.0.0 > first_ms) {
            return Soonest::Unknown;
        }
        let Some(Reverse((at_ms, hash))) = self.near.pop() else { return Soonest::Nothing };
        debug_assert_ne!(self.entries, 0, "INV-EXP-1: every notice is counted");
        self.entries -= 1;
        Soonest::Known(Notice { hash, at_ms })
    }

    /// Takes up to `most` hashes out of the first cell. They are to be filed again with their exact times, unless they have none
    /// any more.
    pub(crate) fn take_first(&mut self, most: usize) -> Vec<u64> {
        let Some((_, cell)) = self.find_first() else { return Vec::new() };
        let taken = if cell.len() <= most { std::mem::take(cell) } else { cell.split_off(cell.len() - most) };
        self.first_ms = None;
        debug_assert!(self.entries >= taken.len(), "INV-EXP-1: every notice is counted");
        debug_assert!(!taken.is_empty(), "the first cell holds something, so whoever empties it gets on");
        self.entries -= taken.len();
        taken
    }

    /// Files a key whose exact time is known among the soonest.
    pub(crate) fn file_exact(&mut self, notice: Notice) {
        self.entries += 1;
        self.near.push(Reverse((notice.at_ms, notice.hash)));
    }

    /// The first cell that holds something, and when it begins.
    fn find_first(&mut self) -> Option<(i64, &mut Vec<u64>)> {
        let mut width = 1i64;
        let mut found = None;
        for level in 0..LEVELS {
            let ahead = (1..CELLS as i64).find(|ahead| !self.levels[level][(self.now / width + ahead) as usize % CELLS].is_empty());
            if let Some(ahead) = ahead {
                let tick = self.now / width + ahead;
                found = Some(((tick * width - 1) * TICK_MS, level, tick as usize % CELLS));
                break;
            }
            width *= CELLS as i64;
        }
        match found {
            Some((first_ms, level, cell)) => Some((first_ms, &mut self.levels[level][cell])),
            // Later than all cells, whatever it is.
            None if self.far.is_empty() => None,
            None => Some((self.now.saturating_mul(TICK_MS).saturating_add(width * TICK_MS / 2), &mut self.far)),
        }
    }

    /// Takes entries out whose hashes `wanted` names, to be filed anew: with the hash, a time that is not after the one at which
    /// the entry would have come up. Goes on from `walk` for as many entries and cells as are `left`; whether it has come to the
    /// end. What moves between cells meanwhile may be left out.
    pub(crate) fn extract(
        &mut self,
        walk: &mut Walk,
        left: &mut usize,
        wanted: impl Fn(u64) -> bool,
        mut take: impl FnMut(Notice),
    ) -> bool {
        while walk.cell <= LEVELS * CELLS {
            let at_ms = self.comes_up_ms(walk.cell);
            let cell = match walk.cell {
                far if far == LEVELS * CELLS => &mut self.far,
                number => &mut self.levels[number / CELLS][number % CELLS],
            };
            while let Some(&hash) = cell.get(walk.at) {
                if *left == 0 {
                    return false;
                }
                *left -= 1;
                if wanted(hash) {
                    cell.swap_remove(walk.at);
                    self.entries -= 1;
                    self.first_ms = None;
                    take(Notice { hash, at_ms });
                } else {
                    walk.at += 1;
                }
            }
            if cell.capacity() > 2 * cell.len() {
                // What was once long must not keep its memory.
                cell.shrink_to_fit();
            }
            *walk = Walk { cell: walk.cell + 1, at: 0 };
            *left = left.saturating_sub(1);
        }
        true
    }

    /// A time that is not after the one at which the entries of a cell come up.
    fn comes_up_ms(&self, cell: usize) -> i64 {
        let now = self.now.max(0);
        let width = (CELLS as i64).pow((cell / CELLS) as u32);
        let tick = match cell / CELLS {
            LEVELS => (now / width + 1) * width,
            _ => {
                let behind = (cell as i64 - now / width - 1).rem_euclid(CELLS as i64);
                (now / width + 1 + behind) * width
            }
        };
        debug_assert!(tick > now, "INV-EXP-1: a cell comes up later");
        (tick - 1) * TICK_MS
    }

    /// Files up to `most` of the soonest, which have their exact times, among the others. Returns how many.
    pub(crate) fn file_soonest(&mut self, most: usize) -> usize {
        let count = self.near.len().min(most);
        for _ in 0..count {
            if let Some(Reverse((at_ms, hash))) = self.near.pop() {
                self.entries -= 1;
                self.file(Notice { hash, at_ms });
            }
        }
        count
    }

    /// How many of the soonest have their exact times.
    pub(crate) fn soonest_len(&self) -> usize {
        self.near.len()
    }

    /// The entries are what a rebuild has left.
    pub(crate) fn keep(&mut self) {
        self.kept = self.entries;
    }

    /// How many a rebuild has left, or fewer.
    pub(crate) fn kept(&mut self) -> usize {
        self.kept = self.kept.min(self.entries);
        self.kept
    }
}

/// Adds to a cell. It is not doubled while it is small: beside a small budget that would be much at once.
fn push(cell: &mut Vec<u64>, hash: u64) {
    if cell.len() == cell.capacity() && (GENTLE_MIN..GENTLE_MAX).contains(&cell.len()) {
        cell.reserve_exact(cell.len() / 8);
    }
    cell.push(hash);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_entry_comes_up_at_or_after_its_time_and_soon() {
        let start = 1_700_000_000_000;
        let mut wheel = Wheel::new();
        assert!(wheel.turn(start).is_some());
        let delays = [0, 1, 124, 125, 31_999, 32_000, 40_000, 100_000, 8_000_000, 9_000_000];
        for (hash, delay) in delays.iter().enumerate() {
            wheel.file(Notice { hash: hash as u64, at_ms: start + delay });
        }
        assert_eq!(wheel.len(), delays.len());
        let mut due = vec![None; delays.len()];
        let mut now = start;
        while due.iter().any(Option::is_none) && now < start + 10_000_000 {
            now += TICK_MS;
            while let Some(turn) = wheel.turn(now) {
                for hash in turn.hashes {
                    let at = start + delays[hash as usize];
                    if at <= now {
                        due[hash as usize] = Some(now - at);
                    } else {
                        wheel.file(Notice { hash, at_ms: at });
                    }
                }
            }
        }
        assert!(due.iter().all(|lag| lag.is_some_and(|lag| lag <= 2 * TICK_MS)), "{due:?}");
        assert_eq!(wheel.len(), 0);
    }

    #[test]
    fn what_comes_up_together_is_taken_in_parts() {
        let start = 1_700_000_000_000;
        let mut wheel = Wheel::new();
        assert_eq!(wheel.take_due(start, 1), Some(Vec::new()));
        (0..1_000).for_each(|hash| wheel.file(Notice { hash, at_ms: start + 100_000_000 }));
        let mut taken = Vec::new();
        while taken.len() < 1_000 {
            let Some(hashes) = wheel.take_due(start + 110_000_000, 300) else { panic!("{} of 1000 came up", taken.len()) };
            assert!(hashes.len() <= 300);
            // In the middle of them, everything else goes on.
            wheel.file(Notice { hash: 5_000, at_ms: start + 200_000_000 });
            taken.extend(hashes);
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..1_000).collect::<Vec<u64>>());
    }

    #[test]
    fn the_soonest_are_found_by_bounded_look_ups() {
        let start = 1_700_000_000_000;
        let mut wheel = Wheel::new();
        assert!(wheel.turn(start).is_some());
        // All in one cell of hours, but for one that comes earlier.
        let at_ms = |hash: u64| if hash == 77 { start + 40_000 } else { start + 40_000_000 - hash as i64 };
        const KEYS: u64 = 100_000;
        (0..KEYS).for_each(|hash| wheel.file(Notice { hash, at_ms: at_ms(hash) }));
        let (mut last_ms, mut known, mut looks) = (0, 0, 0);
        loop {
            match wheel.pop_soonest() {
                Soonest::Known(notice) => {
                    assert!(notice.at_ms == at_ms(notice.hash) && notice.at_ms >= last_ms);
                    (last_ms, known) = (notice.at_ms, known + 1);
                }
                Soonest::Unknown => {
                    let taken = wheel.take_first(100);
                    assert!((1..=100).contains(&taken.len()));
                    looks += taken.len() as u64;
                    taken.into_iter().for_each(|hash| wheel.file_exact(Notice { hash, at_ms: at_ms(hash) }));
                }
                Soonest::Nothing => break,
            }
            assert_eq!(wheel.len() as u64 + known, KEYS);
        }
        assert_eq!((known, looks, wheel.memory_bytes()), (KEYS, KEYS, wheel.near.capacity() * 16));
    }

    #[test]
    fn what_is_taken_out_and_filed_anew_comes_up_when_it_would_have() {
        let start = 1_700_000_000_000;
        let delays = [0, 124, 31_999, 32_000, 40_000, 100_000, 8_000_000, 9_000_000, 3_000_000_000];
        let mut wheels = [Wheel::new(), Wheel::new()];
        for wheel in &mut wheels {
            assert!(wheel.turn(start).is_some());
            for (hash, delay) in delays.iter().enumerate() {
                wheel.file(Notice { hash: (hash as u64) << 58 | hash as u64, at_ms: start + delay });
            }
        }
        let mut now = start;
        for _ in 0..100_000 {
            now += TICK_MS;
            // A part of the hashes at a time, a few entries per step.
            let (mut walk, mut taken) = (Walk::default(), Vec::new());
            let part = now / TICK_MS % 2;
            while !wheels[1].extract(&mut walk, &mut 3, |hash| hash as i64 % 2 == part, |notice| taken.push(notice)) {}
            taken.into_iter().for_each(|notice| wheels[1].file(notice));
            let mut up = [Vec::new(), Vec::new()];
            for (wheel, up) in wheels.iter_mut().zip(&mut up) {
                while let Some(turn) = wheel.turn(now) {
                    up.extend(turn.hashes);
                }
                up.sort_unstable();
            }
            assert_eq!(up[0], up[1], "{}", now - start);
            assert_eq!(wheels[0].len(), wheels[1].len());
        }
    }
}
