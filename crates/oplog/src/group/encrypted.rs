//! What stands behind the head of a part whose body is encrypted.

use crate::encryption::{KeyMark, MARK_BYTES, SALT_BYTES, TAG_BYTES};

/// Bytes of it.
pub const ENCRYPTION_BYTES: usize = MARK_BYTES + SALT_BYTES + 8 + TAG_BYTES;
const SALT_AT: usize = MARK_BYTES;
const COUNT_AT: usize = SALT_AT + SALT_BYTES;
const TAG_AT: usize = COUNT_AT + 8;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartEncryption {
    /// Which key.
    pub mark: KeyMark,
    /// The salt of its segment.
    pub salt: [u8; SALT_BYTES],
    /// Its count there.
    pub count: u64,
    /// What authenticates head and body.
    pub tag: [u8; TAG_BYTES],
}

impl PartEncryption {
    /// As it lies in a segment.
    #[must_use]
    pub fn encode(&self) -> [u8; ENCRYPTION_BYTES] {
        let mut bytes = [0; ENCRYPTION_BYTES];
        bytes[..SALT_AT].copy_from_slice(&self.mark.encode());
        bytes[SALT_AT..COUNT_AT].copy_from_slice(&self.salt);
        bytes[COUNT_AT..TAG_AT].copy_from_slice(&self.count.to_le_bytes());
        bytes[TAG_AT..].copy_from_slice(&self.tag);
        bytes
    }

    /// Reads what [`Self::encode`] makes.
    #[must_use]
    pub fn decode(bytes: &[u8; ENCRYPTION_BYTES]) -> Self {
        let mut read = Self { mark: bytes.first_chunk().map(KeyMark::decode).unwrap_or_default(), ..Self::default() };
        read.salt.copy_from_slice(&bytes[SALT_AT..COUNT_AT]);
        read.count = bytes[COUNT_AT..].first_chunk().map_or(0, |count| u64::from_le_bytes(*count));
        read.tag.copy_from_slice(&bytes[TAG_AT..]);
        read
    }
}
