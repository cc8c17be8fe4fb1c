//! The bytes that do not depend on keys, and what is wrong with a file.

use std::fmt;
use std::io;

use almandine_keyspace::Refusal;
use almandine_oplog::crc32c;
use almandine_oplog::encryption::{FileCipher, KeyMark, MARK_BYTES, NoKey, SALT_BYTES};

pub(super) const MAGIC: [u8; 8] = *b"ALMDBASE";
/// The format that is written. Bases of format 1 have no libraries, and the databases without a number.
pub(super) const FORMAT: u16 = 2;
/// The same, with entries that are encrypted.
pub(super) const ENCRYPTED_FORMAT: u16 = 3;
/// Of the mark of a key, a salt and their sum, behind the head of an encrypted file.
pub(super) const ENCRYPTION_BYTES: usize = MARK_BYTES + SALT_BYTES + 4;
pub(super) const HEAD_BYTES: usize = 64;
/// Of a block, its sum included.
pub(super) const BLOCK_HEAD_BYTES: usize = 28;
/// In place of a block's number of keys: it is the last one.
pub(super) const LAST: u32 = u32::MAX;
/// In place of a block's number of keys: its entries are libraries of functions.
pub(super) const LIBRARIES: u32 = u32::MAX - 1;
/// Of a database in the last block.
pub(super) const DATABASE_BYTES: usize = 18;

/// The lower bits of a tag are the kind.
pub(super) const KIND: u8 = 15;
pub(super) const EXPIRY: u8 = 16;
pub(super) const ETAG: u8 = 32;
pub(super) const EDITED: u8 = 64;
pub(super) const PARTS: u8 = 128;
/// In place of a tag: a part of the value of the key before.
pub(super) const PART: u8 = 255;

/// What a file says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseHead {
    /// The log that it is the base of.
    pub log: u128,
    /// Its number, which no other base of the log has.
    pub base: u64,
    /// Where redo begins.
    pub lsn: u64,
    /// The seed of the hashes that the order of scans follows.
    pub seed: u64,
    /// Which part of the base the file is,
    pub part: u16,
    /// of how many.
    pub parts: u16,
}

impl BaseHead {
    pub(super) fn to_bytes(self, format: u16) -> [u8; HEAD_BYTES] {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        for number in [format, self.part, self.parts, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.log.to_le_bytes());
        for number in [self.base, self.lsn, self.seed] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&crc32c::sum(&bytes).to_le_bytes());
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&bytes);
        head
    }

    /// The head, and the format of what is behind it.
    pub(super) fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<(Self, u16), BaseFault> {
        let (summed, sum) = bytes.split_at(HEAD_BYTES - 4);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        if !bytes.starts_with(&MAGIC) {
            return Err(BaseFault::NoBase);
        }
        if crc32c::sum(summed).to_le_bytes() != *sum {
            return Err(BaseFault::Damaged);
        }
        let format = u16_at(8);
        if !(1..=ENCRYPTED_FORMAT).contains(&format) {
            return Err(BaseFault::Format(format));
        }
        let log = bytes[16..].first_chunk().map_or(0, |chunk| u128::from_le_bytes(*chunk));
        let head = Self { log, base: u64_at(32), lsn: u64_at(40), seed: u64_at(48), part: u16_at(10), parts: u16_at(12) };
        Ok((head, format))
    }
}

/// The sum of a head, which the first block's follows.
pub(super) fn sum_of_head(head: &[u8; HEAD_BYTES]) -> u32 {
    head.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum))
}

/// What is behind the head of an encrypted file, which has this sum.
pub(super) fn encryption_bytes(sum_of_head: u32, cipher: &FileCipher) -> [u8; ENCRYPTION_BYTES] {
    let mut bytes = [0; ENCRYPTION_BYTES];
    bytes[..MARK_BYTES].copy_from_slice(&cipher.mark().encode());
    bytes[MARK_BYTES..ENCRYPTION_BYTES - 4].copy_from_slice(&cipher.salt());
    let sum = sum(sum_of_head, &bytes[..ENCRYPTION_BYTES - 4], &[]);
    bytes[ENCRYPTION_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Which key, the salt, and the sum that the first block's follows.
pub(super) fn parse_encryption(
    sum_of_head: u32,
    bytes: &[u8; ENCRYPTION_BYTES],
) -> Result<(KeyMark, [u8; SALT_BYTES], u32), BaseFault> {
    let (summed, expected) = bytes.split_at(ENCRYPTION_BYTES - 4);
    let sum = sum(sum_of_head, summed, &[]);
    if sum.to_le_bytes() != *expected {
        return Err(BaseFault::Damaged);
    }
    let mark = bytes.first_chunk().map(KeyMark::decode).unwrap_or_default();
    let salt = bytes[MARK_BYTES..].first_chunk().copied().unwrap_or_default();
    Ok((mark, salt, sum))
}

/// What is authenticated with the entries of an encrypted block: the head of the file, and that of the block without its sum.
pub(super) fn authenticated(file: &[u8; HEAD_BYTES], block: &[u8]) -> Vec<u8> {
    [&file[..], block].concat()
}

/// The sum of a block, whose head is without its own.
pub(super) fn sum(before: u32, head: &[u8], entries: &[u8]) -> u32 {
    crc32c::added(crc32c::added(crc32c::sum(&before.to_le_bytes()), head), entries)
}

/// Appends a number.
pub(super) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the beginning of `bytes`.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.split_off_first()?;
        let bits = u64::from(byte & 127);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum BaseFault {
    /// It cannot be read.
    Io(io::Error),
    /// Its first bytes are not those of a base.
    NoBase,
    /// It is of a format that is not known.
    Format(u16),
    /// It ends too early.
    Truncated,
    /// It is encrypted, and its key is not there.
    Key(NoKey),
    /// Its bytes do not have their checksum, or do not mean anything.
    Damaged,
    /// It is not the file that was asked for.
    Another,
    /// A key cannot be put into the keyspace.
    Refused(almandine_keyspace::Refusal),
    /// What it names on the device is not there.
    Device(almandine_keyspace::AdoptFault),
}

impl From<io::Error> for BaseFault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

impl fmt::Display for BaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "it cannot be read: {error}"),
            Self::NoBase => write!(f, "it is no base of a log"),
            Self::Format(number) => write!(f, "it is of format {number}, which this version does not know"),
            Self::Truncated => write!(f, "it ends too early"),
            Self::Damaged => write!(f, "its bytes are damaged"),
            Self::Key(why) => write!(f, "{why}"),
            Self::Another => write!(f, "it belongs to another log or base"),
            Self::Device(fault) => write!(f, "{fault}"),
            Self::Refused(Refusal::Missing(_)) => write!(f, "a record of the storage cannot be read, or is damaged"),
            Self::Refused(refusal) => write!(f, "a key does not fit into memory: {refusal:?}"),
        }
    }
}

impl std::error::Error for BaseFault {}
