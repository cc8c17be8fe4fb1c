//! The footer of what DUMP and FUNCTION DUMP answer: the version of the format (2 bytes) and a checksum of everything before (8 bytes), least
//! significant byte first.

use almandine_datatypes::rdb;

/// The version that Redis 7.0 writes, which all younger ones read.
const VERSION: u16 = 10;
/// The youngest version whose strings are known: Redis 8's.
const VERSION_MAX: u16 = 13;
/// The version that Valkey 9 writes.
const VERSION_VALKEY: u16 = 80;
const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;

/// Appends the footer.
pub fn seal(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = rdb::checksum(0, payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// The payload without its footer, if the footer is right.
#[must_use]
pub fn open(payload: &[u8]) -> Option<&[u8]> {
    let (summed, checksum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (content, version) = summed.split_last_chunk::<VERSION_BYTES>()?;
    let version = u16::from_le_bytes(*version);
    let known = version <= VERSION_MAX || version == VERSION_VALKEY;
    (known && rdb::checksum(0, summed) == u64::from_le_bytes(*checksum)).then_some(content)
}
