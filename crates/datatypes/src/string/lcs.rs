//! The longest common subsequence of two strings, and where its runs lie, exactly as Redis chooses among equals.
//!
//! Let `L[i][j]` be the length of the longest common subsequence of the first *i* bytes of `a` and the first *j* of `b`. Redis
//! fills this table with 32-bit cells and walks back from its last corner. Here a cell is one bit:
//!
//! - A row grows by 0 or 1 from each cell to the next, so a row of bits `grows[j] = L[i][j] > L[i][j-1]` says as much.
//! - The next row follows from it by one addition and a few logical operations on whole words (Hyyrö, *Bit-parallel LCS-length
//!   computation revisited*, 2004): 64 cells per step. Bits are kept inverted (`flat`), which makes the carries right.
//! - The walk must know, where the bytes differ, whether `L[i-1][j] > L[i][j-1]`. There `L[i][j]` is the larger of the two, so
//!   that is so exactly when `grows[i][j]`.
//!
//! The table is filled in columns of 64 cells' width, so that the masks of where each byte occurs take 2 KiB, however long the
//! strings are. Of each square of 64 × 64 cells only what enters it is kept: the growth bits of the row above, and the carries of
//! the column before. The walk computes the squares that it comes through again, at most one for each 64 bytes of both strings.
//! So the memory is 16 bytes per square: a 1,024th of the table of Redis where both strings are long, and less than a 16th of the
//! limit that [`check`] holds.

use std::ops::Range;

use almandine_base::steps;

const WIDTH: usize = u64::BITS as usize;

/// The strings are too long together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// A run of equal bytes that is part of the longest common subsequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it lies in the first string.
    pub a: Range<usize>,
    /// Where it lies in the second string; as long as `a`.
    pub b: Range<usize>,
}

/// Whether Redis would compare strings of these lengths, where `bytes_max` is `proto-max-bulk-len`: its table must not be
/// larger. Here the limit bounds the time, and the memory to less than a 16th of it.
pub fn check(a_len: usize, b_len: usize, bytes_max: u64) -> Result<(), TooLong> {
    let cells = (a_len as u128 + 1).saturating_mul(b_len as u128 + 1);
    if cells.saturating_mul(4) > u128::from(bytes_max) { Err(TooLong) } else { Ok(()) }
}

/// What is asked of two strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// How long the longest common subsequence is.
    Length,
    /// Where it lies, too.
    Runs,
}

/// The length of the longest common subsequence.
pub fn length(a: &[u8], b: &[u8]) -> usize {
    finished(a, b, Goal::Length).length()
}

/// The longest common subsequence.
pub fn subsequence(a: &[u8], b: &[u8]) -> Vec<u8> {
    finished(a, b, Goal::Runs).subsequence(a)
}

/// The runs of the longest common subsequence that have at least `len_min` bytes, from the last to the first, and its length.
pub fn runs(a: &[u8], b: &[u8], len_min: usize) -> (Vec<Run>, usize) {
    let comparison = finished(a, b, Goal::Runs);
    let length = comparison.length();
    (comparison.into_runs(len_min), length)
}

fn finished(a: &[u8], b: &[u8], goal: Goal) -> Comparison {
    let mut comparison = Comparison::new(a, b, goal);
    while !comparison.advance(a, b, usize::MAX) {}
    comparison
}

/// What enters a square of 64 × 64 cells.
#[derive(Clone, Copy, Debug)]
struct Square {
    /// The growth bits of the row above it, inverted.
    flat: u64,
    /// The carry into each of its rows.
    carries: u64,
}

/// A comparison of two strings, and how far it is. The strings are given to each of its steps.
#[derive(Debug)]
pub struct Comparison {
    goal: Goal,
    /// For each 64 rows, the carries out of the last column that was filled.
    carries: Vec<u64>,
    /// The squares column by column, where the walk needs them.
    squares: Vec<Square>,
    /// The square to be filled next: its column and its 64 rows.
    next: (usize, usize),
    /// The growth bits above that square, inverted.
    flat: u64,
    /// The bytes of the column.
    occurs: Box<[u64; 256]>,
    grown: usize,
    /// How many bytes of each string the walk has yet to pass, once the table is filled.
    walk: (usize, usize),
    runs: Vec<Run>,
}

