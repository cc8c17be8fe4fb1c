//! Lines that announce a length: `*2\r\n`, `$16\r\n`.
//!
//! [`quick`] recognises the canonical form of up to five digits from one or two word loads, and declines everything else. [`count`]
//! and [`bulk`] decide everything: they know every limit and every error.

use super::Limits;
use crate::error::ProtocolError;

/// Arguments of a command before authentication.
const UNAUTHENTICATED_COUNT_MAX: usize = 10;

/// Bytes of an argument before authentication.
const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

/// [`Limits`], prepared for comparing.
pub(super) struct Bounds {
    count_max: i64,
    bulk_max: i64,
    authenticated: bool,
    pub(super) line_bytes_max: usize,
    /// Counts up to this need no further check.
    pub(super) count_quick_max: usize,
    /// Argument lengths up to this need no further check.
    pub(super) bulk_quick_max: usize,
}

impl Bounds {
    #[inline]
    pub(super) fn new(limits: &Limits) -> Self {
        // A count is kept in 31 bits.
        let count_max = limits.multibulk_max.min(i32::MAX as usize);
        let bulk_max = limits.bulk_bytes_max.min(i64::MAX as usize);
        let (count_quick_max, bulk_quick_max) = if limits.authenticated {
            (count_max, bulk_max)
        } else {
            (count_max.min(UNAUTHENTICATED_COUNT_MAX), bulk_max.min(UNAUTHENTICATED_BULK_BYTES_MAX))
        };
        Self {
            count_max: count_max as i64,
            bulk_max: bulk_max as i64,
            authenticated: limits.authenticated,
            line_bytes_max: limits.inline_bytes_max,
            count_quick_max,
            bulk_quick_max,
        }
    }
}

/// What a header line says.
pub(super) enum Line {
    /// It announces `value`; `next` is the first byte behind it.
    Length { value: usize, next: usize },
    /// The input ends first; the line does not end before `searched`.
    Incomplete { searched: usize },
}

