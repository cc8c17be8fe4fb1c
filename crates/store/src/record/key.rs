//! Keys as sessions use them.

use std::sync::Arc;

/// A key with what was computed about it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// The namespace that the key is in.
    pub namespace: u16,
    /// What [`crate::Ahead::expect`] said of the key, if it was asked.
    pub glance: GlanceId,
    /// The key itself.
    pub bytes: &'k [u8],
    /// Its hash, from [`crate::Session::key`].
    pub hash: u64,
}

/// The number of a key in its group, see [`crate::Ahead::expect`]. The default is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlanceId(u16);

impl Default for GlanceId {
    #[inline]
    fn default() -> Self {
        Self(u16::MAX)
    }
}

impl GlanceId {
    #[inline]
    pub(crate) fn new(index: usize) -> Self {
        debug_assert!(index < usize::from(u16::MAX), "a group is small");
        Self(index as u16)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A key with waiters that a unit of work has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadyKey {
    /// The namespace that it is in.
    pub namespace: u16,
    /// The key.
    pub key: Arc<[u8]>,
    /// Its hash.
    pub hash: u64,
}
