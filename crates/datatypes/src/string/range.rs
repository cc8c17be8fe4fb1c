//! Clamping of the index arguments that count from the end when they are negative.

use std::ops::Range;

/// The elements from `start` to `end`, both inclusive, of `len`, as `GETRANGE` and `BITCOUNT` understand them.
/// `None` when there are none.
pub fn substring(start: i64, end: i64, len: u64) -> Option<Range<u64>> {
    if is_reversed(start, end) { None } else { between(start, end, len) }
}

/// Whether both are negative and in the wrong order: then there is nothing between them, however [`between`] would clamp them.
pub fn is_reversed(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// As [`substring`], for `BITPOS`, which clamps first: an end before the first element is moved onto it, so
/// that `-5 -4` of three elements is the first one, and `-4 -5` too.
pub fn between(start: i64, end: i64, len: u64) -> Option<Range<u64>> {
    clamp(from_end(start, len).max(0), from_end(end, len).max(0), len)
}

/// As [`substring`], for `LRANGE`, `LTRIM` and `ZRANGE`: an end before the first element leaves nothing.
pub fn list(start: i64, end: i64, len: u64) -> Option<Range<u64>> {
    clamp(from_end(start, len).max(0), from_end(end, len), len)
}

/// The length of a string of `len` bytes after `added` bytes were written at `offset`, as `SETRANGE` does.
/// `None` when that is more than `len_max`.
pub fn extent(len: usize, offset: usize, added: usize, len_max: usize) -> Option<usize> {
    let end = offset.checked_add(added)?;
    (end <= len_max).then_some(end.max(len))
}

fn from_end(index: i64, len: u64) -> i128 {
    if index < 0 { i128::from(index) + i128::from(len) } else { i128::from(index) }
}

fn clamp(start: i128, end: i128, len: u64) -> Option<Range<u64>> {
    let after = (end + 1).min(i128::from(len));
    (start < after).then_some(start as u64..after as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substrings() {
        assert_eq!(substring(0, -1, 3), Some(0..3));
        assert_eq!(substring(-2, -1, 3), Some(1..3));
        assert_eq!(substring(-100, 100, 3), Some(0..3));
        assert_eq!(substring(-5, -4, 3), Some(0..1));
        assert_eq!(substring(-4, -5, 3), None);
        assert_eq!(between(-4, -5, 3), Some(0..1));
        assert_eq!(substring(2, 1, 3), None);
        assert_eq!(substring(3, 9, 3), None);
        assert_eq!(substring(0, -1, 0), None);
        assert_eq!(substring(i64::MIN, i64::MAX, 3), Some(0..3));
    }

    #[test]
    fn lists() {
        assert_eq!(list(0, -1, 3), Some(0..3));
        assert_eq!(list(-5, -4, 3), None);
        assert_eq!(list(1, 1, 3), Some(1..2));
        assert_eq!(list(0, i64::MIN, 3), None);
        assert_eq!(list(0, 0, 0), None);
    }

    #[test]
    fn extents() {
        assert_eq!(extent(3, 1, 1, 10), Some(3));
        assert_eq!(extent(3, 5, 5, 10), Some(10));
        assert_eq!(extent(3, 6, 5, 10), None);
        assert_eq!(extent(3, usize::MAX, 5, 10), None);
    }
}
