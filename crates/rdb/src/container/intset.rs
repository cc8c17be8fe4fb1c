//! Intsets: small sets of integers, sorted, all of one width.
//!
//! ```text
//! width in bytes: 2, 4 or 8 (4)  number of members (4)  members …      all least significant byte first
//! ```

use almandine_datatypes::packed::element::little_endian;

const HEADER_BYTES: usize = 8;

/// An intset all of whose bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Intset<'i> {
    members: &'i [u8],
    width: usize,
}

impl<'i> Intset<'i> {
    /// Checks width, number and order of the members, of which there is at least one and none twice. `None` when anything is wrong.
    #[must_use]
    pub fn parse(bytes: &'i [u8]) -> Option<Self> {
        let ([a, b, c, d, len @ ..], members) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let width = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let len = u32::from_le_bytes(*len) as usize;
        if !matches!(width, 2 | 4 | 8) || len == 0 || len.checked_mul(width) != Some(members.len()) {
            return None;
        }
        let set = Self { members, width };
        set.iter().is_sorted_by(|one, next| one < next).then_some(set)
    }

    /// The number of members, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.members.len() / self.width
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i64> + use<'i> {
        self.members.chunks_exact(self.width).map(little_endian)
    }
}

/// Of an intset that was parsed before from the same bytes: the member behind which there are `left` others.
pub(crate) fn next(bytes: &[u8], left: usize) -> Option<i64> {
    let set = Intset { members: bytes.get(HEADER_BYTES..)?, width: usize::from(*bytes.first()?) };
    let index = set.members.len().checked_div(set.width)?.checked_sub(left + 1)?;
    set.members.get(index * set.width..(index + 1) * set.width).map(little_endian)
}

/// Writes ascending `members` in the least width that holds them all. `None` when there is none, or more than 32 bits can count.
#[must_use]
pub fn write(members: &[i64]) -> Option<Vec<u8>> {
    debug_assert!(members.is_sorted_by(|one, next| one < next), "members of an intset ascend");
    let (least, most) = (*members.first()?, *members.last()?);
    let fits = |bits: u32| least >= -1 << (bits - 1) && most < 1 << (bits - 1);
    let width: u8 = if fits(16) {
        2
    } else if fits(32) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + members.len() * usize::from(width));
    bytes.extend_from_slice(&u32::from(width).to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(members.len()).ok()?.to_le_bytes());
    for member in members {
        bytes.extend(member.to_le_bytes().into_iter().take(usize::from(width)));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (members, width) in [
            (&[-32_768, 0, 32_767][..], 2),
            (&[-32_769], 4),
            (&[0, 32_768], 4),
            (&[-1 << 31, (1 << 31) - 1], 4),
            (&[-1, 1 << 31], 8),
            (&[i64::MIN, i64::MAX], 8),
        ] {
            let bytes = write(members).unwrap();
            assert_eq!(bytes.len(), 8 + width * members.len());
            let set = Intset::parse(&bytes).unwrap();
            assert_eq!(set.len(), members.len());
            assert_eq!(set.iter().collect::<Vec<_>>(), members);
        }
        assert_eq!(write(&[]), None);
        assert_eq!(write(&[1, 2]).unwrap(), [2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0]);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = write(&[1, 2, 3]).unwrap();
        for len in 0..good.len() {
            assert!(Intset::parse(&good[..len]).is_none());
        }
        for (at, byte) in [(0, 3), (0, 4), (4, 2), (8, 2), (8, 9), (7, 0x80)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(Intset::parse(&bad).is_none(), "byte {at}");
        }
        assert!(Intset::parse(&[2, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
