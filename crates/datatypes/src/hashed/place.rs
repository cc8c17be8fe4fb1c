//! Where a field belongs: its hash says the chunk, and how it is found there.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// The hash of fields. All hashes of a process have the same one, so that the cursor of a scan means the same in each of them: also
/// after a hash was packed and has become an object again.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    secrets: RapidSecrets,
    mask: u64,
}

impl Placement {
    /// The placement of a secret seed: clients choose the fields, and must not choose their places.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { secrets: RapidSecrets::seed(seed), mask: u64::MAX }
    }

    /// A placement of only `bits` bits, in which fields collide. For tests.
    #[must_use]
    pub fn weak(seed: u64, bits: u32) -> Self {
        Self { mask: !u64::MAX.checked_shr(bits).unwrap_or(0), ..Self::new(seed) }
    }

    /// The hash of a field.
    #[inline]
    #[must_use]
    pub fn hash(&self, field: &[u8]) -> u64 {
        rapidhash_v3_inline::<true, false, false>(field, &self.secrets) & self.mask
    }
}

/// What chunks are ordered by.
#[inline]
pub(crate) fn bound(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// What a field is found by in its chunk. Has nothing in common with [`bound`].
#[inline]
pub(super) fn tag(hash: u64) -> u8 {
    hash as u8
}
