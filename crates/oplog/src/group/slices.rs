//! What the body of a group holds: units, by the run and the ring that they come from.
//!
//! ```text
//! slice  | run, 8 bytes | ring, 2 | zeroes, 2 | bytes of the units, 4 | units … |      least significant byte first
//! ```
//!
//! The run is that of the group, except in the first group of a run, which may hold what the rings of an earlier run have left.

use crate::source::RingId;
use crate::unit::UnitHead;

/// Bytes in front of a slice's units.
pub(crate) const SLICE_HEAD_BYTES: usize = 16;

/// Units of one ring, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSlice<'b> {
    /// The run that did them.
    pub run: u64,
    /// The ring that they come from.
    pub ring: RingId,
    /// The units, each whole.
    pub units: &'b [u8],
}

impl LogSlice<'_> {
    /// What stands in front of its units.
    #[must_use]
    pub(crate) fn head(&self) -> [u8; SLICE_HEAD_BYTES] {
        let mut head = [0; SLICE_HEAD_BYTES];
        head[..8].copy_from_slice(&self.run.to_le_bytes());
        head[8..10].copy_from_slice(&self.ring.0.to_le_bytes());
        let bytes = u32::try_from(self.units.len()).unwrap_or(u32::MAX);
        debug_assert_eq!(bytes as usize, self.units.len(), "a slice is shorter than 4 GiB");
        head[12..].copy_from_slice(&bytes.to_le_bytes());
        head
    }

    /// The heads of its units; an error where they are not whole.
    pub fn heads(self) -> impl Iterator<Item = Result<UnitHead, CutShort>> {
        let mut rest = self.units;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let Some((head, _, behind)) = UnitHead::split(rest) else {
                rest = &[];
                return Some(Err(CutShort));
            };
            rest = behind;
            Some(Ok(head))
        })
    }
}

/// A body that is not what a writer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort;

/// The slices of a body.
#[derive(Clone, Debug)]
pub struct Slices<'b>(&'b [u8]);

impl<'b> Slices<'b> {
    /// Those of this body.
    #[must_use]
    pub fn new(body: &'b [u8]) -> Self {
        Self(body)
    }

    fn split(body: &'b [u8]) -> Option<(LogSlice<'b>, &'b [u8])> {
        let (run, rest) = body.split_first_chunk::<8>()?;
        let (ring, rest) = rest.split_first_chunk::<2>()?;
        let (zeroes, rest) = rest.split_first_chunk::<2>()?;
        let (bytes, rest) = rest.split_first_chunk::<4>()?;
        let (units, rest) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        let ring = RingId(u16::from_le_bytes(*ring));
        (*zeroes == [0; 2]).then_some((LogSlice { run: u64::from_le_bytes(*run), ring, units }, rest))
    }
}

impl<'b> Iterator for Slices<'b> {
    type Item = Result<LogSlice<'b>, CutShort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((slice, rest)) = Self::split(self.0) else {
            self.0 = &[];
            return Some(Err(CutShort));
        };
        self.0 = rest;
        Some(Ok(slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: u64, entries: &[u8]) -> Vec<u8> {
        let head = UnitHead { number, bytes: u32::try_from(entries.len()).unwrap(), entries: 1 };
        [&head.encode()[..], entries].concat()
    }

    #[test]
    fn slices_are_read_as_written_or_broken() {
        let units = [unit(4, b"one"), unit(9, b"")].concat();
        let (one, two) =
            (LogSlice { run: 3, ring: RingId(1), units: &units }, LogSlice { run: 2, ring: RingId(0x0201), units: &units[..19] });
        let body = [&one.head()[..], one.units, &two.head(), two.units].concat();
        assert_eq!(Slices::new(&body).collect::<Vec<_>>(), [Ok(one), Ok(two)]);
        assert_eq!(two.head(), [2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 19, 0, 0, 0]);
        let numbers: Vec<_> = one.heads().map(|head| head.map(|head| head.number)).collect();
        assert_eq!(numbers, [Ok(4), Ok(9)]);
        for len in 1..body.len() {
            let is_whole = Slices::new(&body[..len]).all(|slice| slice.is_ok());
            assert_eq!(is_whole, len == SLICE_HEAD_BYTES + units.len(), "{len}");
        }
        assert_eq!(LogSlice { units: &units[..20], ..one }.heads().last(), Some(Err(CutShort)));
    }
}
