//! Groups: the units of a closed cut, as they lie in a segment.
//!
//! A group is one part or several, each with a head of its own and padded to lines or blocks; recovery ends at the end of a group
//! and nowhere else. The bodies of its parts, one after the other, are [`slices`].
//!
//! ```text
//! part   | head, 128 bytes | body | zeroes up to a multiple of 4 KiB, or of 64 bytes where a flag says so |
//!
//! head   |   0  magic, 8 bytes          |   8  format, 2       |  10  flags, 2        |  12  part of the group, 4 |
//!        |  16  log, 16                 |  32  run, 8          |  40  segment, 8      |  48  LSN, 8               |
//!        |  56  bytes of the body, 4    |  60  units, 4        |  64  epoch, 8        |  72  durable LSN, 8       |
//!        |  80  base, 8                 |  88  unix time ms, 8 |  96  replication, 8  | 104  source, 8            |
//!        | 112  sum of the part before, 4 | 116  sum of this part, 4 | 120  zeroes, 4  | 124  sum of the head, 4   |
//!
//! format 2, whose body is encrypted (see [`crate::encryption`]):
//! head   | as above               | 128  mark of the key, 24 | 152  salt of the segment, 16 | 168  count, 8 | 176  tag, 16 |
//! ```
//!
//! All numbers have their least significant byte first. An LSN counts the bytes of all parts since the log began; so it says where
//! in its segment a part lies. The sum of a part is that of its body behind the sum of the part before, so a part that belongs to
//! another past is not taken for the next one. Of an encrypted part it is the sum of what lies there: bytes 128 on, and the body.
//! The tag authenticates the body with bytes 0 to 115 of the head, behind which come twelve zeroes.

mod encrypted;
mod slices;

pub use self::encrypted::{ENCRYPTION_BYTES, PartEncryption};
pub(crate) use self::slices::SLICE_HEAD_BYTES;
pub use self::slices::{LogSlice, Slices};
use crate::crc32c::sum;

/// What parts are padded to, and begin at, that pass by the page cache or are the last ones before a sync.
pub const BLOCK_BYTES: usize = 4096;
/// What others are padded to.
pub const LINE_BYTES: usize = 64;
/// Bytes of a head, without what a part that is encrypted has behind it.
pub const HEAD_BYTES: usize = 128;
/// The longest part, head and padding included.
pub const PART_BYTES_MAX: usize = 1 << 20;
/// The format of plain parts.
const FORMAT: u16 = 1;
/// That of encrypted ones.
const ENCRYPTED: u16 = 2;
const MAGIC: [u8; 8] = *b"ALMDNLOG";
const ENDS_GROUP: u16 = 1;
const IS_SEAL: u16 = 2;
const IS_PACKED: u16 = 4;
/// Where a head has its own sum, behind that of the part before.
const SUMS_AT: usize = 116;

/// How a part ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartEnd {
    /// Whether it is the last one of its group.
    pub of_group: bool,
    /// Whether it is padded to lines, and not to blocks.
    pub in_line: bool,
}

/// What stands in front of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The log that it belongs to.
    pub log: u128,
    /// The run that wrote it.
    pub run: u64,
    /// The segment that it lies in.
    pub segment: u64,
    /// Where it begins.
    pub lsn: u64,
    /// Its place in its group; the first one has 0.
    pub part: u32,
    /// What ends with it.
    pub end: PartEnd,
    /// Bytes of the body, without the padding.
    pub body_bytes: u32,
    /// Units of the slices that begin in it.
    pub units: u32,
    /// All units of commit epochs up to this one are in this group and those before.
    pub epoch: u64,
    /// All before this was durable when the part was written.
    pub durable_lsn: u64,
    /// The base that the log had then; 0 for none.
    pub base: u64,
    /// When it was written: milliseconds since 1970.
    pub unix_ms: i64,
    /// Where the stream to replicas was, and that from a source.
    pub offsets: (u64, u64),
    /// The sum of the part before.
    pub before: u32,
    /// Its own sum.
    pub sum: u32,
    /// How its body is encrypted, if it is.
    pub encryption: Option<PartEncryption>,
}

/// Why bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    /// Nothing like a head, or a damaged one.
    Damaged,
    /// A whole head of a format, or with flags, that this program does not know.
    Unknown(u16),
}

