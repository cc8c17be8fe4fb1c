//! The parts that a collection is written as, beside other work, and read from again.
//!
//! ```text
//! magic 3 | flags 1                                            flags: bit 0: the last part; bits 1-2: encoding
//! number of the part 4 | elements 4 | bytes of entries 4
//! checksum of all else 8                                       rapidhash
//! entries
//! ```
//!
//! The reader checks a part before it takes anything of it.

use almandine_base::object::Damaged;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_inline};

const HEADER: usize = 24;
const CHECKSUM: usize = 16;
const LAST: u8 = 1;

/// What tells the images of one type from those of others: two letters and a version.
pub(crate) type Magic = [u8; 3];

/// What a part's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its number, from 0 on.
    pub(crate) number: u32,
    /// Elements in it.
    pub(crate) count: u32,
    /// The number of the encoding that OBJECT ENCODING names.
    pub(crate) encoding: u8,
    /// No other follows.
    pub(crate) is_last: bool,
}

/// Appends room for a header. Returns where the part begins.
pub(crate) fn begin(out: &mut Vec<u8>) -> usize {
    let begin = out.len();
    out.resize(begin + HEADER, 0);
    begin
}

impl Part {
    /// Writes the header of a part that ends where `out` does.
    pub(crate) fn seal(self, magic: Magic, out: &mut [u8], begin: usize) {
        let part = &mut out[begin..];
        let bytes = (part.len() - HEADER) as u32;
        part[..3].copy_from_slice(&magic);
        part[3] = (self.encoding << 1) | if self.is_last { LAST } else { 0 };
        part[4..8].copy_from_slice(&self.number.to_le_bytes());
        part[8..12].copy_from_slice(&self.count.to_le_bytes());
        part[12..16].copy_from_slice(&bytes.to_le_bytes());
        let sum = checksum(part);
        part[CHECKSUM..HEADER].copy_from_slice(&sum.to_le_bytes());
    }

    /// The header and the entries of a part that has this number and is whole; of each entry, `entry` says the bytes.
    ///
    /// # Errors
    /// [`Damaged`]: it is not such a part.
    pub(crate) fn open(
        magic: Magic,
        number: u32,
        part: &[u8],
        entry: impl Fn(&[u8], usize) -> Option<usize>,
    ) -> Result<(Self, &[u8]), Damaged> {
        let (part, entries) = Self::parse(magic, part).ok_or(Damaged)?;
        let end = (0..part.count).try_fold(0, |at, _| Some(at + entry(entries, at)?));
        if part.number == number && end == Some(entries.len()) { Ok((part, entries)) } else { Err(Damaged) }
    }

    fn parse(magic: Magic, part: &[u8]) -> Option<(Self, &[u8])> {
        let (&[a, b, c, flags, n0, n1, n2, n3, c0, c1, c2, c3, l0, l1, l2, l3, ref sum @ ..], entries) =
            part.split_first_chunk::<HEADER>()?;
        let is_whole = u32::from_le_bytes([l0, l1, l2, l3]) as usize == entries.len();
        if [a, b, c] != magic || !is_whole || u64::from_le_bytes(*sum) != checksum(part) {
            return None;
        }
        let (number, count) = (u32::from_le_bytes([n0, n1, n2, n3]), u32::from_le_bytes([c0, c1, c2, c3]));
        Some((Self { number, count, encoding: (flags >> 1) & 3, is_last: flags & LAST != 0 }, entries))
    }
}

/// Of all of a part but the checksum itself.
fn checksum(part: &[u8]) -> u64 {
    let hash = |bytes| rapidhash_v3_inline::<true, false, false>(bytes, &DEFAULT_RAPID_SECRETS);
    hash(&part[..CHECKSUM]).rotate_left(1) ^ hash(&part[HEADER..])
}
