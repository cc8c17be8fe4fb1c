//! Keys as sessions use them.

/// A key with what was computed about it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// The namespace that the key is in.
    pub namespace: u16,
    /// The key itself.
    pub bytes: &'k [u8],
    /// Its hash, from [`crate::Session::hash`].
    pub hash: u64,
}