impl PartHead {
    /// Where in its segment the next part begins, if it begins at an offset itself.
    #[must_use]
    pub fn end_offset(&self, offset: u64) -> u64 {
        let padded_to = if self.end.in_line { LINE_BYTES } else { BLOCK_BYTES };
        (offset + self.bytes() as u64).next_multiple_of(padded_to as u64)
    }

    /// Bytes of it and its body, without the padding.
    fn bytes(&self) -> usize {
        self.head_bytes() + self.body_bytes as usize
    }

    /// Bytes before the body.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        HEAD_BYTES + if self.encryption.is_some() { ENCRYPTION_BYTES } else { 0 }
    }

    /// What is authenticated with the body: all but the sums of what is there encrypted.
    #[must_use]
    pub fn authenticated(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = self.encode();
        bytes[SUMS_AT..].fill(0);
        bytes
    }

    /// As it lies in a segment, but for how it is encrypted.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&(if self.encryption.is_some() { ENCRYPTED } else { FORMAT }).to_le_bytes());
        put(&self.flags().to_le_bytes());
        put(&self.part.to_le_bytes());
        put(&self.log.to_le_bytes());
        put(&self.run.to_le_bytes());
        put(&self.segment.to_le_bytes());
        put(&self.lsn.to_le_bytes());
        put(&self.body_bytes.to_le_bytes());
        put(&self.units.to_le_bytes());
        put(&self.epoch.to_le_bytes());
        put(&self.durable_lsn.to_le_bytes());
        put(&self.base.to_le_bytes());
        put(&self.unix_ms.to_le_bytes());
        put(&self.offsets.0.to_le_bytes());
        put(&self.offsets.1.to_le_bytes());
        put(&self.before.to_le_bytes());
        put(&self.sum.to_le_bytes());
        let head = sum(&bytes[..HEAD_BYTES - 4]);
        bytes[HEAD_BYTES - 4..].copy_from_slice(&head.to_le_bytes());
        bytes
    }

    fn flags(&self) -> u16 {
        let set = |is_set, flag| if is_set { flag } else { 0 };
        set(self.end.of_group, ENDS_GROUP) | set(self.body_bytes == 0, IS_SEAL) | set(self.end.in_line, IS_PACKED)
    }

    /// The head at the beginning of `bytes`.
    ///
    /// # Errors
    /// When there is none that this program understands.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoHead> {
        let behind = bytes.get(HEAD_BYTES..).unwrap_or_default();
        let bytes: &[u8; HEAD_BYTES] = bytes.first_chunk().ok_or(NoHead::Damaged)?;
        let mut fields = Fields(bytes);
        let is_whole = || bytes.ends_with(&sum(&bytes[..HEAD_BYTES - 4]).to_le_bytes());
        if fields.take() != MAGIC || !is_whole() {
            return Err(NoHead::Damaged);
        }
        let (format, flags) = (u16::from_le_bytes(fields.take()), u16::from_le_bytes(fields.take()));
        let encryption = match format {
            FORMAT => None,
            ENCRYPTED => Some(behind.first_chunk().map(PartEncryption::decode).ok_or(NoHead::Damaged)?),
            _ => return Err(NoHead::Unknown(format)),
        };
        let head = Self {
            part: u32::from_le_bytes(fields.take()),
            end: PartEnd { of_group: flags & ENDS_GROUP != 0, in_line: flags & IS_PACKED != 0 },
            log: u128::from_le_bytes(fields.take()),
            run: u64::from_le_bytes(fields.take()),
            segment: u64::from_le_bytes(fields.take()),
            lsn: u64::from_le_bytes(fields.take()),
            body_bytes: u32::from_le_bytes(fields.take()),
            units: u32::from_le_bytes(fields.take()),
            epoch: u64::from_le_bytes(fields.take()),
            durable_lsn: u64::from_le_bytes(fields.take()),
            base: u64::from_le_bytes(fields.take()),
            unix_ms: i64::from_le_bytes(fields.take()),
            offsets: (u64::from_le_bytes(fields.take()), u64::from_le_bytes(fields.take())),
            before: u32::from_le_bytes(fields.take()),
            sum: u32::from_le_bytes(fields.take()),
            encryption,
        };
        // A flag that is not known changes what the part means.
        if head.flags() != flags || head.bytes() > PART_BYTES_MAX {
            return Err(NoHead::Unknown(format));
        }
        Ok(head)
    }
}