/// Where a line ends.
pub(super) enum Search {
    /// At its terminator.
    Found(usize),
    /// Not in the input, and not before `searched` when there is more of it.
    Unfinished { searched: usize },
    /// Not within the limit.
    TooLong,
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// The length at `at`, and the first byte behind its line, when it is canonical and of at most five digits.
#[inline(always)]
pub(super) fn quick(input: &[u8], at: usize, lead: u8) -> Option<(usize, usize)> {
    let rest = input.get(at..)?;
    let word = u32::from_le_bytes(*rest.first_chunk()?);
    let digit = (word >> 8) as u8;
    if word & 0xFFFF_00FF == u32::from_le_bytes([lead, 0, b'\r', b'\n']) && digit.is_ascii_digit() {
        return Some((usize::from(digit - b'0'), at + 4));
    }
    let word = u64::from_le_bytes(*rest.first_chunk()?);
    let (first, second, third) = ((word >> 8) as u8, (word >> 16) as u8, (word >> 24) as u8);
    if word & 0xFF_FF00_00FF == u64::from_le_bytes([lead, 0, 0, b'\r', b'\n', 0, 0, 0])
        && matches!(first, b'1'..=b'9')
        && second.is_ascii_digit()
    {
        return Some((usize::from(first - b'0') * 10 + usize::from(second - b'0'), at + 5));
    }
    if word & 0xFFFF_0000_00FF == u64::from_le_bytes([lead, 0, 0, 0, b'\r', b'\n', 0, 0])
        && matches!(first, b'1'..=b'9')
        && second.is_ascii_digit()
        && third.is_ascii_digit()
    {
        let pair = usize::from(first - b'0') * 10 + usize::from(second - b'0');
        return Some((pair * 10 + usize::from(third - b'0'), at + 6));
    }
    if word as u8 != lead || first == b'0' {
        return None;
    }
    // The lowest zero byte of `gap` is the first `\r`; bytes above it may be flagged wrongly, which does not matter.
    let gap = word ^ (ONES * b'\r' as u64);
    let end = (gap.wrapping_sub(ONES) & !gap & (ONES * 0x80)).trailing_zeros() as usize / 8;
    if !(2..=6).contains(&end) {
        return None;
    }
    let shift = 8 * (end as u32 - 1);
    let digits = (word >> 8) << (64 - shift) ^ (ONES * b'0' as u64) << (64 - shift);
    if (digits | digits.wrapping_add(ONES * 6)) & (ONES * 0xF0) != 0 {
        return None;
    }
    // Neighbours are combined to pairs, quads, and the whole; the first digit is in the lowest byte.
    let pairs = digits.wrapping_mul(10 * 0x100 + 1) >> 8 & 0x00FF_00FF_00FF_00FF;
    let quads = pairs.wrapping_mul(100 * 0x1_0000 + 1) >> 16 & 0x0000_FFFF_0000_FFFF;
    let value = quads.wrapping_mul(10_000 * 0x1_0000_0000 + 1) >> 32;
    Some((value as usize, at + end + 2))
}

/// The number of arguments announced at `start`: 0 stands for every count below 1.
#[cold]
pub(super) fn count(input: &[u8], start: usize, searched: usize, bounds: &Bounds) -> Result<Line, ProtocolError> {
    let end = match line(input, start, searched, bounds.line_bytes_max) {
        Search::Found(end) => end,
        Search::Unfinished { searched } => return Ok(Line::Incomplete { searched }),
        Search::TooLong => return Err(ProtocolError::MultibulkCountTooBig),
    };
    match integer(&input[start + 1..end]) {
        Some(count) if count > bounds.count_max => Err(ProtocolError::InvalidMultibulkLength),
        Some(count) if count > UNAUTHENTICATED_COUNT_MAX as i64 && !bounds.authenticated => {
            Err(ProtocolError::UnauthenticatedMultibulkLength)
        }
        Some(count) => Ok(Line::Length { value: count.max(0) as usize, next: end + 2 }),
        None => Err(ProtocolError::InvalidMultibulkLength),
    }
}

/// The argument length announced at `at`.
#[cold]
pub(super) fn bulk(input: &[u8], at: usize, searched: usize, bounds: &Bounds) -> Result<Line, ProtocolError> {
    let end = match line(input, at, searched, bounds.line_bytes_max) {
        Search::Found(end) => end,
        Search::Unfinished { searched } => return Ok(Line::Incomplete { searched }),
        Search::TooLong => return Err(ProtocolError::BulkCountTooBig),
    };
    if input[at] != b'$' {
        return Err(ProtocolError::ExpectedBulk { found: input[at] });
    }
    match integer(&input[at + 1..end]) {
        Some(len) if !(0..=bounds.bulk_max).contains(&len) => Err(ProtocolError::InvalidBulkLength),
        Some(len) if len > UNAUTHENTICATED_BULK_BYTES_MAX as i64 && !bounds.authenticated => {
            Err(ProtocolError::UnauthenticatedBulkLength)
        }
        Some(len) => Ok(Line::Length { value: len as usize, next: end + 2 }),
        None => Err(ProtocolError::InvalidBulkLength),
    }
}

/// Finds the `\r` of the header line at `at`. The line is complete with the byte after it, whatever that is.
fn line(input: &[u8], at: usize, searched: usize, max: usize) -> Search {
    match find(input, at, searched, b'\r', max) {
        Search::Found(end) if end + 2 > input.len() => Search::Unfinished { searched: end },
        search => search,
    }
}

/// Finds `terminator` in the line at `at`, from `searched` on. A NUL hides what is behind it.
pub(super) fn find(input: &[u8], at: usize, searched: usize, terminator: u8, max: usize) -> Search {
    // Bytes beyond the limit are not searched, so that the verdict does not depend on how many came at once.
    let window = &input[..input.len().min(at.saturating_add(max).saturating_add(1))];
    let searched = searched.min(window.len());
    let stop = memchr::memchr2(terminator, 0, &window[searched..]).map_or(window.len(), |found| searched + found);
    if window.get(stop) == Some(&terminator) {
        Search::Found(stop)
    } else if input.len() - at > max {
        Search::TooLong
    } else {
        Search::Unfinished { searched: stop }
    }
}

/// A decimal integer in its only canonical form: no sign but `-`, no leading zero, no space.
fn integer(digits: &[u8]) -> Option<i64> {
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    match unsigned {
        b"0" => (digits.len() == 1).then_some(0),
        [b'1'..=b'9', ..] => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_reads_every_canonical_length_of_five_digits() {
        for value in 0..100_000 {
            let line = format!("${value}\r\n0123456789");
            assert_eq!(quick(line.as_bytes(), 0, b'$'), Some((value, line.len() - 10)), "{line:?}");
        }
    }

    #[test]
    fn quick_declines_the_rest() {
        for line in [
            "$100000\r\nx",
            "$01\r\nxxxx",
            "$007\r\nxxxx",
            "$\r\nxxxxxx",
            "$-1\r\nxxxx",
            "$1a\r\nxxxx",
            "$1:3\r\nxxxx",
            "*12\r\nxxx",
            "$12\r\n",
            "$1\r",
        ] {
            assert_eq!(quick(line.as_bytes(), 0, b'$'), None, "{line:?}");
        }
        assert_eq!(quick(b"$1\r\n", 5, b'$'), None);
    }

    #[test]
    fn quick_agrees_with_the_exact_reading() {
        let alphabet = b"0159\r\n-+ :/$";
        let mut state = 7_u64;
        for _ in 0..200_000 {
            let mut line = *b"$0000000000";
            for byte in &mut line[1..] {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = alphabet[(state >> 33) as usize % alphabet.len()];
            }
            if let Some((value, next)) = quick(&line, 0, b'$') {
                let Ok(Line::Length { value: exact, next: after }) = bulk(&line, 0, 0, &Bounds::new(&Limits::default())) else {
                    panic!("only quick reads {:?}", line.escape_ascii().to_string());
                };
                assert_eq!((value, next), (exact, after));
            }
        }
    }

    #[test]
    fn integers_are_canonical() {
        for (text, value) in
            [("0", Some(0)), ("-5", Some(-5)), ("9223372036854775807", Some(i64::MAX)), ("-9223372036854775808", Some(i64::MIN))]
        {
            assert_eq!(integer(text.as_bytes()), value);
        }
        for text in ["", "-", "-0", "00", "+1", " 1", "1 ", "9223372036854775808", "1\u{e9}", "--1"] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
