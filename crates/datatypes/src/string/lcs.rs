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
//! The table is filled in columns of 64 cells' width, with the rows' carries kept between them, so that the masks of where each
//! byte occurs take 2 KiB, however long the strings are.

use std::ops::Range;

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
/// larger. The table here takes a 32nd of that; the limit also bounds the time.
pub fn check(a_len: usize, b_len: usize, bytes_max: u64) -> Result<(), TooLong> {
    let cells = (a_len as u128 + 1).saturating_mul(b_len as u128 + 1);
    if cells.saturating_mul(4) > u128::from(bytes_max) { Err(TooLong) } else { Ok(()) }
}

/// The length of the longest common subsequence.
pub fn length(a: &[u8], b: &[u8]) -> usize {
    let mut grown = 0;
    fill(a, b, |rows| grown += rows.last().map_or(0, |flat| flat.count_zeros() as usize));
    grown
}

/// The longest common subsequence.
pub fn subsequence(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    walk(a, b, |i, _| bytes.push(a[i]));
    bytes.reverse();
    bytes
}

/// The runs of the longest common subsequence that have at least `len_min` bytes, from the last to the first, and its length.
pub fn runs(a: &[u8], b: &[u8], len_min: usize) -> (Vec<Run>, usize) {
    let mut runs: Vec<Run> = Vec::new();
    let mut length = 0;
    walk(a, b, |i, j| {
        length += 1;
        match runs.last_mut() {
            Some(run) if run.a.start == i + 1 && run.b.start == j + 1 => {
                run.a.start = i;
                run.b.start = j;
            }
            _ => runs.push(Run { a: i..i + 1, b: j..j + 1 }),
        }
    });
    runs.retain(|run| run.a.len() >= len_min);
    (runs, length)
}

/// Walks back from the end and visits the indexes of each pair of equal bytes on the way.
fn walk(a: &[u8], b: &[u8], mut visit: impl FnMut(usize, usize)) {
    let mut table = Vec::with_capacity(a.len() * b.len().div_ceil(WIDTH));
    fill(a, b, |rows| table.extend_from_slice(rows));
    let flat = |i: usize, j: usize| table[j / WIDTH * a.len() + i] >> (j % WIDTH) & 1 == 1;
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            i -= 1;
            j -= 1;
            visit(i, j);
        } else if flat(i - 1, j - 1) {
            j -= 1;
        } else {
            i -= 1;
        }
    }
}

/// Computes the table and hands over each column of 64 cells' width: one word of inverted growth bits for every byte of `a`.
fn fill(a: &[u8], b: &[u8], mut column: impl FnMut(&[u64])) {
    let mut carries = vec![false; a.len()];
    let mut rows = vec![0; a.len()];
    let mut occurs = [0u64; 256];
    for part in b.chunks(WIDTH) {
        for (at, &byte) in part.iter().enumerate() {
            occurs[usize::from(byte)] |= 1 << at;
        }
        // Above the first row, of zeros, nothing has grown.
        let mut flat = u64::MAX;
        for ((&byte, carry), row) in a.iter().zip(&mut carries).zip(&mut rows) {
            let matches = occurs[usize::from(byte)];
            let (sum, carry_out) = flat.carrying_add(flat & matches, *carry);
            *carry = carry_out;
            // Cells beyond the end of `b` match nothing and stay flat.
            flat = sum | (flat & !matches);
            *row = flat;
        }
        column(&rows);
        part.iter().for_each(|&byte| occurs[usize::from(byte)] = 0);
    }
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

    #[test]
    fn limit() {
        assert_eq!(check(9, 9, 400), Ok(()));
        assert_eq!(check(9, 10, 400), Err(TooLong));
        assert_eq!(check(usize::MAX, usize::MAX, u64::MAX), Err(TooLong));
    }
}