/// Reads fields one after the other.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *field
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::KeyMark;

    fn head() -> PartHead {
        PartHead {
            log: 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100,
            run: 3,
            segment: 5,
            lsn: 0x2000,
            part: 1,
            end: PartEnd { of_group: true, in_line: false },
            body_bytes: 4000,
            units: 7,
            epoch: 9,
            durable_lsn: 0x1000,
            base: 2,
            unix_ms: 1_700_000_000_123,
            offsets: (11, 12),
            before: 0xAABB_CCDD,
            sum: 0x1122_3344,
            encryption: None,
        }
    }

    /// The layout is fixed: logs outlive the program.
    #[test]
    fn head_bytes_are_pinned() {
        let golden = "\
            414c4d444e4c4f47 0100 0100 01000000 000102030405060708090a0b0c0d0e0f \
            0300000000000000 0500000000000000 0020000000000000 a00f0000 07000000 \
            0900000000000000 0010000000000000 0200000000000000 7b68e5cf8b010000 \
            0b00000000000000 0c00000000000000 ddccbbaa 44332211 00000000 ";
        let bytes = head().encode();
        let hex: String = bytes[..124].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden.replace(' ', ""));
        assert_eq!(bytes[124..], sum(&bytes[..124]).to_le_bytes());
        assert_eq!((head().end_offset(0x2000), head().end_offset(0x2FC0)), (0x4000, 0x4000));
    }

    #[test]
    fn a_head_is_read_as_written_and_no_flipped_bit_passes() {
        assert_eq!(PartHead::decode(&head().encode()), Ok(head()));
        let seal = PartHead { body_bytes: 0, ..head() };
        assert_eq!(PartHead::decode(&seal.encode()), Ok(seal));
        let packed = PartHead { end: PartEnd { of_group: true, in_line: true }, ..head() };
        assert_eq!(PartHead::decode(&packed.encode()), Ok(packed));
        assert_eq!((packed.encode()[10], packed.end_offset(64)), (5, 64 + 4160), "128 and 4,000 bytes, in lines of 64");
        for bit in 0..HEAD_BYTES * 8 {
            let mut bytes = head().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PartHead::decode(&bytes), Err(NoHead::Damaged), "{bit}");
        }
        assert_eq!(PartHead::decode(&head().encode()[..HEAD_BYTES - 1]), Err(NoHead::Damaged));
    }

    /// Its head is that of a plain part but for the format, so that an earlier program knows it as one that it does not know.
    #[test]
    fn the_head_of_an_encrypted_part_is_pinned() {
        let mark = KeyMark::parse("one", "0123456789abcdef").unwrap();
        let encryption = PartEncryption { mark, salt: [5; 16], count: 0x0807, tag: [6; 16] };
        let encrypted = PartHead { encryption: Some(encryption), ..head() };
        let (mut plain, bytes) = (head().encode(), encrypted.encode());
        plain[8] = 2;
        assert_eq!(bytes[..124], plain[..124]);
        assert_eq!(bytes[124..], sum(&bytes[..124]).to_le_bytes());
        assert_eq!(encrypted.authenticated()[..116], plain[..116]);
        assert_eq!(encrypted.authenticated()[116..], [0; 12]);
        let golden = "6f6e6500000000000000000000000000 0123456789abcdef 05050505050505050505050505050505 0708000000000000 \
            06060606060606060606060606060606";
        let hex: String = encryption.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden.replace(' ', ""));
        assert_eq!((encrypted.head_bytes(), encrypted.end_offset(4096)), (192, 4096 + 8192));
        let whole = [&bytes[..], &encryption.encode()].concat();
        assert_eq!(PartHead::decode(&whole), Ok(encrypted));
        assert_eq!(PartHead::decode(&whole[..191]), Err(NoHead::Damaged));
    }

    #[test]
    fn what_a_later_program_writes_is_not_guessed() {
        for (at, value) in [(8, 3), (10, 8), (59, 1)] {
            let mut bytes = head().encode();
            bytes[at] = value;
            let fresh = sum(&bytes[..124]).to_le_bytes();
            bytes[124..].copy_from_slice(&fresh);
            assert!(matches!(PartHead::decode(&bytes), Err(NoHead::Unknown(_))), "{at}");
        }
    }
}