impl Comparison {
    /// A comparison that has not begun.
    #[must_use]
    pub fn new(a: &[u8], b: &[u8], goal: Goal) -> Self {
        let (rows, columns) = in_order(a, b, goal);
        let (height, width) = (rows.len().div_ceil(WIDTH), columns.len().div_ceil(WIDTH));
        let squares = if goal == Goal::Runs { Vec::with_capacity(height * width) } else { Vec::new() };
        Self {
            goal,
            carries: vec![0; height],
            squares,
            next: (0, 0),
            flat: u64::MAX,
            occurs: Box::new([0; 256]),
            grown: 0,
            walk: (a.len(), b.len()),
            runs: Vec::new(),
        }
    }

    /// Squares of 64 × 64 cells that it fills.
    #[must_use]
    pub fn squares_of(&self, a: &[u8], b: &[u8]) -> usize {
        let (rows, columns) = in_order(a, b, self.goal);
        rows.len().div_ceil(WIDTH) * columns.len().div_ceil(WIDTH)
    }

    /// Goes on by about `count` squares of 64 × 64 cells. True: it is done.
    pub fn advance(&mut self, a: &[u8], b: &[u8], count: usize) -> bool {
        let (rows, columns) = in_order(a, b, self.goal);
        for _ in 0..count {
            steps::take(WIDTH);
            if !rows.is_empty() && self.next.0 < columns.len().div_ceil(WIDTH) {
                self.fill(rows, columns);
            } else if self.goal == Goal::Runs && self.walk.0 > 0 && self.walk.1 > 0 {
                self.walk(a, b);
            } else {
                return true;
            }
        }
        false
    }

    /// Fills the next square.
    fn fill(&mut self, rows: &[u8], columns: &[u8]) {
        let (column, row) = self.next;
        if row == 0 {
            // Above the first row, of zeros, nothing has grown.
            self.flat = u64::MAX;
            *self.occurs = occurrences(part(columns, column));
        }
        let entering = Square { flat: self.flat, carries: self.carries[row] };
        if self.goal == Goal::Runs {
            self.squares.push(entering);
        }
        let below = fill_square(entering, part(rows, row), &self.occurs, |_, _| {});
        (self.flat, self.carries[row]) = (below.flat, below.carries);
        self.next = if row + 1 < self.carries.len() { (column, row + 1) } else { (column + 1, 0) };
        if self.next.1 == 0 {
            self.grown += self.flat.count_zeros() as usize;
        }
    }

    /// Walks back through one square, and keeps each pair of equal bytes on the way.
    fn walk(&mut self, a: &[u8], b: &[u8]) {
        let (mut i, mut j) = self.walk;
        let (row, column) = ((i - 1) / WIDTH, (j - 1) / WIDTH);
        let mut flats = [0; WIDTH];
        let entering = self.squares[column * self.carries.len() + row];
        fill_square(entering, part(a, row), &occurrences(part(b, column)), |at, flat| flats[at] = flat);
        while i > row * WIDTH && j > column * WIDTH {
            if a[i - 1] == b[j - 1] {
                i -= 1;
                j -= 1;
                self.meet(i, j);
            } else if flats[(i - 1) % WIDTH] >> ((j - 1) % WIDTH) & 1 == 1 {
                j -= 1;
            } else {
                i -= 1;
            }
        }
        self.walk = (i, j);
    }

    /// The bytes at these places are the same, and part of the subsequence.
    fn meet(&mut self, i: usize, j: usize) {
        match self.runs.last_mut() {
            Some(run) if run.a.start == i + 1 && run.b.start == j + 1 => {
                run.a.start = i;
                run.b.start = j;
            }
            _ => self.runs.push(Run { a: i..i + 1, b: j..j + 1 }),
        }
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.carries.capacity() * size_of::<u64>()
            + self.squares.capacity() * size_of::<Square>()
            + self.runs.capacity() * size_of::<Run>()
    }

    /// The length of the longest common subsequence, once it is done.
    #[must_use]
    pub fn length(&self) -> usize {
        self.grown
    }

