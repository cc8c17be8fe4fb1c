//! Taking bytes off the front of a payload. More than there are: None.

/// The next `len` bytes; `None`, and `input` stays where it is, when there are fewer.
pub(super) fn take<'i>(input: &mut &'i [u8], len: usize) -> Option<&'i [u8]> {
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}

/// The next `N` bytes, as [`take`].
pub(super) fn array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    take(input, N)?.try_into().ok()
}
