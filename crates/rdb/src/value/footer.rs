//! The footer of a payload: the version of the format (2 bytes) and a checksum of everything before (8 bytes), least significant
//! byte first.
//!
//! The version says which server's type bytes precede it: Valkey left Redis' numbering after version 11 and counts from 80.

use crate::checksum;

/// The version that Redis 7.0 writes, which all younger ones read.
pub const VERSION_REDIS_7_0: u16 = 10;
/// The version that Redis 7.2 writes, the first whose sets are listpacks.
pub const VERSION_REDIS_7_2: u16 = 11;
/// The version that Redis 7.4 writes, the first whose hashes have fields that expire.
pub const VERSION_REDIS_7_4: u16 = 12;
/// The version that Redis 8.6 writes, the first whose streams have producers.
pub const VERSION_REDIS_8_6: u16 = 13;
/// The youngest version of Redis that is known: 8.10 writes it. Strings and the hashes here are in it what they were before.
pub const VERSION_REDIS_MAX: u16 = 15;
/// The version that Valkey 9 writes, the first of its own.
pub const VERSION_VALKEY_9: u16 = 80;

const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;

/// Appends the footer.
pub fn seal(payload: &mut Vec<u8>, version: u16) {
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = checksum(0, payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// What is not asked of a payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leniency {
    /// That its version is known.
    pub any_version: bool,
    /// That its checksum is right.
    pub any_checksum: bool,
}

/// The payload without its footer, and its version. `None` when the version is not known, or the checksum is wrong.
#[must_use]
pub fn open(payload: &[u8]) -> Option<(&[u8], u16)> {
    open_leniently(payload, Leniency::default())
}

/// As [`open`], with less asked.
#[must_use]
pub fn open_leniently(payload: &[u8], leniency: Leniency) -> Option<(&[u8], u16)> {
    let (summed, sum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (content, version) = summed.split_last_chunk::<VERSION_BYTES>()?;
    let version = u16::from_le_bytes(*version);
    let known = leniency.any_version || version <= VERSION_REDIS_MAX || version == VERSION_VALKEY_9;
    (known && (leniency.any_checksum || checksum(0, summed) == u64::from_le_bytes(*sum))).then_some((content, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens() {
        for version in [VERSION_REDIS_7_0, 11, VERSION_REDIS_7_4, VERSION_REDIS_MAX, VERSION_VALKEY_9] {
            let mut payload = b"\x00\x01a".to_vec();
            seal(&mut payload, version);
            assert_eq!(open(&payload), Some((&b"\x00\x01a"[..], version)));
            for bit in 0..payload.len() * 8 {
                payload[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(open(&payload), None, "{version}, bit {bit}");
                payload[bit / 8] ^= 1 << (bit % 8);
            }
        }
        for version in [16, 79, 81] {
            let mut payload = Vec::new();
            seal(&mut payload, version);
            assert_eq!(open(&payload), None);
            let lenient = |any_version, any_checksum| open_leniently(&payload, Leniency { any_version, any_checksum });
            assert_eq!((lenient(true, false), lenient(false, true)), (Some((&b""[..], version)), None));
        }
        let unsummed = Leniency { any_checksum: true, ..Leniency::default() };
        assert_eq!(open_leniently(b"a\x0a\0........", unsummed), Some((&b"a"[..], VERSION_REDIS_7_0)));
    }
}