    /// The longest common subsequence, once its runs are known; `a` is the first string.
    #[must_use]
    pub fn subsequence(&self, a: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.grown);
        self.runs.iter().rev().for_each(|run| bytes.extend_from_slice(&a[run.a.clone()]));
        bytes
    }

    /// The runs that have at least `len_min` bytes, from the last to the first.
    #[must_use]
    pub fn into_runs(mut self, len_min: usize) -> Vec<Run> {
        self.runs.retain(|run| run.a.len() >= len_min);
        self.runs
    }
}

/// The string whose bytes are rows, and the one whose bytes are cells of them: for the length alone the longer one is the second,
/// since narrow columns take as much as whole ones.
fn in_order<'s>(a: &'s [u8], b: &'s [u8], goal: Goal) -> (&'s [u8], &'s [u8]) {
    if goal == Goal::Length && a.len() > b.len() { (b, a) } else { (a, b) }
}

/// The bytes of a string that a square has.
fn part(bytes: &[u8], number: usize) -> &[u8] {
    &bytes[number * WIDTH..((number + 1) * WIDTH).min(bytes.len())]
}

/// Where each byte occurs in a part.
fn occurrences(part: &[u8]) -> [u64; 256] {
    let mut occurs = [0; 256];
    part.iter().enumerate().for_each(|(at, &byte)| occurs[usize::from(byte)] |= 1 << at);
    occurs
}

/// Computes a square: the growth bits of each of its rows, inverted, and what leaves it downwards and to the right.
#[inline]
fn fill_square(entering: Square, rows: &[u8], occurs: &[u64; 256], mut row: impl FnMut(usize, u64)) -> Square {
    let Square { mut flat, carries } = entering;
    let mut leaving = 0;
    for (at, &byte) in rows.iter().enumerate() {
        let matches = occurs[usize::from(byte)];
        let (sum, carry) = flat.carrying_add(flat & matches, carries >> at & 1 == 1);
        leaving |= u64::from(carry) << at;
        // Cells beyond the end of the string match nothing and stay flat.
        flat = sum | (flat & !matches);
        row(at, flat);
    }
    Square { flat, carries: leaving }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_redis_manual() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        assert_eq!(length(a, b), 6);
        assert_eq!(subsequence(a, b), b"mytext");
        let expected = [Run { a: 4..8, b: 5..9 }, Run { a: 2..4, b: 0..2 }];
        assert_eq!(runs(a, b, 0), (expected.to_vec(), 6));
        assert_eq!(runs(a, b, 4), (expected[..1].to_vec(), 6));
    }

    #[test]
    fn empty() {
        assert_eq!(length(b"", b"abc"), 0);
        assert_eq!(subsequence(b"abc", b""), b"");
        assert_eq!(runs(b"", b"", 0), (Vec::new(), 0));
    }

    /// Strings of one byte and of many took 16 bytes for each of the many; slices of any size lead to the same.
    #[test]
    fn memory_is_a_fraction_of_the_limit_and_slices_change_nothing() {
        let text = |len: usize, seed: usize| (0..len).map(|at| b'a' + (at * at % (seed + 7) % 5) as u8).collect::<Vec<u8>>();
        for (a_len, b_len) in [(262_000, 1), (1, 262_000), (130_000, 2), (510, 510), (4_000, 64)] {
            let (a, b) = (text(a_len, 1), text(b_len, 6));
            let limit = 1 << 21;
            assert_eq!(check(a_len, b_len, limit), Ok(()));
            for goal in [Goal::Length, Goal::Runs] {
                let mut comparison = Comparison::new(&a, &b, goal);
                while !comparison.advance(&a, &b, 3) {
                    assert!(comparison.memory() as u64 <= limit / 16, "{a_len} {b_len}: {}", comparison.memory());
                }
                assert_eq!(comparison.length(), length(&b, &a));
                if goal == Goal::Runs {
                    assert_eq!((comparison.into_runs(0), length(&a, &b)), runs(&a, &b, 0));
                }
            }
        }
    }

    #[test]
    fn limit() {
        assert_eq!(check(9, 9, 400), Ok(()));
        assert_eq!(check(9, 10, 400), Err(TooLong));
        assert_eq!(check(usize::MAX, usize::MAX, u64::MAX), Err(TooLong));
    }
}
